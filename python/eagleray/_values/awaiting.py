"""`await ref` and `ref.future()`: an eventfd per event loop, one wake-up per batch of ready objects.

Futures of `concurrent.futures` belong to no loop: one thread per session sleeps on an eventfd of its own and settles them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import select
import threading
import weakref
from typing import TYPE_CHECKING, Any

from eagleray import _native

if TYPE_CHECKING:
    from collections.abc import Generator

_LOCK = threading.Lock()
#: Held while the one thread that settles futures is found or made.
_MAKING = threading.Lock()
_NEXT = 0
_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWatch] = weakref.WeakKeyDictionary()
_THREAD: _ThreadWatch | None = None


class _Watch:
    """Objects that somebody waits for, and the futures that get their values."""

    def __init__(self) -> None:
        global _NEXT
        with _LOCK:
            _NEXT += 1
            self.number = _NEXT
        self.session = _session_number()
        self.fd = _native.event_fd()
        self.lock = threading.Lock()
        #: By slot: futures, each with the ref that keeps the slot and what settles it.
        self.waiting: dict[int, dict[Any, tuple[Any, Any]]] = {}
        _native.watch_loop(self.number, self.fd)

    def add(self, ref: Any, future: Any, settle: Any) -> None:
        # Noted before it is watched, so that whoever hears of it first finds it.
        slot = ref._slot
        with self.lock:
            self.waiting.setdefault(slot, {})[future] = ref, settle
        if _native.watch(self.number, ref):
            self.settle(slot)

    def on_ready(self) -> None:
        for slot in _native.take_ready(self.number):
            with self.lock:
                ref, _ = next(iter(self.waiting.get(slot, {}).values()), (None, None))
            # The slot of an object that nobody waits for any more may be another's by now.
            if ref is not None and _native.is_ready(ref):
                self.settle(slot)

    def settle(self, slot: int) -> None:
        with self.lock:
            settled = self.waiting.pop(slot, {})
        for future, (ref, settle) in settled.items():
            if not future.done():
                settle(future, ref)

    def forget(self, slot: int, future: Any) -> None:
        """Let the ref of a future go that was cancelled; one that was settled is gone already."""
        with self.lock:
            waiting = self.waiting.get(slot)
            if waiting is not None and waiting.pop(future, None) is not None and not waiting:
                del self.waiting[slot]

    def give_up(self) -> None:
        """Fail whatever still waits: the session is over."""
        from eagleray.exceptions import RaySystemError

        with self.lock:
            waiting, self.waiting = self.waiting, {}
        for future in (future for futures in waiting.values() for future in futures):
            if not future.done():
                future.set_exception(RaySystemError("The session was shut down before the object was there."))


class _LoopWatch(_Watch):
    """The objects that one event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        # An async actor's own loop looks at ready objects by itself; others are told by a descriptor.
        own = getattr(loop, "watch_objects", None)
        if own is None or not own(self):
            loop.add_reader(self.fd, self.on_ready)
        weakref.finalize(loop, _close, self.number, self.fd)

    def end(self, loop: asyncio.AbstractEventLoop) -> None:
        """End on the loop's own thread."""

        def end() -> None:
            loop.remove_reader(self.fd)
            self.give_up()

        # A loop that is closed has nobody who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end)


class _ThreadWatch(_Watch):
    """The objects that futures without a loop wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False
        threading.Thread(target=self.run, name="eagleray-futures", daemon=True).start()

    def run(self) -> None:
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while True:
            poll.poll()
            if self.is_over:
                break
            self.on_ready()
        self.give_up()
        _close(self.number, self.fd)

    def end(self) -> None:
        self.is_over = True
        os.write(self.fd, (1).to_bytes(8, "little"))


def _session_number() -> int:
    from eagleray._driver.session import SESSION

    return SESSION.number


def _close(number: int, fd: int) -> None:
    _native.unwatch_loop(number)
    os.close(fd)


def _settle(future: Any, ref: Any) -> None:
    try:
        value = _native.get(ref)
    except BaseException as error:
        if isinstance(error, StopIteration) and isinstance(future, asyncio.Future):
            future.set_exception(_unfit_for_coroutines(error))
        else:
            future.set_exception(error)
    else:
        future.set_result(value)


def _unfit_for_coroutines(error: StopIteration) -> RuntimeError:
    # As asyncio does from Python 3.12 on: raised out of `await`, it would end the coroutine with its argument as the value.
    raised = RuntimeError("StopIteration interacts badly with generators and cannot be raised into a Future")
    raised.__cause__ = error
    return raised


def session_ended() -> None:
    """Fail everything that still waits for objects of the session that was just left."""
    global _THREAD
    with _MAKING:
        thread, _THREAD = _THREAD, None
    loops = list(_LOOPS.items())
    _LOOPS.clear()
    if thread is not None:
        thread.end()
    for loop, watch in loops:
        watch.end(loop)


def as_future(ref: Any) -> asyncio.Future[Any]:
    """Make a future of the running loop that gets the object's value or error."""
    return _future(ref, _settle)


def until_ready(ref: Any) -> asyncio.Future[Any]:
    """Make a future of the running loop that is done when the object has a value or error, and gets neither."""
    return _future(ref, _settle_without_value)


def _settle_without_value(future: Any, _ref: Any) -> None:
    future.set_result(None)


def _future(ref: Any, settle: Any) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    if _native.is_ready(ref):
        settle(future, ref)
        return future
    watch = _LOOPS.get(loop)
    if watch is None or watch.session != _session_number():
        watch = _LOOPS[loop] = _LoopWatch(loop)
    watch.add(ref, future, settle)
    if not future.done():
        future.add_done_callback(functools.partial(watch.forget, ref._slot))
    return future


def await_ref(ref: Any) -> Generator[Any, None, Any]:
    """Make what `await ref` runs."""
    return as_future(ref).__await__()


def future_of(ref: Any) -> concurrent.futures.Future[Any]:
    """Make a `concurrent.futures.Future` that gets the object's value or error."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    if _native.is_ready(ref):
        _settle(future, ref)
    else:
        _thread_watch().add(ref, future, _settle)
    return future


def _thread_watch() -> _ThreadWatch:
    global _THREAD
    with _MAKING:
        if _THREAD is None or _THREAD.session != _session_number():
            _THREAD = _ThreadWatch()
        return _THREAD
