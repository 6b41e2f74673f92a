"""`await ref` and `ref.future()`: one eventfd per event loop, one wake-up per batch of ready objects."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from eagleray import _native

if TYPE_CHECKING:
    from collections.abc import Generator

_WATCHES: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = weakref.WeakKeyDictionary()
_NEXT = 0
_LOCK = threading.Lock()


class _Watch:
    """The objects that one event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        global _NEXT
        with _LOCK:
            _NEXT += 1
            self.number = _NEXT
        self.session = _session_number()
        self.fd = _native.event_fd()
        self.waiting: dict[int, list[tuple[asyncio.Future[Any], Any]]] = {}
        _native.watch_loop(self.number, self.fd)
        # An async actor's own loop looks at ready objects by itself; others are told by a descriptor.
        own = getattr(loop, "watch_objects", None)
        if own is None or not own(self):
            loop.add_reader(self.fd, self.on_ready)
        weakref.finalize(loop, _close, self.number, self.fd)

    def add(self, ref: Any, future: asyncio.Future[Any]) -> None:
        slot = ref._slot
        waiting = self.waiting.setdefault(slot, [])
        waiting.append((future, ref))
        if _native.watch(self.number, ref):
            self.settle(slot)

    def on_ready(self) -> None:
        for slot in _native.take_ready(self.number):
            self.settle(slot)

    def settle(self, slot: int) -> None:
        for future, ref in self.waiting.pop(slot, ()):
            if not future.done():
                _settle(future, ref)


def _session_number() -> int:
    from eagleray._session import SESSION

    return SESSION.number


def _close(number: int, fd: int) -> None:
    _native.unwatch_loop(number)
    os.close(fd)


def _settle(future: Any, ref: Any) -> None:
    try:
        value = _native.get(ref)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


def as_future(ref: Any) -> asyncio.Future[Any]:
    """Make a future of the running loop that gets the object's value or error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    if ref._slot is None:
        raise ValueError("Ray objects whose owner is unknown cannot be awaited")
    if _native.is_ready(ref):
        _settle(future, ref)
        return future
    watch = _WATCHES.get(loop)
    if watch is None or watch.session != _session_number():
        watch = _WATCHES[loop] = _Watch(loop)
    watch.add(ref, future)
    return future


def await_ref(ref: Any) -> Generator[Any, None, Any]:
    """Make what `await ref` runs."""
    return as_future(ref).__await__()


def future_of(ref: Any) -> concurrent.futures.Future[Any]:
    """Make a `concurrent.futures.Future` that gets the object's value or error."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    _WAITER.add(ref, future)
    return future


class _Waiter:
    """One thread that settles futures, started when the first one is asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[tuple[Any, Any]] = []
        self.thread: threading.Thread | None = None
        self.more = threading.Event()

    def add(self, ref: Any, future: Any) -> None:
        if _native.is_ready(ref):
            _settle(future, ref)
            return
        with self.lock:
            self.waiting.append((ref, future))
            self.more.set()
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.run, name="eagleray-futures", daemon=True)
                self.thread.start()

    def run(self) -> None:
        while True:
            with self.lock:
                waiting = list(self.waiting)
                self.more.clear()
                if not waiting:
                    self.thread = None
                    return
            unique = list({ref: None for ref, _ in waiting})
            try:
                ready, _ = _native.wait(unique, num_returns=1, timeout=0.05)
            except BaseException as error:
                for _, future in waiting:
                    future.set_exception(error)
                with self.lock:
                    self.waiting.clear()
                continue
            done = [pair for pair in waiting if _native.is_ready(pair[0])]
            with self.lock:
                self.waiting = [pair for pair in self.waiting if pair not in done]
            for ref, future in done:
                _settle(future, ref)
            del ready


_WAITER = _Waiter()
