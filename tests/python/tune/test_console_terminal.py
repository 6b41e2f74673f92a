"""The view in a real terminal (a pty with a program in it), and in a file."""

import codecs
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from tests.python.tune.console import FakeTerminal

#: Shows an experiment of six trials. `argv[1]` says how it ends.
DRIVER = """
import logging, sys, time
from pathlib import Path
from eagleray.tune._console import make_view
from eagleray.tune.experiment.trial import Trial

how = sys.argv[1]
logging.basicConfig(format="log: %(message)s")
trials = [Trial("train", number=at, trial_id=f"abcde_{at:05d}", config={"lr": at / 10}, evaluated_params={"lr": at / 10},
                path=Path(f"/results/exp/train_abcde_{at:05d}")) for at in range(6)]
print("before")
with make_view("exp", metric="loss", mode="min", total_samples=6, folder="/results/exp", resources=lambda: "1/2 CPU") as view:
    def move(trial, new):
        old, trial.status = trial.status, new
        view.on_status(trial, old, new)
    for trial in trials:
        view.on_status(trial, None, Trial.PENDING)
    for trial in trials:
        move(trial, Trial.RUNNING)
        view.refresh(force=True)
        for at in range(1, 4):
            trial.last_result = {"loss": trial.number + 1 / at, "training_iteration": at, "time_total_s": at}
            view.on_result(trial)
            view.refresh(force=True)
            if at == 2:
                print(f"printed by {trial.number}")
                sys.stderr.write("half a line")
                view.refresh(force=True)
                sys.stderr.write(", and the rest\\n")
                logging.warning("from %d", trial.number)
        if how == "wait" and trial.number == 2:
            time.sleep(0.6)   # the view draws itself meanwhile
            print("waiting", flush=True)
            time.sleep(60)
        if trial.number == 4:
            trial.error = ValueError("bad")
            trial.num_failures = 1
        move(trial, Trial.ERROR if trial.error else Trial.TERMINATED)
        view.refresh()
    if how == "raise":
        raise RuntimeError("the engine's own fault")
print("after")
"""


class Pty:
    """A program in a terminal of its own."""

    def __init__(self, arguments, *, columns, rows, environ):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
            # The terminal that Ctrl-C is typed at must be the program's own.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.output = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read_until(self, words=None):
        """Read until these words come (or a function says that it is enough), or to the end."""
        is_enough = words if callable(words) else lambda output: words is not None and words in output
        deadline = time.monotonic() + 50
        while not is_enough(self.output):
            assert time.monotonic() < deadline, f"{words!r} never came: {self.output[-2000:]!r}"
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            self.output += self._decoder.decode(piece)
        return self.output

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.master)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def environ_with(**variables):
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES", "TERM")}
    return {**known, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **variables}


@pytest.fixture
def in_terminal():
    """Runs the program in a terminal; gives it to the test."""
    made = []

    def run(how, *, columns=80, rows=30, **variables):
        made.append(Pty([how], columns=columns, rows=rows, environ=environ_with(**variables)))
        return made[-1]

    yield run
    for one in made:
        one.close()


END = """\
Tune      exp
Time      {time}, done
Trials    6: 5 TERMINATED, 1 ERROR
Best      loss=0.333333 at iteration 3 of abcde_00000: lr=0.0
Results   /results/exp

status      trial         lr  iter   time      loss
───────────────────────────────────────────────────
ERROR       abcde_00004  0.4     3  3.0 s   4.33333
TERMINATED  abcde_00005  0.5     3  3.0 s   5.33333
TERMINATED  abcde_00003  0.3     3  3.0 s   3.33333
TERMINATED  abcde_00002  0.2     3  3.0 s   2.33333
TERMINATED  abcde_00001  0.1     3  3.0 s   1.33333
TERMINATED  abcde_00000    0     3  3.0 s  0.333333

1 failed
  abcde_00004  ValueError: bad
    /results/exp/train_abcde_00004/error.txt
after
"""

#: What the program prints while the view is there: all of it, in order, each on lines of its own.
PRINTED = "before\n" + "".join(f"printed by {at}\nhalf a line, and the rest\nlog: from {at}\n" for at in range(6))


