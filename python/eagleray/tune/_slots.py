"""Processes that trials run in: made where there is room, used again for the next trial that needs the same."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.exceptions import RayError
from eagleray.tune._pieces import Unpacking
from eagleray.tune._trial_process import TrialProcess
from eagleray.tune.error import TuneError

if TYPE_CHECKING:
    from eagleray.tune.execution.placement_groups import PlacementGroupFactory

#: A trial that was told to stop and has not after so many seconds is ended with its process.
_GRACE_S = 20.0
#: At the end of an experiment they have no more than this.
_CLOSE_S = 5.0
_GRACE_VARIABLE = "TUNE_FORCE_TRIAL_CLEANUP_S"
#: What there is in all is asked for no more often.
_LOOK_S = 1.0
#: Processes that wait for their next trial, beyond which they are ended.
_IDLE_MAX = 64


class Slot:
    """One process, and what it has."""

    def __init__(self, factory: PlacementGroupFactory, actor: Any, group: Any) -> None:
        self.factory = factory
        self.actor = actor
        self.group = group
        #: Whether its process sees the experiment's folder; not known before a trial began in it.
        self.sees_storage: bool | None = None
        #: The folder of the trial that runs in it, or was the last to.
        self.trial_path: str | None = None
        #: Ready once the trial before has really ended.
        self.winding: Any = None
        self.winding_until = 0.0

    def wind_down(self, ended: Any) -> None:
        """The trial was told to stop; the process is free once `ended` is ready."""
        self.winding = ended
        self.winding_until = time.monotonic() + float(os.environ.get(_GRACE_VARIABLE, _GRACE_S))

    def bring_left(self) -> None:
        """What its trial has left in a folder on another machine, as what it printed, comes into the experiment's."""
        if self.sees_storage is not False or self.trial_path is None:
            return
        try:
            unpacking = Unpacking(self.trial_path)
            with contextlib.closing(unpacking):
                while (piece := eagleray.get(self.actor.left.remote())) is not None:
                    unpacking.take(piece)
        except (RayError, OSError) as error:
            text = f"what a trial left in its folder on another machine did not reach {self.trial_path}: {error}"
            warnings.warn_explicit(text, UserWarning, "eagleray.tune", 0)


