"""What one agent sees and does, where steps come when they come: agents that take turns, simulators that ask.

A collector wants to know at once what an action led to; an agent hears of it when it is its turn again. A stream holds the step open until
then. It writes to a collector for one environment of its own, so that streams need not keep pace with each other.

A step is in exactly one rollout. At the end of a batch whole steps are parted from what follows. A step that is still open cannot be parted from
those before it, as the collector has written its action already: they wait together until it is whole, and what is done next begins another rollout.
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
        #: Steps that are whole and not parted from what follows yet.
        self.steps = 0
        #: Whether those go as soon as the open step is whole.
        self.is_waiting = False
        self._parted: list[Rollout] = []

    @property
    def is_open(self) -> bool:
        """Whether it is not known yet what the last action led to."""
        return self._is_open

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
        if self.is_waiting:
            self._part()
        return True

    def cut(self) -> None:
        """A batch ends here: whole steps go, at once or with the step that is open."""
        if self._ending is not None:
            self.close(self._ending[1])
        if self.steps == 0:
            return
        if self._is_open:
            self.is_waiting = True
        else:
            self._part()

    def _part(self) -> None:
        self._parted.append(self._collector.take())
        self.steps, self.is_waiting = 0, False

    def take(self) -> list[Rollout]:
        """What was written, up to here or to where it was cut."""
        self.cut()
        parted, self._parted = self._parted, []
        return parted

    def forget(self) -> None:
        """Drops all of it: something went wrong in the midst of it."""
        self._collector.forget()
        self._is_open, self._reward, self._ending = False, 0.0, None
        self.steps, self.is_waiting, self._parted = 0, False, []


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

    def cut(self) -> bool:
        """A batch ends here. Returns whether one of them waits for a step to be whole."""
        for stream in self._all:
            stream.cut()
        return any(stream.is_waiting for stream in self._all)

    def take(self) -> list[Rollout]:
        """What was written in all of them."""
        return [rollout for stream in self._all for rollout in stream.take()]

    def forget(self) -> None:
        """Drops what was written in all of them. Nobody uses them then."""
        for stream in self._all:
            stream.forget()
        self._free = list(self._all)
