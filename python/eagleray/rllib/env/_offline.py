"""Sampling from what was sampled before: batches of steps from files, or from a reader of the program's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eagleray.rllib.env._episode import POLICY
from eagleray.rllib.env._samplers import Sample
from eagleray.rllib.env.spaces import ActionForm
from eagleray.rllib.utils.error import NotFiniteError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagleray.rllib._engine.protocol import Floats, Policy
    from eagleray.rllib.env.spaces import ObservationForm
    from eagleray.rllib.offline.io_context import InputReader
    from eagleray.rllib.utils.metrics._episodes import EpisodeRecord


class OfflineSampler:
    """Steps of others as rollouts. They are given to a collector as if somebody else had chosen the actions, which is so."""

    def __init__(
        self,
        reader: InputReader,
        policy: Policy,
        forms: tuple[ObservationForm, ActionForm],
        *,
        is_normalized: bool,
    ) -> None:
        self._reader = reader
        self._collector = policy.collector(1)
        self._form, self._actions = forms
        if is_normalized:
            # They lie between -1 and 1 in the files already.
            self._actions = ActionForm(self._actions.space, normalize=False)
        self.records: list[EpisodeRecord] = []
        self.restarts = 0

    def reset(self) -> None:
        """Changes nothing: episodes are what they were."""

    def close(self) -> None:
        """Nothing is held."""

    def environments(self) -> list[Any]:
        """There are none."""
        return []

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Reads whole batches until there are enough steps."""
        if steps is None:
            raise ValueError("episodes cannot be counted in what is read; evaluate with an environment")
        done, batches = 0, 0
        while done < steps:
            batch = dict(self._reader.next())
            where = batch.pop("__where__", f"batch {batches} of the input")
            done += self._give(batch, where)
            batches += 1
            if batches > max(1000, 10 * steps) and not done:
                raise ValueError(f"{where}: {batches} batches without a whole step")
        return Sample({POLICY: [self._collector.take()]}, done, done)

    def _give(self, batch: dict[str, Any], where: str) -> int:
        """Gives a batch to the collector. Returns its steps."""
        columns = _columns(batch, where)
        seen, behind = columns["obs"], columns["new_obs"]
        count = 0
        for at in range(len(seen)):
            if behind[at] is None and not columns["terminateds"][at]:
                continue  # what came of this step is not known
            place = f"{where}, step {at}"
            row = self._row(seen[at], place)
            last = row if behind[at] is None else self._row(behind[at], place)
            reward = _number(columns["rewards"][at], place)
            terminated = bool(columns["terminateds"][at])
            # Two steps that stand one behind the other in a file need not follow each other: each is taken for the end of a piece,
            # unless the next begins where this one ends.
            follows = not terminated and not columns["truncateds"][at] and at + 1 < len(seen)
            follows = follows and behind[at + 1] is not None and _same(behind[at], seen[at + 1])
            self._collector.told(row, self._action(columns["actions"][at], place))
            self._collector.observe(
                np.array([reward], np.float32),
                np.array([terminated]),
                np.array([not terminated and not follows]),
                last,
                last,
            )
            count += 1
        return count

    def _row(self, seen: Any, place: str) -> Floats:
        size = self._form.observed.size
        try:
            row = np.asarray(seen, np.float32).reshape(1, -1)
            if row.size != size:
                row = self._form.row(seen)
        except (TypeError, ValueError) as error:
            why = "it is compressed text: write it with output_compress_columns=[]" if isinstance(seen, str) else error
            raise SpaceMismatchError(f"{place}: the observation does not fit {self._form.space}: {why}") from None
        if not np.isfinite(row).all():
            raise NotFiniteError(f"{place}: the observation is {seen!r}")
        return row

    def _action(self, action: Any, place: str) -> Floats:
        try:
            return self._actions.row(action)
        except ValueError as error:
            raise SpaceMismatchError(f"{place}: {error}") from None


def _columns(batch: dict[str, Any], where: str) -> dict[str, Sequence[Any]]:
    """The columns of a batch, by the names of both eras; those that may be missing are made."""
    for name in ("obs", "actions", "rewards"):
        if name not in batch:
            raise ValueError(f"{where}: there is no column {name!r}; there are {sorted(map(str, batch))}")
    count = len(batch["obs"])
    none = [False] * count
    terminated = batch.get("terminateds", batch.get("dones", none))
    ends = batch.get("dones", terminated)
    truncated = batch.get("truncateds", none)
    behind = batch.get("new_obs")
    if behind is None:
        # What is seen next is what came of the step, inside of an episode.
        ids = batch.get("eps_id", [0] * count)
        behind = [
            batch["obs"][at + 1] if at + 1 < count and not ends[at] and ids[at] == ids[at + 1] else None
            for at in range(count)
        ]
    found = {
        "obs": batch["obs"],
        "actions": batch["actions"],
        "rewards": batch["rewards"],
        "terminateds": terminated,
        "truncateds": truncated,
        "new_obs": behind,
    }
    for name, column in found.items():
        if len(column) != count:
            raise ValueError(f"{where}: the column {name!r} has {len(column)} rows, 'obs' has {count}")
    return found


def _number(reward: Any, place: str) -> float:
    try:
        number = float(reward)
    except (TypeError, ValueError):
        raise ValueError(f"{place}: the reward is {reward!r}, not a number") from None
    if not math.isfinite(number):
        raise NotFiniteError(f"{place}: the reward is {reward!r}")
    return number


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
