"""Serves an actor with `max_concurrency` threads: the thread that ends a call takes the next one."""

from __future__ import annotations

import threading
from typing import Any

from eagleray import _native


def serve(worker: Any) -> str:
    """Serve until told to end; says how."""
    count = int(worker.about["concurrency"])
    ends: list[Any] = []
    lock = threading.Lock()

    def loop() -> None:
        try:
            end: Any = _native.serve(worker)
        except BaseException as error:
            end = error
        with lock:
            ends.append(end)

    threads = [threading.Thread(target=loop, name=f"eagleray-actor-{index}", daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    while True:
        for thread in threads:
            thread.join(0.05)
        with lock:
            if ends:
                break
    end = ends[0]
    if isinstance(end, BaseException):
        raise end
    return str(end)
