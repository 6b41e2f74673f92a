"""`init(local_mode=True)`: tasks and actors run in the driver's process, one after another, when they are called.

That is for debuggers. Refs, `get`, `put` and `wait` are the session's own; only whose code runs where differs. Arguments and results are copied
as they are on their way to a worker. A call has ended when `.remote()` returns, so that calls which wait for one another cannot work.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray._calls import checking
from eagleray._calls.actor_meta import BUILTIN_METHODS, meta_of
from eagleray._driver.local_calls import Call
from eagleray.actor import ActorHandle
from eagleray.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray._calls.actor_meta import ActorMeta

#: The actor whose method runs, for `runtime_context` and `exit_actor`.
CURRENT: contextvars.ContextVar[LocalActor | None] = contextvars.ContextVar("eagleray_local_actor", default=None)


class LocalExit(BaseException):
    """`exit_actor` in an actor of the driver's process."""


class LocalActors:
    """The actors of a session in local mode."""

    def __init__(self, env_vars: dict[str, str]) -> None:
        """Have none yet. `env_vars` are the job's."""
        self.env_vars = env_vars
        #: All that somebody has a handle on.
        self.actors: weakref.WeakValueDictionary[bytes, LocalActor] = weakref.WeakValueDictionary()
        #: Named ones by namespace and name. Only detached ones live by their names.
        self.names: dict[tuple[str, str], weakref.ref[LocalActor]] = {}
        self.detached: list[LocalActor] = []

    def create(self, actor_class: Any, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make an actor, or find the one of that name."""
        name = options.get("name") or ""
        namespace = options.get("namespace") or _native.identity()["namespace"]
        known = self.find(namespace, name) if name else None
        if known is not None:
            if options.get("get_if_exists"):
                return known
            from eagleray.exceptions import ActorAlreadyExistsError

            raise ActorAlreadyExistsError(
                f"The name {name} (namespace={namespace}) is already taken by another actor. Please use a different name"
            )
        meta = meta_of(actor_class._cls, options, os.urandom(16), is_async=actor_class._is_async)
        actor = LocalActor(self, actor_class._cls, options, meta)
        self.actors[actor.actor_id] = actor
        if name:
            self.names[namespace, name] = weakref.ref(actor)
        if options.get("lifetime") == "detached":
            self.detached.append(actor)
        actor.construct(args, kwargs)
        return actor.handle()

    def find(self, namespace: str, name: str) -> Any:
        """Find a living actor by its name."""
        held = self.names.get((namespace, name))
        actor = held() if held is not None else None
        return None if actor is None or actor.death is not None else actor.handle()

    def all_names(self) -> list[tuple[str, str]]:
        """List the names of living actors."""
        return [(namespace, name) for namespace, name in self.names if self.find(namespace, name) is not None]

    def end(self) -> None:
        """End the event loops of all actors."""
        for actor in list(self.actors.values()):
            actor.die("The actor is dead because its owner has died.")


class LocalActor:
    """An actor in the driver's process."""

    def __init__(self, session: LocalActors, cls: Any, options: dict[str, Any], meta: ActorMeta) -> None:
        """Have no instance yet."""
        import pickle

        self.session = session
        self.cls = cls
        self.meta = meta
        self.actor_id = os.urandom(12) + bytes.fromhex(_native.identity()["job_id"])
        self.env_vars = {**session.env_vars, **((options.get("runtime_env") or {}).get("env_vars") or {})}
        self.methods: dict[str, Any] = pickle.loads(meta.packed)["methods"]
        self.about = {
            "name": options.get("name") or "",
            "incarnation": 0,
            "meta": meta.packed,
            "is_async": meta.is_async,
        }
        self.instance: Any = None
        #: Why it is dead.
        self.death: Any = None
        self.method = "__init__"
        self.loop = _LoopThread() if meta.is_async else None

    def construct(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make the instance; what its constructor raises is why the actor is dead."""
        self.instance = self.cls.__new__(self.cls)
        call = Call(f"{self.cls.__name__}.__init__", self.env_vars, actor=self)
        failed = call.begin(self.instance.__init__, args, kwargs)[1]
        if failed is not None:
            self.die(failed)

    def handle(self) -> LocalHandle:
        """Make a handle."""
        made: LocalHandle = LocalHandle(self.actor_id, self.meta, None)
        made.__dict__["_local"] = self
        return made

    def die(self, why: BaseException | str) -> None:
        """Answer no more calls."""
        if self.death is None:
            self.death = why
            self.instance = None
            if self.loop is not None:
                self.loop.stop()

    def bound(self, method: str) -> Callable[..., Any]:
        """Find a method of the instance."""
        if method == "__ray_call__":
            return lambda function, *args, **kwargs: function(self.instance, *args, **kwargs)
        if method in BUILTIN_METHODS:
            return (lambda: True) if method == "__ray_ready__" else exit_actor
        found: Callable[..., Any] = getattr(self.instance, method)
        return found

    def function_name(self) -> str:
        """Name the method that runs, with module and class."""
        from eagleray._worker.process import full_name

        return f"{full_name(self.cls)}.{self.method}"


class LocalHandle(ActorHandle):
    """A handle on an actor in the driver's process."""

    def __getattribute__(self, name: str) -> Any:
        """Find methods of the actor before those of handles."""
        actor = object.__getattribute__(self, "__dict__").get("_local")
        if actor is not None and name in actor.methods:
            return LocalMethod(self, actor, name)
        return super().__getattribute__(name)

    def _is_current(self) -> bool:
        actor = self.__dict__["_local"]
        return actor is not None and actor.session.actors.get(actor.actor_id) is actor

    def _kill(self, _no_restart: bool) -> None:  # noqa: FBT001
        self.__dict__["_local"].die("The actor is dead because it was killed by `ray.kill`.")

    def _reduce(self, *, is_counted: bool) -> tuple[Any, ...]:
        del is_counted
        return _rebuilt, (self._actor_id, self._meta.packed)


def _rebuilt(actor_id: bytes, packed: bytes) -> Any:
    from eagleray._calls.actor_meta import unpacked
    from eagleray._driver.session import SESSION

    actor = SESSION.local.actors.get(actor_id) if SESSION.local is not None else None
    return ActorHandle(actor_id, unpacked(packed), None) if actor is None else actor.handle()


class LocalMethod:
    """A method of an actor in the driver's process."""

    def __init__(
        self, handle: LocalHandle, actor: LocalActor, name: str, options: dict[str, Any] | None = None
    ) -> None:
        """Take over what the method was decorated with."""
        self._handle = handle
        self._actor = actor
        self._name = name
        self._options = options or {}

    def options(self, **options: Any) -> LocalMethod:
        """Give the same method under other options."""
        merged = checking.merge_method_options(self._options, options)
        return LocalMethod(self._handle, self._actor, self._name, merged)

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Call it under these options; those that are None stay as they are. Libraries call this."""
        options = {name: value for name, value in options.items() if value is not None}
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as handle, method and options."""
        return _rebuilt_method, (self._handle, self._name, self._options)

    def bind(self, *_args: Any, **_kwargs: Any) -> None:
        """Refuse to make a node of a task graph."""
        raise NotImplementedError("task graphs made by bind() are not available in this version")

    def __call__(self, *_args: Any, **_kwargs: Any) -> None:
        """Refuse: methods are called by `.remote()`."""
        raise TypeError(
            f"Actor methods cannot be called directly. Instead of running 'object.{self._name}()', try "
            f"'object.{self._name}.remote()'."
        )

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method now; gives refs of its results."""
        actor = self._actor
        signature, returns, retries, retry, name, is_generator, _ = actor.methods[self._name]
        signature.check(args, kwargs)
        own = self._options
        if "num_returns" in own:
            returns = checking.returns_of(own, is_generator=is_generator)
        call = Call(
            own.get("name") or name,
            actor.env_vars,
            actor=actor,
            returns=returns,
            retries=own.get("max_task_retries", retries) or 0,
            retry=own.get("retry_exceptions", retry),
        )
        if actor.death is not None:
            return call.failed(ActorDiedError(actor.death, actor.actor_id))
        actor.method = self._name
        return call.run(actor.bound(self._name), args, kwargs)


def _rebuilt_method(handle: Any, name: str, options: dict[str, Any]) -> Any:
    method = getattr(handle, name)
    return method.options(**options) if options else method


class _LoopThread:
    """The event loop of an async actor, on a thread of its own: the driver's thread may have one that runs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="eagleray-local-loop", daemon=True)
        self._thread.start()

    def run(self, body: Callable[[], Any]) -> Any:
        """Run a function, and what it returns if that is a coroutine, to its end."""
        if threading.current_thread() is self._thread:
            # A method calls another one of its actor: that cannot wait for this loop.
            inner = _LoopThread()
            try:
                return inner.run(body)
            finally:
                inner.stop()
        return asyncio.run_coroutine_threadsafe(_whole(body), self._loop).result()

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _whole(body: Callable[[], Any]) -> Any:
    import inspect

    result = body()
    if inspect.isasyncgen(result):
        return [item async for item in result]
    return await result if inspect.isawaitable(result) else result


def exit_actor() -> None:
    """End the actor that calls this."""
    actor = CURRENT.get()
    if actor is None:
        raise TypeError("exit_actor API is called on a non-actor worker")
    actor.death = "The actor is dead because it exited by itself (exit_actor or exit code 0, INTENDED_USER_EXIT)."
    raise LocalExit


def task(function: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """Make what a remote function's calls do in local mode."""
    from eagleray._driver.session import SESSION

    env_vars = {**SESSION.local.env_vars, **((options.get("runtime_env") or {}).get("env_vars") or {})}
    retries = options.get("max_retries")

    def run(*args: Any, **kwargs: Any) -> Any:
        call = Call(
            options.get("name") or function._function.__qualname__.rpartition("<locals>.")[2],
            env_vars,
            function=function._function,
            returns=checking.returns_of(options, is_generator=function._is_generator),
            retries=checking.default_max_retries() if retries is None else retries,
            retry=options.get("retry_exceptions", False),
        )
        return call.run(function._function, args, kwargs)

    return run
