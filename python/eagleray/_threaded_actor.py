"""Serves an actor with up to `max_concurrency` threads: the thread that ends a call takes the next one."""

from __future__ import annotations

import threading
from typing import Any

from eagleray import _actor_end, _native


class _Threads:
    """The threads of one actor, started when they are first needed; they stay until its end.

    The main thread is none of them: it waits, and handles signals.
    """

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.limit = int(worker.about["concurrency"])
        self.started = 0
        self.serving = 0
        self.how = ""
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.is_over = threading.Event()

    def serve(self) -> str:
        self.add()
        self.is_over.wait()
        if self.error is not None:
            raise self.error
        return self.how

    def add(self) -> bool:
        """Start one more thread, if there may be one; says whether there may be yet another."""
        with self.lock:
            if self.started == self.limit or self.how:
                return False
            name = f"eagleray-actor-{self.started}"
            try:
                threading.Thread(target=self.run, name=name, daemon=True).start()
            except RuntimeError:
                # The system gives no more threads now. Those that are there go on.
                if self.started == 0:
                    raise
                return True
            self.started += 1
            self.serving += 1
            return self.started < self.limit

    def run(self) -> None:
        how = "exit"
        try:
            how = _native.serve_beside(self.worker, self.add)
        except SystemExit as error:
            _actor_end.note_exit(self.worker, error)
        except BaseException as error:
            self.error = error
        # The others finish what they run, and take nothing new.
        _native.stop_serving(is_call=False)
        with self.lock:
            self.how = self.how or how
            self.serving -= 1
            if self.serving == 0 or how == "abort" or self.error is not None:
                self.is_over.set()


def serve(worker: Any) -> str:
    """Serve until told to end; says how."""
    return _Threads(worker).serve()
