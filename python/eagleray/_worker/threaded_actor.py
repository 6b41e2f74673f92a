"""Serves an actor with threads: the thread that ends a call takes the next one, once each thread has had a call.

Each group of methods has threads of its own, so that one whose threads are all busy holds up no other.
"""

from __future__ import annotations

import threading
from typing import Any

from eagleray import _native
from eagleray._worker import actor_end

#: So many threads are started for as many calls, short or not: programs that keep something per thread expect several. More are started
#: only when all are busy: a program that asked for as many as there can be, to have no limit, would use up what the system has.
_FRESH_MAX = 1000


class _End:
    """How the actor ends, once all its threads have."""

    def __init__(self) -> None:
        self.serving = 0
        self.how = ""
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.is_over = threading.Event()

    def note(self, how: str) -> None:
        """Take note of a thread's end."""
        # The others finish what they run, and take nothing new.
        _native.stop_serving(is_call=False)
        with self.lock:
            self.how = self.how or how
            self.serving -= 1
            if self.serving == 0 or how == "abort" or self.error is not None:
                self.is_over.set()


class _Threads:
    """The threads of one group, started when they are first needed; they stay until the actor's end.

    The main thread is none of them: it waits, and handles signals.
    """

    def __init__(self, worker: Any, group: int, limit: int, end: _End) -> None:
        self.worker = worker
        self.core = _native.ThreadsCore(group, min(limit, _FRESH_MAX))
        self.group = group
        self.limit = limit
        self.started = 0
        self.end = end

    def add(self) -> bool:
        """Start one more thread, if there may be one; says whether there may be yet another."""
        end = self.end
        with end.lock:
            if self.started == self.limit or end.how:
                return False
            of_group = f"{self.group}-" if self.group else ""
            name = f"eagleray-actor-{of_group}{self.started}"
            try:
                threading.Thread(target=self.run, name=name, daemon=True).start()
            except RuntimeError:
                # The system gives no more threads now. Those that are there go on.
                if self.started == 0:
                    raise
                self.core.open()
                return True
            self.started += 1
            end.serving += 1
            return self.started < self.limit

    def run(self) -> None:
        how = "exit"
        try:
            how = _native.serve_beside(self.worker, self.core, self.add)
        except SystemExit as error:
            actor_end.note_exit(self.worker, error)
        except BaseException as error:
            self.end.error = error
        self.end.note(how)


def serve(worker: Any) -> str:
    """Serve until told to end; says how."""
    end = _End()
    for group, limit in enumerate([int(worker.about["concurrency"]), *worker.groups]):
        _Threads(worker, group, limit, end).add()
    end.is_over.wait()
    if end.error is not None:
        raise end.error
    return end.how
