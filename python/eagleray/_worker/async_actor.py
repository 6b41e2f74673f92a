"""Serves an actor whose methods are coroutines: one event loop whose selector reads calls from the rings before it polls descriptors.

Each group of methods has a loop of its own on a thread of its own; the default one's runs on the main thread. While nothing but calls can
happen a loop sleeps on the process's doorbell; with descriptors of the user's own it sleeps in epoll, and a second thread stands at the
doorbell.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import signal
import threading
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray._worker import actor_end, streams
from eagleray._worker.async_context import NAME, TASK
from eagleray.exceptions import AsyncioActorExit

if TYPE_CHECKING:
    from collections import deque


class Server:
    """An event loop of an async actor and the calls that it runs: those of one group of methods."""

    def __init__(self, worker: Any, group: int = 0, limit: int = 0, first: Server | None = None) -> None:
        """Make the default group's server, or, beside that `first` one, another group's."""
        self.worker = worker
        self.core = _native.LoopCore(group)
        self.limit = limit or max(1, int(worker.about["concurrency"]))
        #: The servers of all groups; every one has the same list.
        self.crew: list[Server] = [] if first is None else first.crew
        self.crew.append(self)
        #: Calls under way; a task is missing only while it is made.
        self.running: dict[Any, asyncio.Task[None] | None] = {}
        #: Generators whose readers are too far behind.
        self.held: dict[Any, asyncio.Future[None]] = {}
        #: Calls that asked the actor to end: they get no answer.
        self.exiting: set[str] = set() if first is None else first.exiting
        self.is_taking = False
        self.how = ""
        self.error: BaseException | None = None
        self.thread = threading.get_ident()
        self.selector = _Selector(self)
        self.loop = _Loop(self.selector)
        if first is None:
            asyncio.set_event_loop(self.loop)
            _native.serve_coroutines(TASK)

    def construct(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the constructor on the loop, so that it may start tasks there, or be a coroutine itself."""

        async def run() -> None:
            made = self.worker.actor.__init__(*args, **kwargs)
            if inspect.isawaitable(made):
                await made

        self.loop.run_until_complete(run())

    def serve(self) -> str:
        """Serve until told to end; says how."""
        others = [Server(self.worker, 1 + at, limit, self) for at, limit in enumerate(self.worker.groups)]
        threads = [
            threading.Thread(target=other.run_beside, name=f"eagleray-loop-{1 + at}", daemon=True)
            for at, other in enumerate(others)
        ]
        self.is_taking = True
        for thread in threads:
            thread.start()
        if self.worker.is_leaving:
            self.loop.call_soon(self.stop, "exit")
        self.loop.run_forever()
        if self.how != "abort":
            for thread in threads:
                thread.join()
        error = next((server.error for server in self.crew if server.error is not None), None)
        if error is not None:
            raise error
        return self.how

    def run_beside(self) -> None:
        """Serve a group on a thread of its own."""
        self.thread = threading.get_ident()
        self.is_taking = True
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        except SystemExit as error:
            actor_end.note_exit(self.worker, error)
            self.stop("exit")
        except BaseException as error:
            self.error = error
            self.stop("exit")

    def finish(self, awaitable: Any) -> None:
        """Run something to its end after the last call."""

        async def run() -> None:
            await awaitable

        self.loop.run_until_complete(run())

    def take_calls(self) -> bool:
        """Start every call that has come and may run; true if more may come."""
        while self.is_taking and len(self.running) < self.limit:
            call = self.core.try_call(self.worker)
            if call is None:
                return True
            if isinstance(call, str):
                self.stop(call)
                break
            self.start(call)
        return False

    def start(self, call: Any) -> None:
        """Run one call as a task of the loop."""
        if call.is_cancelled():
            call.cancelled()
            return
        loop = self.loop
        name = call.name
        coroutine = self.run(call, name)
        if loop._task_factory is None:
            # What `create_task` does; with a name, since to think one up takes longer than the rest.
            task = asyncio.Task(coroutine, loop=loop, name=name)
        else:
            # An eager factory makes the first step here and now, and it may be the last.
            self.running[call] = None
            task = loop.create_task(coroutine)
            if call not in self.running:
                return
        self.running[call] = task

    async def run(self, call: Any, name: str) -> None:
        """Run one call to its end, and answer."""
        task_id = call.task_id
        TASK.set(task_id)
        NAME.set(name)
        try:
            result = call.invoke()
            if call.yields or type(result) is AsyncGeneratorType:
                result = await _generators().run(self, call, result)
            # The exact type first: `isawaitable` alone costs as much as the rest of a short call.
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
        except asyncio.CancelledError as error:
            if call.is_cancelled():
                call.interrupted(self.worker)
            elif task_id not in self.exiting:
                call.fail(self.worker, error)
        except AsyncioActorExit:
            self.worker.is_leaving = True
            self.stop("exit")
        except SystemExit as error:
            actor_end.note_exit(self.worker, error)
            self.stop("exit")
        except BaseException as error:
            if task_id not in self.exiting:
                call.fail(self.worker, error)
        else:
            if task_id not in self.exiting:
                self.answer(call, result)
        finally:
            self.running.pop(call, None)
            if self.how:
                self.exiting.discard(task_id)
                self.end_if_done()

    def answer(self, call: Any, result: Any) -> None:
        """Send a result; what cannot be sent is an error of the call."""
        try:
            call.finish(self.worker, result)
        except SystemExit:
            raise
        except BaseException as error:
            call.fail(self.worker, error)

    async def until_wanted(self, call: Any) -> None:
        """Wait until a generator's reader has caught up, or the generator has to end."""
        while not call.may_go_on():
            future: asyncio.Future[None] = self.loop.create_future()
            self.held[call] = future
            try:
                await future
            finally:
                del self.held[call]

    def look_at_readers(self) -> None:
        """Let the generators go on whose readers have caught up."""
        for call, future in self.held.items():
            if not future.done() and not call.must_wait():
                future.set_result(None)

    def interrupt(self) -> None:
        """Cancel the coroutines of this loop whose calls were cancelled."""
        for call, task in list(self.running.items()):
            if task is None or not call.is_cancelled():
                continue
            coroutine = task.get_coro()
            if isinstance(coroutine, CoroutineType) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                # Cancelled before its first step, `run` would not even reach its `try`: nobody would answer.
                self.running.pop(call)
                call.cancelled()
                self.end_if_done()
            task.cancel()

    def leave(self) -> None:
        """End because the code that runs now wants to; it may run on any thread."""
        task_id = TASK.get()
        if task_id is not None:
            self.exiting.add(task_id)
        here = next((server for server in self.crew if server.thread == threading.get_ident()), None)
        if here is not None:
            here.stop("exit")
        else:
            self.loop.call_soon_threadsafe(self.stop, "exit")

    def stop(self, how: str) -> None:
        """Start nothing new in any group, and end once everything under way is done. Called on this loop's own thread."""
        for server in self.crew:
            if server is not self and not server.how:
                server.loop.call_soon_threadsafe(server.end, how)
        self.end(how)

    def end(self, how: str) -> None:
        """As `stop`, for this loop alone."""
        self.is_taking = False
        self.how = self.how or how
        self.end_if_done()

    def end_if_done(self) -> None:
        """Stop the loop if nothing is under way and the actor is to end."""
        if self.how and not self.running:
            self.loop.stop()


