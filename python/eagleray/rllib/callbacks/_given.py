"""What callbacks are given: batches and environments, with the names that programs know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from eagleray.rllib._engine.protocol import Acted, Observed, Rollout

    #: The columns of a rollout.
    Reader = Callable[[Rollout], dict[str, Any]]


class Batch:
    """Steps that were sampled, or learned from. Columns are made when somebody asks for one."""

    def __init__(self, rollouts: Sequence[Rollout], read: Reader, observed: Observed, acted: Acted) -> None:
        self.rollouts = list(rollouts)
        self._read, self._observed, self._acted = read, observed, acted
        self._made: dict[str, Any] | None = None

    @property
    def count(self) -> int:
        """Steps in it."""
        return sum(rollout.steps for rollout in self.rollouts)

    def __len__(self) -> int:
        return self.count

    def env_steps(self) -> int:
        """Steps in it."""
        return self.count

    agent_steps = env_steps

    def __getitem__(self, name: str) -> Any:
        """A column by RLlib's name, as numpy: the network's side of it, so observations and actions may be scaled."""
        columns = self._columns()
        if name not in columns:
            raise KeyError(f"the batch has no column {name!r}; it has {sorted(columns)}")
        return columns[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A column, or the default."""
        return self._columns().get(name, default)

    def keys(self) -> list[str]:
        """The names of its columns."""
        return list(self._columns())

    def items(self) -> list[tuple[str, Any]]:
        """Its columns and their names."""
        return list(self._columns().items())

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns())

    def __contains__(self, name: object) -> bool:
        return name in self._columns()

    def _columns(self) -> dict[str, Any]:
        if self._made is None:
            # Here, because configurations are made where numpy is not installed.
            import numpy as np

            parts = [self._read(rollout) for rollout in self.rollouts if rollout.steps]
            joined = {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}
            for name in ("rewards", "terminateds", "truncateds", "action_logp", "vf_preds"):
                if name in joined:
                    joined[name] = joined[name].reshape(-1)
            if joined:
                joined["obs"] = joined["obs"].reshape(-1, *self._observed.shape)
                joined["dones"] = joined["terminateds"] | joined["truncateds"]
                if self._acted.kind == "discrete":
                    chosen = joined["actions"].astype(np.int64)
                    joined["actions"] = chosen[:, 0] if self._acted.size == 1 else chosen
            self._made = joined
        return self._made


class AgentsBatch:
    """Steps of several policies."""

    def __init__(self, policy_batches: Mapping[str, Batch], count: int) -> None:
        self.policy_batches = dict(policy_batches)
        #: Steps of environments.
        self.count = count

    def __len__(self) -> int:
        return self.count

    def env_steps(self) -> int:
        """Steps of environments."""
        return self.count

    def agent_steps(self) -> int:
        """Steps of agents."""
        return sum(batch.count for batch in self.policy_batches.values())

    def __getitem__(self, name: str) -> Batch:
        """The batch of one policy."""
        if name not in self.policy_batches:
            raise KeyError(
                f"there is no batch of {name!r}; there are those of {sorted(self.policy_batches)}, which have the columns"
            )
        return self.policy_batches[name]


class SubEnvironments:
    """All environments of a runner, as older callbacks ask for them; beside that, the one that the callback is about."""

    def __init__(self, env: Any, all_of_them: Callable[[], list[Any]]) -> None:
        self._env, self._all = env, all_of_them

    @property
    def envs(self) -> list[Any]:
        """All of them."""
        return self._all()

    @property
    def vector_env(self) -> SubEnvironments:
        """The same."""
        return self

    @property
    def num_envs(self) -> int:
        """How many there are."""
        return len(self._all())

    def get_sub_environments(self, *, as_dict: bool = False) -> Any:
        """All of them, in their order or by their number."""
        return dict(enumerate(self._all())) if as_dict else self._all()

    def get_unwrapped(self) -> list[Any]:
        """All of them: the oldest name."""
        return self._all()

    def __getattr__(self, name: str) -> Any:
        """What the environment itself has."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._env, name)
