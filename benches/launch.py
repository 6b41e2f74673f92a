"""The parent: runs a script of this folder with some system's interpreter, apart from everything else.

Each run has its own session, scratch folder, HOME and time limit. Afterwards no process and no file of it is left.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from measure import LIMIT_SECONDS, Timing
from outcome import Outcome
from processes import die_with_parent, end_descendants, strangers
from systems import job_of

FOLDER = Path(__file__).resolve().parent
# Starting, the case and ending have limits of their own in the child; past their sum it hangs where no signal helps.
HARD_LIMIT_SECONDS = 2 * LIMIT_SECONDS + 30.0
ERROR_LINES = 3
# These would make a system join a session that is not ours.
UNWANTED = ("RAY_ADDRESS", "EAGLERAY_ADDRESS", "PYTHONPATH", "VIRTUAL_ENV")

# Monarch writes its log here whatever TMPDIR says.
MONARCH_LOG = Path("/tmp") / getpass.getuser() / "monarch_log.log"


class Failed(Exception):
    """The child gave no answer; the text says why."""


def launch_case(
    python: Path, system: str, case: str, timing: Timing, *, beside: int, package: Path | None = None
) -> Outcome:
    """One case on one system in a process of its own, with that many CPU-bound strangers beside it.

    The system is imported from the folder `package` where one is given.
    """
    if job_of(system, case) is None:
        return Outcome(absent=True)
    arguments = ["--system", system, "--case", case]
    arguments += ["--seconds", str(timing.seconds), "--rounds", str(timing.rounds)]
    with strangers(beside) as spinning:
        try:
            return Outcome(**launch(python, "one_case.py", arguments, keep=spinning, package=package))
        except Failed as failure:
            return Outcome(error=str(failure))


def launch(
    python: Path,
    script: str,
    arguments: list[str],
    *,
    keep: frozenset[int] = frozenset(),
    package: Path | None = None,
) -> Any:
    """Run a script that takes `--out FILE`; returns the JSON that it wrote. Ends whatever it leaves running."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    answer = scratch / "answer.json"
    words = scratch / "words.txt"
    command = [str(python), str(FOLDER / script), *arguments, "--out", str(answer)]
    child = None
    had_log = MONARCH_LOG.exists()
    try:
        with words.open("wb") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(scratch, package),
                cwd=scratch,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
            try:
                child.wait(HARD_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                if not answer.exists():
                    raise Failed(f"no answer within {HARD_LIMIT_SECONDS:.0f} s") from None
        if not answer.exists():
            raise Failed(f"{_ending(child.returncode)}: {_last_lines(words)}")
        return json.loads(answer.read_text())
    finally:
        with undisturbed():
            if child is not None:
                child.kill()
            end_descendants(keep)
            shutil.rmtree(scratch, ignore_errors=True)
            if not had_log:
                MONARCH_LOG.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    MONARCH_LOG.parent.rmdir()


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that children and files are cleared away."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    # A shell that starts us in the background has SIGINT ignored; we want it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGHUP, on_signal)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold signals back: an impatient second Ctrl-C must not stop the clearing away."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment(scratch: Path, package: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    places = dict.fromkeys(("TMPDIR", "RAY_TMPDIR", "HOME"), str(scratch))
    return kept | places | ({"PYTHONPATH": str(package)} if package else {})


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_lines(words: Path) -> str:
    lines = [line.strip() for line in words.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-ERROR_LINES:]) or "nothing printed"
