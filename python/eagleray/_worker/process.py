"""What a worker does in Python: joins its node, loads functions, builds its actor, turns exceptions into answers."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray._calls.retries import RetryFilters
from eagleray._common.settings import from_env
from eagleray._node import facts
from eagleray._worker import actor_end, async_context, faults, streams
from eagleray._worker.surroundings import Followed

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKER: Worker | None = None
#: Of the worker itself, not of what the user's code forks off it.
_PID = 0


class Worker:
    """This process as a worker. Native code calls `load`, `method`, `build`, `fail`, `count`, `idle` and `assigned`."""

    def __init__(self, notices: Sequence[str] = ()) -> None:
        """Serve nothing yet. The first driver that it works for reads the notices."""
        self.actor: Any = None
        self.actor_id: bytes | None = None
        self.about: dict[str, Any] = {}
        self.is_built = False
        #: The event loop of an async actor, from before its constructor runs.
        self.server: Any = None
        #: It ends on purpose, so its end is no failure.
        self.is_leaving = False
        self.exit_code = 0
        self._retries = RetryFilters()
        self._calls: dict[bytes, int] = {}
        #: The full names of functions by their ids.
        self._functions: dict[bytes, str] = {}
        self._followed = Followed()
        #: How the job's loggers write, as its driver said.
        self._logging: str | None = None
        self._notices = list(notices)

    @property
    def groups(self) -> list[int]:
        """How many calls each group of the actor's methods runs at once, without the default group."""
        return list(self._meta.groups.values())

    @property
    def _meta(self) -> Any:
        from eagleray._calls.actor_meta import unpacked

        return unpacked(self.about["meta"])

    def assigned(self) -> None:
        """Take over what the lease gives: import paths, GPUs, thread limits."""
        self._followed.follow(_native.identity())
        logging = os.environ.get("EAGLERAY_LOGGING_CONFIG")
        if logging != self._logging and logging is not None:
            from eagleray._common.logging_config import apply_from

            apply_from(logging)
        self._logging = logging
        while self._notices:
            _native.notice("worker_launcher", self._notices.pop(0))

    def load(self, function_id: bytes, name: str) -> Any:
        """Load a function's body."""
        body = _native.fetch(function_id)
        if body is None:
            raise RuntimeError(f"The remote function {name} was never exported to this node")
        import pickle

        try:
            function, retry_filter = pickle.loads(body)
        except Exception as error:
            from eagleray._errors.imports import failed_import

            raise failed_import("function", name, error) from error
        self._retries.note(function_id, retry_filter)
        with contextlib.suppress(Exception):  # a callable may have its own opinion of its attributes
            self._functions[function_id] = full_name(function)
        return function

    def forget_functions(self) -> None:
        """Keep nothing of the functions that were loaded so far: a program may define ever new ones."""
        self._functions.clear()
        self._retries.forget()

    def function_name(self) -> str | None:
        """Name the function or method that runs here, with its module."""
        task_id = async_context.TASK.get()
        if task_id is not None and self.server is not None:
            calls = (call for server in self.server.crew for call in list(server.running))
            method = next((call.method for call in calls if call.task_id == task_id), None)
        else:
            names = _native.current_names()
            if names is None:
                return None
            method = names[1]
            if not method:
                return self._functions.get(names[2])
        return f"{full_name(type(self.actor))}.{method}" if method else None

    def method(self, name: str) -> Any:
        """Find a method of the actor."""
        if name == "__ray_call__":
            return self._call_with_actor
        if name == "__ray_ready__":
            return _ready
        if name == "__ray_terminate__":
            return _terminate
        size = self._meta.groups_of_values.get(name)
        if size is not None:
            from eagleray._calls.grouped_yields import Grouped

            return Grouped(getattr(self.actor, name), size)
        return getattr(self.actor, name)

    def _call_with_actor(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self.actor, *args, **kwargs)

    def build(self, about: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[bool, str]:
        """Build the actor. Says whether it serves calls side by side, and what marks its output."""
        import pickle

        self.about = about
        self.actor_id = about["actor_id"]
        body = _native.fetch(about["class_id"])
        if body is None:
            raise RuntimeError(f"The actor class {about['class_name']} was never exported to this node")
        try:
            cls, filters = pickle.loads(body)
        except Exception as error:
            from eagleray._errors.imports import failed_import

            raise failed_import("actor", about["class_name"], error) from error
        self._retries.note(about["class_id"], filters)
        self.actor = cls.__new__(cls)
        self._construct(args, kwargs or {})
        if self.is_leaving:
            raise actor_end.ActorExit(0)
        self.is_built = True
        ahead = self._meta.ahead_together
        if ahead:
            _native.bound_generators(ahead)
        is_side_by_side = self.server is not None or bool(self.groups) or int(about["concurrency"]) > 1
        return is_side_by_side, _shown_as(self.actor, about["class_name"])

    def _construct(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.about["is_async"]:
            self.actor.__init__(*args, **kwargs)
            return
        from eagleray._worker.async_actor import Server
        from eagleray.exceptions import AsyncioActorExit

        self.server = Server(self)
        try:
            self.server.construct(args, kwargs)
        except AsyncioActorExit:
            self.is_leaving = True

    def serve_side_by_side(self) -> str:
        """Serve calls on an event loop or on threads until told to end; says how."""
        if self.server is not None:
            return str(self.server.serve())
        from eagleray._worker.threaded_actor import serve

        return serve(self)

    def fail(self, error: BaseException, name: str, retries: tuple[bytes, str] | None) -> tuple[Any, bool]:
        """Make what travels back for an exception, and say whether the call wants it tried again.

        `retries`: which body and method of it say so; None: no exception is worth another run.
        """
        try:
            return self._answer(error, name, retries)
        except OSError:
            # No descriptor is left to import or read anything. The frames that raised may hold those that are missing.
            _clear_frames(error)
            return self._answer(error, name, retries)

    def _answer(self, error: BaseException, name: str, retries: tuple[bytes, str] | None) -> tuple[Any, bool]:
        from eagleray._errors import causes
        from eagleray.exceptions import RayTaskError

        if isinstance(error, ModuleNotFoundError):
            from eagleray._errors.imports import advise

            advise(error)
        actor_repr = None
        actor_id = None
        if self.actor_id is not None:
            actor_id = self.actor_id.hex()
            try:
                actor_repr = repr(self.actor)
            except Exception:
                actor_repr = f"<{type(self.actor).__name__}>"
        is_argument = "_is_argument" in causes.attributes_of(error)
        make = RayTaskError.from_dependency if is_argument else RayTaskError.from_exception
        made = make(error, name, os.getpid(), facts.ip_of(_native.identity()["session_dir"]), actor_id, actor_repr)
        again = retries is not None and self._retries.wants(error, *retries)
        streams.flush()
        return made, again

    def end_forked(self, error: BaseException | None) -> None:
        """End a child that the user's code forked and that has left that code: by return, or by an exception."""
        code = 0
        try:
            if isinstance(error, SystemExit):
                code = actor_end.exit_code(error)
            elif error is not None:
                import traceback

                code = 1
                traceback.print_exception(error)
            streams.flush()
        finally:
            os._exit(code)

    def idle(self) -> None:
        """Nothing is to be done right now."""
        streams.flush_or_mend()

    def count(self, function_id: bytes, calls_max: int) -> bool:
        """Count a call; true if this worker has served as many as it may."""
        calls = self._calls[function_id] = self._calls.get(function_id, 0) + 1
        return calls >= calls_max


def full_name(target: Any) -> str:
    """Name a function or class with its module; the driver's script counts as a module."""
    module = getattr(target, "__module__", None) or ""
    if module == "__main__":
        of_class = (
            (getattr(value, "__code__", None) for value in vars(target).values()) if isinstance(target, type) else ()
        )
        codes = [code for code in (getattr(target, "__code__", None), *of_class) if code is not None]
        file = os.path.basename(codes[0].co_filename) if codes else ""
        if file.endswith(".py"):
            module = file.removesuffix(".py")
    name = getattr(target, "__qualname__", repr(target)).rpartition("<locals>.")[2]
    return f"{module}.{name}" if module else name


def _shown_as(actor: Any, class_name: str) -> str:
    own: Any = type(actor).__repr__
    if own is object.__repr__:
        return class_name
    try:
        return " ".join(repr(actor).split())
    except Exception:
        return class_name


def _clear_frames(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None:
        with contextlib.suppress(RuntimeError):  # it still runs
            trace.tb_frame.clear()
        trace = trace.tb_next


def _ready() -> bool:
    return True


def _terminate() -> None:
    from eagleray.actor import exit_actor

    exit_actor()


def run(socket_fd: int, slot: int, epoch: int, session_dir: str, notices: Sequence[str]) -> None:
    """Live as a worker."""
    global WORKER
    code = 1
    try:
        _settle(slot, epoch, session_dir)
        _native.join_worker(socket_fd, slot)
        from eagleray._driver import session

        session.record_sites_if_asked()
        WORKER = Worker(notices)
        code = _serve(WORKER)
    except SystemExit as error:
        code = actor_end.exit_code(error)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        streams.flush()
        os._exit(code)


def _settle(slot: int, epoch: int, session_dir: str) -> None:
    """Make the forked process a proper one: its own output files, signals, random numbers, priority."""
    global _PID
    _PID = os.getpid()
    streams.redirect(os.path.join(session_dir, "logs"), f"worker-{slot}-{epoch}")
    import signal

    faults.write_to(os.path.join(session_dir, "logs", f"fault-{slot}-{epoch}"))
    signal.signal(signal.SIGINT, _on_sigint)
    signal.signal(signal.SIGURG, _on_jolt)
    signal.signal(signal.SIGTERM, _on_sigterm)
    from eagleray._common import forks

    forks.guard(_on_sigterm)
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if niceness := int(from_env("worker_niceness") or 15):
        os.nice(niceness)
    from eagleray._driver import session

    session.SESSION.auto_init_off = True


def _on_sigint(_number: int, _frame: Any) -> None:
    if _native.shall_interrupt():
        raise KeyboardInterrupt


def _on_jolt(_number: int, _frame: Any) -> None:
    """Does nothing: that it was called ends a system call, so that Python sees what else has come."""


def _on_sigterm(number: int, _frame: Any) -> None:
    if os.getpid() != _PID:
        # A child that the user's code forked: it has no calls to finish.
        actor_end.die_of(number)
    actor_end.on_sigterm(WORKER)


def _serve(worker: Worker) -> int:
    """Serve until told to end; returns the exit code."""
    try:
        how = _native.serve(worker)
        if how == "built":
            how = worker.serve_side_by_side()
    except SystemExit as error:
        actor_end.note_exit(worker, error)
        how = "exit"
    if worker.is_leaving:
        _native.leaving()
    if how == "exit":
        actor_end.say_last_words(worker)
    streams.flush()
    return worker.exit_code
