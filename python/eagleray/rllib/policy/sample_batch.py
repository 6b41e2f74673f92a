"""Columns of samples, as older programs make, cut and join them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEFAULT_POLICY_ID = "default_policy"


class SampleBatch(dict[str, Any]):
    """Columns by name, one row for each step. Its length is that of its columns. Models are called with one that has observations."""

    OBS = "obs"
    CUR_OBS = "obs"
    NEXT_OBS = "new_obs"
    ACTIONS = "actions"
    REWARDS = "rewards"
    PREV_ACTIONS = "prev_actions"
    PREV_REWARDS = "prev_rewards"
    TERMINATEDS = "terminateds"
    TRUNCATEDS = "truncateds"
    DONES = "dones"
    INFOS = "infos"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_LOGP = "action_logp"
    VF_PREDS = "vf_preds"
    SEQ_LENS = "seq_lens"
    EPS_ID = "eps_id"
    T = "t"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, column in self.items():
            if isinstance(column, list):
                self[name] = _array(column)

    @property
    def count(self) -> int:
        """How many rows there are: as many as the first column has that counts steps."""
        for name, column in self.items():
            if name != SampleBatch.SEQ_LENS and not name.startswith("state_in_"):
                found = _rows(column)
                if found is not None:
                    return found
        return 0

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return any(True for _ in self.keys())

    def env_steps(self) -> int:
        """How many steps of an environment it has."""
        return self.count

    agent_steps = env_steps

    def columns(self, keys: list[str]) -> list[Any]:
        """These columns."""
        return [self[key] for key in keys]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Its rows, one after another."""
        for number in range(self.count):
            yield {name: _cut(column, number) for name, column in self.items()}

    def copy(self, shallow: bool = False) -> SampleBatch:  # noqa: FBT001, FBT002
        """The same columns, or copies of them."""
        if shallow:
            return SampleBatch(dict(self))
        return SampleBatch(
            {name: column.copy() if hasattr(column, "copy") else column for name, column in self.items()}
        )

    def slice(self, start: int, end: int) -> SampleBatch:
        """The rows from `start` to before `end`."""
        return SampleBatch({name: _cut(column, slice(start, end)) for name, column in self.items()})

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.slice(*key.indices(self.count)[:2])
        return super().__getitem__(key)

    def shuffle(self) -> SampleBatch:
        """Its rows in another order, for all columns alike."""
        import numpy as np

        order = np.random.permutation(self.count)
        for name, column in self.items():
            self[name] = _cut(column, order)
        return self

    def split_by_episode(self, key: str | None = None) -> list[SampleBatch]:
        """One batch for each episode: where `eps_id` changes, else behind each end."""
        import numpy as np

        if key is not None or SampleBatch.EPS_ID in self:
            ids = np.asarray(self[key or SampleBatch.EPS_ID])
            cuts = [int(at) + 1 for at in np.flatnonzero(ids[1:] != ids[:-1])]
        else:
            ended = np.asarray(self[SampleBatch.TERMINATEDS], dtype=bool)
            if SampleBatch.TRUNCATEDS in self:
                ended = ended | np.asarray(self[SampleBatch.TRUNCATEDS], dtype=bool)
            cuts = [int(at) + 1 for at in np.flatnonzero(ended) if at + 1 < self.count]
        ends = [0, *cuts, self.count]
        return [self.slice(start, end) for start, end in pairwise(ends)]

    def timeslices(self, size: int | None = None, num_slices: int | None = None) -> list[SampleBatch]:
        """Parts of so many rows, or so many parts."""
        if size is None:
            size = -(-self.count // (num_slices or 1))
        return [self.slice(start, min(start + size, self.count)) for start in range(0, self.count, size)]

    def size_bytes(self) -> int:
        """How much memory its arrays take."""
        return sum(int(getattr(column, "nbytes", 0)) for column in self.values())

    def as_multi_agent(self, module_id: str = DEFAULT_POLICY_ID) -> MultiAgentBatch:
        """The same, as the batch of one policy."""
        return MultiAgentBatch({module_id: self}, self.count)

    @staticmethod
    def concat_samples(samples: list[SampleBatch]) -> Any:
        """All rows of several batches in one."""
        return concat_samples(samples)

    def concat(self, other: SampleBatch) -> SampleBatch:
        """Its rows and those of another."""
        joined = concat_samples([self, other])
        assert isinstance(joined, SampleBatch)
        return joined


class MultiAgentBatch:
    """Batches of several policies.

    Args:
        policy_batches: by the policies' names.
        env_steps: how many steps of the environment they are of.
    """

    def __init__(self, policy_batches: dict[str, SampleBatch], env_steps: int) -> None:
        self.policy_batches = policy_batches
        self.count = env_steps

    def env_steps(self) -> int:
        """Steps of the environment."""
        return self.count

    def agent_steps(self) -> int:
        """Steps of all agents."""
        return sum(len(batch) for batch in self.policy_batches.values())

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, policy: str) -> SampleBatch:
        return self.policy_batches[policy]

    @staticmethod
    def wrap_as_needed(policy_batches: dict[str, SampleBatch], env_steps: int) -> SampleBatch | MultiAgentBatch:
        """That of a single default policy is a plain batch."""
        if list(policy_batches) == [DEFAULT_POLICY_ID]:
            return policy_batches[DEFAULT_POLICY_ID]
        return MultiAgentBatch(policy_batches, env_steps)


def concat_samples(samples: Iterable[Any]) -> Any:
    """All rows of several batches in one; of batches of several policies, policy by policy."""
    samples = list(samples)
    if any(isinstance(sample, MultiAgentBatch) for sample in samples):
        parts: dict[str, list[SampleBatch]] = {}
        for sample in samples:
            whole = sample if isinstance(sample, MultiAgentBatch) else sample.as_multi_agent()
            for name, batch in whole.policy_batches.items():
                parts.setdefault(name, []).append(batch)
        steps = sum(sample.count for sample in samples)
        return MultiAgentBatch({name: concat_samples(batches) for name, batches in parts.items()}, steps)
    full = [sample for sample in samples if sample.count]
    if not full:
        return SampleBatch()
    return SampleBatch({name: _joined([sample[name] for sample in full]) for name in full[0]})


def _array(column: list[Any]) -> Any:
    import numpy as np

    # Dictionaries, such as infos, stay as they are, row by row.
    if any(isinstance(value, dict) for value in column):
        made = np.empty(len(column), dtype=object)
        made[:] = column
        return made
    try:
        return np.array(column)
    except ValueError:
        return column


def _rows(column: Any) -> int | None:
    if isinstance(column, dict):
        return next((_rows(inner) for inner in column.values()), None)
    return len(column) if hasattr(column, "__len__") and not isinstance(column, str) else None


def _cut(column: Any, rows: Any) -> Any:
    if isinstance(column, dict):
        return {name: _cut(inner, rows) for name, inner in column.items()}
    if isinstance(column, list) and not isinstance(rows, int | slice):
        return [column[row] for row in rows]
    return column[rows]


def _joined(columns: list[Any]) -> Any:
    first = columns[0]
    if isinstance(first, dict):
        return {name: _joined([column[name] for column in columns]) for name in first}
    if isinstance(first, list):
        return [value for column in columns for value in column]
    if type(first).__module__.partition(".")[0] == "torch":
        import importlib

        return importlib.import_module("torch").cat(columns)
    import numpy as np

    return np.concatenate([np.asarray(column) for column in columns])


__all__ = ["DEFAULT_POLICY_ID", "MultiAgentBatch", "SampleBatch", "concat_samples"]
