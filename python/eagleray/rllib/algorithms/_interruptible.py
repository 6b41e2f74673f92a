"""A learner that Ctrl-C does not wait for.

An update is one call of the engine and may take half a minute, in which Python sees no signal. A long one is therefore made by another thread
while this one waits, which a signal ends. The update itself goes on; whoever asks the learner for something else waits for it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from eagleray.rllib._engine.protocol import Travelling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eagleray.rllib._engine.protocol import Learner, Rollout

#: Updates that take less are made where they are asked for: nobody notices the wait.
_SHORT_S = 0.2


class _Call:
    """One call in a thread of its own."""

    def __init__(self, work: Callable[[], dict[str, float]]) -> None:
        self._work = work
        self._found: dict[str, float] = {}
        self._error: BaseException | None = None
        self._done = threading.Event()
        # A daemon: a program that was interrupted ends at once.
        threading.Thread(target=self._run, name="update", daemon=True).start()

    def _run(self) -> None:
        try:
            self._found = self._work()
        except BaseException as error:
            self._error = error
        self._done.set()

    @property
    def is_done(self) -> bool:
        """Whether it has come back."""
        return self._done.is_set()

    def settle(self) -> None:
        """Waits until it has come back, with whatever."""
        self._done.wait()

    def wait(self) -> dict[str, float]:
        """What came of it."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._found


class Interruptible:
    """A learner, whose long updates may be interrupted."""

    def __init__(self, inner: Learner) -> None:
        self._inner = inner
        self._call: _Call | None = None
        self._last_s = float("inf")

    @property
    def is_busy(self) -> bool:
        """Whether an update that was interrupted still goes on."""
        return self._call is not None and not self._call.is_done

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these."""
        inner, start = self._settled(), time.perf_counter()
        # Signals come to the main thread only.
        if self._last_s < _SHORT_S or threading.current_thread() is not threading.main_thread():
            found = inner.update(rollouts, settings)
        else:
            self._call = _Call(lambda: inner.update(rollouts, settings))
            found = self._call.wait()
            self._call = None
        self._last_s = time.perf_counter() - start
        return found

    def weights(self) -> bytes:
        """The weights that policies load."""
        return self._settled().weights()

    def travelling(self) -> bytes:
        """The same for runners."""
        inner = self._settled()
        # Only the native learners have a form of their own for that.
        return inner.travelling() if isinstance(inner, Travelling) else inner.weights()

    def set_weights(self, weights: bytes) -> None:
        """Take other weights of the same shapes."""
        self._settled().set_weights(weights)

    def state(self) -> bytes:
        """All else."""
        return self._settled().state()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self._settled().restore(state)

    def ask(self, count: int) -> list[bytes]:
        """Weights to try."""
        return self._settled().ask(count)

    def tell(self, returns: Sequence[float], lengths: Sequence[int], settings: Mapping[str, Any]) -> dict[str, float]:
        """What came of them."""
        return self._settled().tell(returns, lengths, settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._settled(), name)

    def _settled(self) -> Learner:
        """The learner, once an update that was interrupted has come to its end. What it raised is nobody's business any more."""
        call = self._call
        if call is not None:
            call.settle()
            self._call = None
        return self._inner
