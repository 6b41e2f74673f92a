"""How an actor ends by its own will: what runs is finished, its last words are said, then the process ends."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any, NoReturn

from eagleray import _native
from eagleray.exceptions import AsyncioActorExit

SIGTERM_CODE = 15


class ActorExit(SystemExit):
    """Raised by `exit_actor` in a plain method. The actor ends even if it is caught."""


def leave(worker: Any) -> NoReturn:
    """End the actor on purpose. Calls under way are finished, the one that asks for this is not answered."""
    worker.is_leaving = True
    if worker.is_built and worker.server is not None:
        worker.server.leave()
    elif worker.is_built:
        _native.stop_serving(is_call=True)
    if worker.server is not None:
        raise AsyncioActorExit
    raise ActorExit(0)


def note_exit(worker: Any, error: SystemExit) -> None:
    """Take over what an exit of the user's code means: code 0 is the wish to end, others are failures."""
    code = exit_code(error)
    if isinstance(error, ActorExit) or code == 0:
        worker.is_leaving = True
    elif not worker.exit_code:
        worker.exit_code = code


def die_of(number: int) -> None:
    """End by this signal, as any process does that has no handler for it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def on_sigterm(worker: Any) -> None:
    """End, but let an actor finish the calls that it runs. A second SIGTERM does not wait for them."""
    if worker is None or not (worker.is_built or _is_idle()) or worker.exit_code:
        raise SystemExit(SIGTERM_CODE)
    worker.exit_code = SIGTERM_CODE
    _native.stop_serving(is_call=False)


def _is_idle() -> bool:
    """Whether this thread runs no call and no constructor. It waits in native code then, where nobody hears what a handler raises."""
    return _native.is_joined() and _native.identity()["task_id"] is None


def exit_code(error: SystemExit) -> int:
    """Give the process's exit code, as Python does."""
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def say_last_words(worker: Any) -> None:
    """Run what the user wants to run at the end: the actor's `__ray_shutdown__`, then the exit handlers."""
    import atexit

    if worker.is_built:
        with contextlib.suppress(Exception):
            _shut_down(worker)
    from eagleray._driver import session

    atexit.unregister(session.at_exit)
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    if worker.is_built:
        # Nobody uses it any more: its `__del__` is the last that runs.
        _native.forget_methods()
        worker.actor = None


def _shut_down(worker: Any) -> None:
    last = getattr(worker.actor, "__ray_shutdown__", None)
    if last is None:
        return
    result = last()
    if worker.server is not None and hasattr(result, "__await__"):
        worker.server.finish(result)
