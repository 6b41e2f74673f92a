"""Ray's debugger of remote tasks, which is not here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["post_mortem", "set_trace"]

_INSTEAD = (
    "tasks cannot be stopped in a debugger from outside; run the program with init(local_mode=True), which runs tasks and "
    "actors in the driver's process, where breakpoint() works"
)


def set_trace(breakpoint_uuid: Any = None) -> NoReturn:
    """Refuse: say what to do instead."""
    del breakpoint_uuid
    raise NotImplementedError(_INSTEAD)


def post_mortem() -> NoReturn:
    """Refuse: say what to do instead."""
    raise NotImplementedError(_INSTEAD)