class Slots:
    """All processes of an experiment, and how much of the machine they take."""

    def __init__(self, trainable: Any, *, reuse: bool) -> None:
        self._trainable = eagleray.put(trainable)
        self.reuses = reuse
        self._idle: dict[PlacementGroupFactory, list[Slot]] = {}
        self._all: list[Slot] = []
        self._actor_class = eagleray.remote(TrialProcess)
        self.total: dict[str, float] = eagleray.cluster_resources()
        #: Whatever the nodes had at any time: one that died may come back.
        self._most = dict(self.total)
        self._looked_at = time.monotonic()
        self.used: dict[str, float] = {}

    def check(self, factory: PlacementGroupFactory) -> None:
        """Refuses what nobody ever had."""
        for name, amount in factory.required_resources.items():
            if amount > self._most.get(name, 0.0) + 1e-9:
                shown = [key for key in sorted(self._most) if ":" not in key and not key.endswith("memory")]
                have = ", ".join(f"{self._most[key]:g} {key}" for key in shown)
                raise TuneError(
                    f"a trial needs {amount:g} {name}, and there is {self._most.get(name, 0.0):g} in all ({have}): "
                    "ask for less in `resources_per_trial` or `tune.with_resources`, or give `init` more."
                )

    def has_room(self, factory: PlacementGroupFactory) -> bool:
        """Whether one more trial of this kind can start now."""
        if self._idle.get(factory):
            return True
        self._look()
        if self._fits(factory):
            return True
        # Processes that wait for a trial of another kind make room.
        while self._drop_idle():
            if self._fits(factory):
                return True
        return False

    def _look(self) -> None:
        """Nodes come and go."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        self.total = eagleray.cluster_resources()
        for name, amount in self.total.items():
            self._most[name] = max(amount, self._most.get(name, 0.0))

    def _fits(self, factory: PlacementGroupFactory) -> bool:
        needs = factory.required_resources.items()
        return all(self.used.get(name, 0.0) + amount <= self.total.get(name, 0.0) + 1e-9 for name, amount in needs)

    def take(self, factory: PlacementGroupFactory) -> tuple[Slot, bool]:
        """A process for one trial, and whether another one ran in it before."""
        if idle := self._idle.get(factory):
            return idle.pop(), True
        return self._make(factory), False

    def _make(self, factory: PlacementGroupFactory) -> Slot:
        head = dict(factory.bundles[0])
        options: dict[str, Any] = {"num_cpus": head.pop("CPU", 0), "num_gpus": head.pop("GPU", 0), "resources": head}
        if "memory" in head:
            options["memory"] = head.pop("memory")
        group = None
        if len(factory.bundles) > 1:
            from eagleray.util.placement_group import placement_group
            from eagleray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            group = placement_group([bundle for bundle in factory.bundles if bundle], strategy=factory.strategy)
            index = 0 if factory.bundles[0] else -1
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=index, placement_group_capture_child_tasks=True
            )
        actor = self._actor_class.options(**options).remote(self._trainable)
        slot = Slot(factory, actor, group)
        self._all.append(slot)
        for name, amount in factory.required_resources.items():
            self.used[name] = self.used.get(name, 0.0) + amount
        return slot

    def give_back(self, slot: Slot) -> None:
        """The process is free for another trial."""
        slot.winding = None
        slot.bring_left()
        idle = self._idle.setdefault(slot.factory, [])
        if self.reuses and len(idle) < _IDLE_MAX:
            idle.append(slot)
        else:
            self.end(slot)

    def winding(self) -> list[Slot]:
        """Processes whose trial was told to stop and has not yet."""
        return [slot for slot in self._all if slot.winding is not None]

    def end_overdue(self) -> None:
        """Ends processes whose trial does not stop."""
        now = time.monotonic()
        for slot in self.winding():
            if now > slot.winding_until:
                self.end(slot)

    def end(self, slot: Slot) -> None:
        """Ends a process."""
        if slot not in self._all:
            return
        self._all.remove(slot)
        for name, amount in slot.factory.required_resources.items():
            self.used[name] -= amount
        with contextlib.suppress(Exception):
            eagleray.kill(slot.actor)
        if slot.group is not None:
            from eagleray.util.placement_group import remove_placement_group

            with contextlib.suppress(Exception):
                remove_placement_group(slot.group)

    def _drop_idle(self) -> bool:
        for idle in self._idle.values():
            if idle:
                self.end(idle.pop())
                return True
        return False

    def drop_idle(self) -> None:
        """Ends processes that wait for a trial: one that has not started may need what they hold, because somebody else has taken the rest."""
        while self._drop_idle():
            pass

    def close(self, *, is_class: bool) -> None:
        """Ends all of them. Trials that were told to stop, and instances that are kept for later ones, may clean up before."""
        if is_class:
            for idle in self._idle.values():
                for slot in idle:
                    slot.wind_down(slot.actor.drop.remote())
        if ending := self.winding():
            until = max(slot.winding_until for slot in ending)
            seconds = max(min(until - time.monotonic(), _CLOSE_S), 0.0)
            with contextlib.suppress(RayError):
                ready, _ = eagleray.wait(
                    [slot.winding for slot in ending], num_returns=len(ending), timeout=seconds, fetch_local=False
                )
                for slot in ending:
                    if slot.winding in ready:
                        slot.bring_left()
        ended = list(self._all)
        for slot in ended:
            self.end(slot)
        self._idle.clear()
        # Whoever asked for the end may move or remove the folder that they write to.
        with contextlib.suppress(RayError):
            deaths = [slot.actor.__ray_ready__.remote() for slot in ended]
            if deaths:
                eagleray.wait(deaths, num_returns=len(deaths), timeout=_CLOSE_S, fetch_local=False)
