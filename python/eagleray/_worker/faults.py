"""The Python stack of a crash: a worker writes it to a file of its own, from where it gets into the error that its callers see."""

from __future__ import annotations

import faulthandler
import os

_STDERR = 2


def write_to(path: str) -> None:
    """Write the stacks of this process there when it crashes. Children that the user's code forks go on with standard error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.enable(file=descriptor)
    os.register_at_fork(after_in_child=_begin)


def _begin() -> None:
    # Nobody reads the file for them: their parent lives on.
    if faulthandler.is_enabled():
        faulthandler.enable(file=_STDERR)
