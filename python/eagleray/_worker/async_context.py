"""Which task a coroutine of an async actor belongs to."""

from __future__ import annotations

import contextvars

TASK: contextvars.ContextVar[str | None] = contextvars.ContextVar("eagleray_task", default=None)

NAME: contextvars.ContextVar[str | None] = contextvars.ContextVar("eagleray_task_name", default=None)


def current_task_id() -> str | None:
    """Give the id of the task that the running coroutine serves."""
    return TASK.get()
