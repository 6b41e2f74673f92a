"""Serves an actor whose methods are coroutines: one event loop whose selector reads calls from the rings before it polls descriptors.

While nothing but calls can happen the loop sleeps on the process's doorbell; with descriptors of the user's own it sleeps in epoll, and a
second thread stands at the doorbell.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import threading
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray._async_context import TASK
from eagleray.exceptions import AsyncioActorExit

if TYPE_CHECKING:
    from collections import deque


class _Server:
    """The calls of one async actor."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.limit = max(1, int(worker.about["concurrency"]))
        self.running: dict[str, tuple[Any, asyncio.Task[None] | None]] = {}
        self.is_leaving = False
        self.how = ""
        self.loop: _Loop

    def take_calls(self) -> None:
        """Start every call that has come and may run."""
        if self.is_leaving:
            self.end_if_done()
            return
        while len(self.running) < self.limit:
            call = _native.try_call(self.worker)
            if call is None:
                return
            if isinstance(call, str):
                self.how = call
                self.is_leaving = True
                self.end_if_done()
                return
            self.start(call)

    def start(self, call: Any) -> None:
        """Run one call: a coroutine as a task of the loop, a plain method at once."""
        if call.is_cancelled():
            call.cancelled()
            return
        task = self.loop.create_task(self.run(call))
        self.running[call.task_id] = (call, task)

    async def run(self, call: Any) -> None:
        """Run one call to its end, and answer."""
        TASK.set(call.task_id)
        try:
            result = call.function(*call.args, **(call.kwargs or {}))
            if inspect.isawaitable(result):
                result = await result
        except asyncio.CancelledError as error:
            if call.is_cancelled():
                call.cancelled()
            else:
                call.fail(self.worker, error)
        except (SystemExit, AsyncioActorExit):
            # The call is lost with the actor, as its caller will see.
            self.leave()
        except BaseException as error:
            call.fail(self.worker, error)
        else:
            self.answer(call, result)
        finally:
            self.running.pop(call.task_id, None)
            self.end_if_done()

    def answer(self, call: Any, result: Any) -> None:
        """Send a result; what cannot be sent is an error of the call."""
        try:
            call.finish(self.worker, result)
        except SystemExit:
            raise
        except BaseException as error:
            call.fail(self.worker, error)

    def interrupt(self) -> None:
        """Cancel the coroutines whose calls were cancelled."""
        for call, task in list(self.running.values()):
            if task is not None and call.is_cancelled():
                task.cancel()

    def leave(self) -> None:
        """End once everything under way is done; nothing new is started."""
        self.is_leaving = True
        self.how = self.how or "leave"
        self.end_if_done()

    def end_if_done(self) -> None:
        """Stop the loop if nothing is under way and the actor is to end."""
        if self.is_leaving and not self.running:
            self.loop.stop()


class _Selector(selectors.EpollSelector):
    """Reads calls before it polls."""

    def __init__(self) -> None:
        super().__init__()
        self.server: _Server | None = None
        self.bridge: _Bridge | None = None
        self.watch: Any = None

    def select(self, timeout: float | None = None) -> Any:
        """Start what has come in; then wait for calls, ready objects, descriptors or time, whichever is first."""
        server = self.server
        if server is None:
            return super().select(timeout)
        server.take_calls()
        if self.watch is not None:
            self.watch.on_ready()
        if _native.has_interrupts():
            server.interrupt()
        loop = server.loop
        if loop._ready or loop._stopping:
            return super().select(0)
        number = 0 if self.watch is None else self.watch.number
        # One descriptor is the loop's own wake-up pipe.
        if len(self.get_map()) <= 1:
            if not _native.poll_loop(number):
                _native.wait_loop(number, timeout)
            return super().select(0)
        events = super().select(0)
        if events or _native.poll_loop(number):
            return events
        if self.bridge is None:
            self.bridge = _Bridge(loop)
        self.bridge.arm(number)
        return super().select(timeout)


class _Bridge:
    """Stands at the doorbell while the loop sleeps in epoll."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.number = 0
        self.armed = threading.Event()
        threading.Thread(target=self.run, name="eagleray-bridge", daemon=True).start()

    def arm(self, number: int) -> None:
        self.number = number
        self.armed.set()

    def run(self) -> None:
        while True:
            self.armed.wait()
            self.armed.clear()
            _native.wait_loop(self.number, None)
            self.loop.wake_from_epoll()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that other threads can wake wherever it sleeps."""

    _ready: deque[Any]
    _stopping: bool

    def _write_to_self(self) -> None:
        super()._write_to_self()  # type: ignore[misc]
        _native.nudge()

    def wake_from_epoll(self) -> None:
        """Wake it out of epoll."""
        super()._write_to_self()  # type: ignore[misc]

    def watch_objects(self, watch: Any) -> bool:
        """Take over a watch of objects: the selector looks at it itself."""
        selector = self._selector  # type: ignore[attr-defined]
        selector.watch = watch
        return True


def serve(worker: Any) -> str:
    """Serve until told to end; says how."""
    selector = _Selector()
    loop = _Loop(selector)
    server = _Server(worker)
    server.loop = loop
    worker.server = server
    asyncio.set_event_loop(loop)
    selector.server = server
    loop.run_forever()
    if server.how == "leave":
        exit_error = SystemExit(0)
        exit_error.is_actor_exit = True  # type: ignore[attr-defined]
        raise exit_error
    return server.how


def leave(worker: Any) -> None:
    """End the actor once everything under way is done."""
    worker.server.leave()
