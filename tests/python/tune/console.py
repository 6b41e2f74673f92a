"""Trials and a terminal for the tests of the console."""

import re
from pathlib import Path

from eagleray.tune._console.text import width
from eagleray.tune.experiment.trial import Trial


def make_trial(number, status=Trial.PENDING, *, params=None, folder="/results/exp", error=None, failures=0, **metrics):
    """A trial as the engine would hand it over."""
    params = {"lr": 0.1} if params is None else params
    path = None if folder is None else Path(folder) / f"train_3f2a1_{number:05d}"
    trial = Trial(
        "train",
        number=number,
        trial_id=f"3f2a1_{number:05d}",
        config=dict(params),
        evaluated_params=dict(params),
        path=path,
    )
    trial.status = status
    trial.last_result = metrics
    trial.error, trial.num_failures = error, failures
    return trial


def move(view, trial, new):
    """Change a trial's status as the engine does."""
    old, trial.status = trial.status, new
    view.on_status(trial, old, new)


def report(view, trial, **metrics):
    trial.last_result = metrics
    view.on_result(trial)


class FakeTerminal:
    """Understands the few sequences that a view may send, and fails on any other."""

    def __init__(self, columns=80, rows=24):
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self.row = self.column = 0
        self.colours = 0

    def feed(self, output):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.?|\r|\n|[^\x1b\r\n]+", output):
            self._take(part)
        return self

    def _take(self, part):
        if part == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
            # A pty sends \r\n; a stream of ours does not.
            self.column = 0
        elif part == "\r":
            self.column = 0
        elif part.startswith("\x1b"):
            self._obey(part)
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + part + line[self.column + len(part) :]
            self.column += len(part)
            assert width(self.lines[self.row]) <= self.columns, f"wraps: {self.lines[self.row]!r}"

    def _obey(self, sequence):
        code, argument = sequence[-1], sequence[2:-1]
        if code == "A":
            assert int(argument) < self.rows, "cannot move above the top of the screen"
            self.row -= int(argument)
            assert self.row >= 0
        elif code == "J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif code == "m":
            self.colours += 1
        else:
            raise AssertionError(f"unknown sequence {sequence!r}")

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)
