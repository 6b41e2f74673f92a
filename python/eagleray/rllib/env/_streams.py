"""What one agent sees and does, where steps come when they come: agents that take turns, simulators that ask.

A collector wants to know at once what an action led to; an agent hears of it when it is its turn again. A stream holds the step open until
then. It writes to a collector for one environment of its own, so that streams need not keep pace with each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Collector, Floats, Policy, Rollout


class Stream:
    """Steps of one agent at a time; after an episode's end, of the next that needs one."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._is_open = False
        self._reward = 0.0
        self._ending: tuple[bool, Floats] | None = None
        #: Steps that are whole and were not taken yet.
        self.steps = 0

    def act(self, row: Floats, *, explore: bool) -> Floats:
        """Chooses an action. What the one before led to is known by now: this."""
        self.close(row)
        self._is_open = True
        return self._collector.act(row, explore=explore)

    def told(self, row: Floats, actions: Floats) -> None:
        """Notes an action that somebody else chose."""
        self.close(row)
        self._is_open = True
        self._collector.told(row, actions)

    def reward(self, amount: float) -> None:
        """Adds to what the open step brought. Before the first step nobody has earned anything."""
        if self._is_open:
            self._reward += amount

    def end(self, row: Floats, *, truncated: bool) -> None:
        """The episode is over; this was seen last."""
        if self._is_open:
            self._ending = (truncated, row)

    def close(self, row: Floats) -> bool:
        """Completes the open step, if there is one, with what is seen next."""
        if not self._is_open:
            return False
        ended, truncated, last = False, False, row
        if self._ending is not None:
            truncated, last = self._ending
            ended = not truncated
        self._collector.observe(
            np.array([self._reward], np.float32), np.array([ended]), np.array([truncated]), row, last
        )
        self._is_open, self._reward, self._ending = False, 0.0, None
        self.steps += 1
        return True

    def take(self) -> Rollout | None:
        """What was written, unless a step is still open: then it waits for the next time."""
        if self._ending is not None:
            self.close(self._ending[1])
        if self._is_open or self.steps == 0:
            return None
        self.steps = 0
        return self._collector.take()


class Streams:
    """The streams of one policy. Those of agents that are gone are used again."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._all: list[Stream] = []
        self._free: list[Stream] = []

    def get(self) -> Stream:
        """A stream that nobody uses."""
        if self._free:
            return self._free.pop()
        stream = Stream(self._policy.collector(1))
        self._all.append(stream)
        return stream

    def give_back(self, stream: Stream) -> None:
        """Its agent is gone."""
        self._free.append(stream)

    def take(self) -> list[Rollout]:
        """What was written in all of them."""
        return [rollout for stream in self._all if (rollout := stream.take()) is not None]
