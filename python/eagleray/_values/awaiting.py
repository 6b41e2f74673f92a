"""`await ref` and `ref.future()`: an eventfd per event loop, one wake-up per batch of ready objects.

Before it sleeps, a loop looks at the rings itself for a moment. Futures of `concurrent.futures` belong to no loop: one thread per session sleeps
on an eventfd of its own and settles them, unless somebody asks for their result and so waits himself.
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

    def __init__(self, *, is_remote: bool) -> None:
        global _NEXT
        with _LOCK:
            _NEXT += 1
            self.number = _NEXT
        self.session = _session_number()
        self.fd = _native.event_fd()
        self.lock = threading.Lock()
        #: By slot: futures, each with the ref that keeps the slot and what settles it.
        self.waiting: dict[int, dict[Any, tuple[Any, Any]]] = {}
        _native.watch_loop(self.number, self.fd, is_remote)

    def is_current(self) -> bool:
        """Tell whether the session that it watches runs."""
        return _native.is_joined() and self.session == _session_number()

    def add(self, ref: Any, future: Any, settle: Any) -> bool:
        """Wait for an object; false if it is there already."""
        # Noted before it is watched, so that whoever hears of it first finds it.
        slot = ref._slot
        with self.lock:
            self.waiting.setdefault(slot, {})[future] = ref, settle
        if _native.watch(self.number, ref):
            self.settle(slot)
            return False
        return True

    def on_ready(self) -> None:
        self.settle_all(_native.take_ready(self.number))

    def settle_all(self, slots: list[int]) -> None:
        for slot in slots:
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

    def forget(self, slot: int, future: Any) -> bool:
        """Let the ref of a future go that is not to be settled here any more; false if it was, or is about to be."""
        with self.lock:
            waiting = self.waiting.get(slot)
            found = None if waiting is None else waiting.pop(future, None)
            if waiting is None or found is None:
                return False
            if not waiting:
                del self.waiting[slot]
                _native.unwatch(self.number, found[0])
        return True

    def give_up(self) -> None:
        """Fail whatever still waits: the session is over."""
        with self.lock:
            waiting, self.waiting = self.waiting, {}
        for future in (future for futures in waiting.values() for future in futures):
            if not future.done():
                future.set_exception(_session_over())


class _LoopWatch(_Watch):
    """The objects that one event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # An async actor's own loop looks at ready objects by itself; others are told by a descriptor.
        own = getattr(loop, "watch_objects", None)
        super().__init__(is_remote=own is None)
        self.is_looking = own is not None
        if own is not None:
            own(self)
        else:
            loop.add_reader(self.fd, self.on_ready)
        weakref.finalize(loop, _close, self.number, self.fd)

    def look_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look once all that can run now has run: most answers come sooner than somebody else could wake the loop."""
        if not self.is_looking:
            self.is_looking = True
            loop.call_soon(self.look)

    def look(self) -> None:
        self.is_looking = False
        ready = _native.look(self.number)
        self.settle_all(ready)
        if ready and self.waiting:
            # Where something came, more may: nobody else looks before this finds nothing.
            self.look_soon(asyncio.get_running_loop())

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
        super().__init__(is_remote=True)
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


def _session_over() -> Exception:
    from eagleray.exceptions import RaySystemError

    _native.come_late_if_program_ends()
    return RaySystemError("The session was shut down before the object was there.")


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
    if watch.add(ref, future, settle):
        watch.look_soon(loop)
        future.add_done_callback(functools.partial(watch.forget, ref._slot))
    return future


def await_ref(ref: Any) -> Generator[Any, None, Any]:
    """Make what `await ref` runs."""
    return as_future(ref).__await__()


class _RefFuture(concurrent.futures.Future[Any]):
    """A future of an object. A thread that asks for its result waits for the object itself, as `get` does."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        #: The object, and who else would settle this; until it is settled.
        self.source: tuple[Any, _ThreadWatch] | None = None

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the value."""
        return super().result(self._wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the error, or for None."""
        return super().exception(self._wait(timeout))

    def _wait(self, timeout: float | None) -> float | None:
        """Wait, and tell how long to go on doing so for another thread that came first."""
        if self.source is None:
            return timeout
        ref, watch = self.source
        if not watch.forget(ref._slot, self):
            return timeout
        is_there = False
        try:
            is_there = bool(_native.wait([ref], timeout=None if timeout is None else max(0.0, timeout))[0])
        finally:
            # The end of the session ends every wait.
            if is_there and watch.is_current():
                _settle_for_good(self, ref)
            else:
                self.watch(ref, watch)
        return 0

    def watch(self, ref: Any, watch: _ThreadWatch) -> None:
        """Let the thread of the session settle this."""
        self.source = ref, watch
        if not watch.is_current():
            self.set_exception(_session_over())
        elif watch.add(ref, self, _settle_for_good):
            _native.stand_in()


def _settle_for_good(future: _RefFuture, ref: Any) -> None:
    # A future may be kept for long after its object.
    future.source = None
    _settle(future, ref)


def future_of(ref: Any) -> concurrent.futures.Future[Any]:
    """Make a `concurrent.futures.Future` that gets the object's value or error."""
    future = _RefFuture()
    if _native.is_ready(ref):
        _settle(future, ref)
    else:
        future.watch(ref, _thread_watch())
    return future


class _Callback:
    """What is called with an object's value or error, in place of a future."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def done(self) -> bool:
        return False

    def set_exception(self, error: BaseException) -> None:
        self.call(error)

    def call(self, result: Any) -> None:
        try:
            self.function(result)
        except Exception:
            import logging

            logging.getLogger("eagleray").exception("A callback that waited for an object failed.")


def _settle_by_calling(callback: _Callback, ref: Any) -> None:
    try:
        result = _native.get(ref)
    except BaseException as error:
        result = error
    callback.call(result)


def on_completed(ref: Any, function: Any) -> None:
    """Call a function with the object's value or error: now if that is there, else on another thread."""
    callback = _Callback(function)
    if _native.is_ready(ref):
        _settle_by_calling(callback, ref)
    elif _thread_watch().add(ref, callback, _settle_by_calling):
        _native.stand_in()


def _thread_watch() -> _ThreadWatch:
    global _THREAD
    with _MAKING:
        if _THREAD is None or _THREAD.session != _session_number():
            _THREAD = _ThreadWatch()
        return _THREAD
