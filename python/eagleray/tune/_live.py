"""A trial while it runs: how it is started, read, let go on and stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.exceptions import RayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.tune._session import TrialSpec
    from eagleray.tune._slots import Slot, Slots
    from eagleray.tune.experiment.trial import Trial


class Live:
    """A function's results are the items of one call; a class is called once for each step."""

    def __init__(self, trial: Trial, slot: Slot, spec: TrialSpec, *, is_class: bool, is_used: bool) -> None:
        self.trial = trial
        self.slot = slot
        self.spec = spec
        self.is_class = is_class
        self.is_used = is_used
        #: What its process says of itself, and what else each of its results carries.
        self.about: dict[str, Any] = {}
        self.static: dict[str, Any] | None = None
        #: A class makes a checkpoint after so many steps.
        self.every = 0
        #: How many results a function may be ahead of what was decided: more than one only where nothing is decided by them.
        self.ahead = 1
        #: What is waited for: the call's generator, or the step's ref.
        self.awaited: Any = None
        #: How many results it has made, over all restarts: what it says of itself may be counted otherwise.
        self.count = spec.iteration
        self._steps = spec.iteration

    def start(self) -> None:
        """Begins the trial on its process."""
        actor = self.slot.actor
        if self.is_class:
            self.awaited = actor.build.remote(self.spec, reset=self.is_used)
        else:
            options = {"num_returns": "streaming", "_generator_backpressure_num_objects": self.ahead}
            self.awaited = actor.run.options(**options).remote(self.spec)

    def take(self) -> tuple[str, Any, Any]:
        """What the trial said. It waits until `go_on`."""
        said = self.awaited if self.is_class else self.awaited._front()
        return eagleray.get(said)  # type: ignore[no-any-return]

    def has_more(self) -> bool:
        """Whether it has said something more already."""
        return self.ahead > 1 and self.awaited.next_ready()

    def go_on(self, checkpoint: Callable[[Trial], str]) -> None:
        """Lets it do the next thing."""
        if self.is_class:
            self._steps += 1
            is_due = self.every > 0 and self._steps % self.every == 0
            self.awaited = self.slot.actor.step.remote(checkpoint(self.trial), is_due=is_due)
        else:
            next(self.awaited)

    def save(self, path: str) -> tuple[str, Any, Any]:
        """Saves a class between two steps."""
        try:
            return eagleray.get(self.slot.actor.save.remote(path))  # type: ignore[no-any-return]
        except RayError as error:
            return ("error", error, str(error))

    def stop(self, slots: Slots) -> None:
        """Nothing more of it is wanted. The process is free as soon as it has noticed."""
        if self.awaited is None:
            slots.give_back(self.slot)
            return
        if not self.is_class:
            # Whoever reads no more lets `report` raise.
            ended = self.awaited.completed()
        elif slots.reuses:
            ended = self.slot.actor.end.remote()
        else:
            ended = self.slot.actor.drop.remote()
        self.awaited = None
        self.slot.wind_down(ended)

    def release(self, slots: Slots) -> None:
        """It has ended by itself."""
        if not self.is_class:
            next(self.awaited, None)
        self.awaited = None
        slots.give_back(self.slot)

    def abandon(self) -> None:
        """The experiment ends without it."""
        self.awaited = None