def _generators() -> Any:
    from eagleray._worker import async_generators

    return async_generators


class _Selector(selectors.EpollSelector):
    """Reads calls before it polls."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server
        self.bridge: _Bridge | None = None
        self.watch: Any = None

    def select(self, timeout: float | None = None) -> Any:
        """Start what has come in; then wait for calls, ready objects, descriptors or time, whichever is first."""
        server = self.server
        takes = server.take_calls()
        if server.held:
            server.look_at_readers()
        if self.watch is not None:
            self.watch.on_ready()
        if _native.has_interrupts():
            for other in server.crew:
                if other is not server:
                    other.loop.call_soon_threadsafe(other.interrupt)
            server.interrupt()
        loop = server.loop
        if loop._ready or loop._stopping:
            return super().select(0)
        number = 0 if self.watch is None else self.watch.number
        # One descriptor is the loop's own wake-up pipe.
        if len(self.get_map()) <= 1:
            if not server.core.poll(number, takes):
                streams.flush_or_mend()
                server.core.wait(timeout)
            return super().select(0)
        events = super().select(0)
        if events or server.core.poll(number, takes):
            return events
        streams.flush_or_mend()
        if self.bridge is None:
            self.bridge = _Bridge(server)
        self.bridge.arm(number, takes=takes)
        return super().select(timeout)


class _Bridge:
    """Stands at the doorbell while the loop sleeps in epoll."""

    def __init__(self, server: Server) -> None:
        self.loop = server.loop
        self.core = server.core
        self.number = 0
        self.takes = False
        self.armed = threading.Event()
        threading.Thread(target=self.run, name="eagleray-bridge", daemon=True).start()

    def arm(self, number: int, *, takes: bool) -> None:
        has_changed = (number, takes) != (self.number, self.takes)
        self.number, self.takes = number, takes
        self.armed.set()
        if has_changed:
            # It may stand at the doorbell already, for what was wanted before.
            self.core.nudge()

    def run(self) -> None:
        while True:
            self.armed.wait()
            self.armed.clear()
            self.core.wait(None)
            self.loop.wake_from_epoll()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that other threads can wake wherever it sleeps."""

    _ready: deque[Any]
    _stopping: bool
    _task_factory: Any

    def _write_to_self(self) -> None:
        super()._write_to_self()  # type: ignore[misc]
        self._selector.server.core.nudge()  # type: ignore[attr-defined]

    def _nudge(self, *_: Any) -> None:
        """Stand in for asyncio's handler, which does nothing: what to call is written to the loop's wake-up pipe."""
        self._selector.server.core.nudge()  # type: ignore[attr-defined]

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Call a function on the loop when the signal comes, also while the loop sleeps where nobody reads the wake-up pipe."""
        super().add_signal_handler(sig, callback, *args)
        signal.signal(sig, self._nudge)
        signal.siginterrupt(sig, False)  # noqa: FBT003

    def wake_from_epoll(self) -> None:
        """Wake it out of epoll."""
        super()._write_to_self()  # type: ignore[misc]

    def watch_objects(self, watch: Any) -> bool:
        """Take over a watch of objects: the selector looks at it itself."""
        selector = self._selector  # type: ignore[attr-defined]
        selector.watch = watch
        return True