def with_time(screen):
    """The end as it must be, with the time that it happened to take."""
    lines = screen.split("\n")
    told = [line for line in lines if line.startswith("Time ")]
    assert len(told) == 1, screen
    return END.format(time=told[0].removeprefix("Time      ").removesuffix(", done")).replace("lr=0.0\n", "lr=0\n")


@pytest.mark.parametrize(("columns", "rows"), [(80, 30), (200, 50), (80, 12)])
def test_the_view_is_drawn_over_in_place_and_what_is_printed_stays(in_terminal, columns, rows):
    running = in_terminal("end", columns=columns, rows=rows)
    output = running.read_until()
    assert running.process.wait() == 0
    assert output.count("\x1b[J") > 5
    screen = FakeTerminal(columns, rows).feed(output).text
    assert screen == PRINTED + with_time(screen)


def test_a_narrow_terminal_is_never_written_past_its_edge(in_terminal):
    running = in_terminal("end", columns=40, rows=30)
    # The last view may be wider than the terminal: its paths stay whole.
    screen = FakeTerminal(44, 30).feed(running.read_until()).text
    assert running.process.wait() == 0
    assert screen.startswith(PRINTED)
    assert screen.count("Tune      exp") == 1


def test_ctrl_c_leaves_a_clean_screen(in_terminal):
    running = in_terminal("wait")
    # The view is back below what was printed, and the cursor below the view.
    running.read_until(lambda output: "\x1b[J" in "".join(output.split("waiting\r\n")[1:]) and output.endswith("\r\n"))
    os.write(running.master, b"\x03")
    output = running.read_until()
    assert running.process.wait() in (-signal.SIGINT, 128 + signal.SIGINT, 1)
    screen = FakeTerminal(80, 30).feed(output).text
    assert screen.count("Tune      exp") == 1
    assert ", interrupted\n" in screen
    assert "^C" not in screen
    # Nothing of the live view is left between what was printed and the last view.
    above, below = screen.split("Tune      exp")
    assert above.endswith("log: from 2\nwaiting\n")
    assert "RUNNING     abcde_00002" in below
    assert "KeyboardInterrupt" in below


def test_the_view_goes_on_while_the_engine_waits(in_terminal):
    running = in_terminal("wait")
    running.read_until("waiting")
    drawn = running.output.count("\x1b[J")
    running.read_until(lambda output: output.count("\x1b[J") >= drawn + 5)


def test_an_error_of_the_program_is_printed_below_the_last_view(in_terminal):
    running = in_terminal("raise")
    screen = FakeTerminal(120, 30).feed(running.read_until()).text
    assert running.process.wait() == 1
    assert screen.count("Tune      exp") == 1
    assert ", failed\n" in screen
    assert screen.rstrip().endswith("RuntimeError: the engine's own fault")


def test_colours_are_for_those_who_want_them(in_terminal):
    assert "\x1b[36mRUNNING" in in_terminal("end").read_until()
    plain = in_terminal("end", NO_COLOR="1").read_until()
    assert "\x1b[36m" not in plain
    assert "\x1b[J" in plain


def test_a_terminal_that_knows_no_cursor_gets_no_escape_sequence(in_terminal):
    running = in_terminal("end", TERM="dumb")
    output = running.read_until()
    assert running.process.wait() == 0
    assert "\x1b" not in output
    assert "Tune      exp" in output


def test_a_file_gets_no_escape_sequence(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        subprocess.run(
            [sys.executable, "-c", DRIVER, "end"], stdout=file, stderr=file, env=environ_with(), check=True, timeout=50
        )
    text = log.read_text()
    assert "\x1b" not in text
    assert "\r" not in text
    assert "abcde_00004 failed: ValueError: bad, see /results/exp/train_abcde_00004/error.txt\n" in text
    # A block for each that was asked for, and the last one.
    assert text.count("Tune      exp") == 1 + 6 * 5
    # The last one is whole and ends the view.
    assert text.endswith("    /results/exp/train_abcde_00004/error.txt\n\nafter\n")


def test_a_file_without_unicode_is_written_all_the_same(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        environ = environ_with(PYTHONIOENCODING="ascii")
        subprocess.run(
            [sys.executable, "-c", DRIVER, "end"], stdout=file, stderr=file, env=environ, check=True, timeout=50
        )
    assert log.read_bytes().isascii()
