"""Serves an actor with `max_concurrency` threads: the thread that ends a call takes the next one."""

from __future__ import annotations

import threading
from typing import Any

from eagleray import _actor_end, _native


class _Threads:
    """The threads of one actor. The main thread is none of them: it waits, and handles signals."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.serving = int(worker.about["concurrency"])
        self.how = ""
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.is_over = threading.Event()

    def serve(self) -> str:
        for index in range(self.serving):
            threading.Thread(target=self.run, name=f"eagleray-actor-{index}", daemon=True).start()
        self.is_over.wait()
        if self.error is not None:
            raise self.error
        return self.how

    def run(self) -> None:
        how = "exit"
        try:
            how = _native.serve(self.worker)
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
