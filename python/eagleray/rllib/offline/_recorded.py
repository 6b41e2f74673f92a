"""Policies whose collectors write down, beside the rollout that learners get, every step for others to read."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eagleray.rllib._engine.protocol import Collector, Ended, Flags, Floats, Policy, Rollout, Simulator
    from eagleray.rllib.offline.json_writer import JsonWriter

    #: Rows of the network as actions that the environment takes.
    Acting = Callable[[Floats], list[Any]]


class RecordedPolicy:
    """A policy as it is, but for its collectors."""

    def __init__(self, inner: Policy, policy_id: str, writer: JsonWriter, acting: Acting) -> None:
        self._inner, self._policy_id, self._writer, self._acting = inner, policy_id, writer, acting

    def load(self, weights: bytes, exploration: Mapping[str, float]) -> None:
        """Take these weights."""
        self._inner.load(weights, exploration)

    def written(self) -> bytes:
        """The weights that it acts by."""
        return self._inner.written()

    @property
    def state_size(self) -> int:
        """Numbers that it remembers of each row."""
        return self._inner.state_size

    def act(self, observed: Floats, *, explore: bool, state: Floats | None = None) -> tuple[Floats, Floats | None]:
        """Choose actions without writing anything down."""
        return self._inner.act(observed, explore=explore, state=state)

    def inputs(self, observed: Floats, state: Floats | None = None) -> Floats:
        """What the distribution of actions is made of."""
        return self._inner.inputs(observed, state)

    def collector(self, count: int) -> RecordedCollector:
        """A collector that writes down what it does."""
        return RecordedCollector(self._inner.collector(count), count, self._write)

    def _write(self, columns: dict[str, list[Any]]) -> None:
        actions = [_plain(action) for row in columns.pop("rows") for action in self._acting(row)]
        self._writer.write({"type": "SampleBatch", "policy_id": self._policy_id, **columns, "actions": actions})


class RecordedCollector:
    """A collector that shows every step to a function, in pieces of the episodes of each environment."""

    def __init__(self, inner: Collector, count: int, write: Callable[[dict[str, list[Any]]], None]) -> None:
        self._inner, self._write = inner, write
        self._open: tuple[Floats, Floats] | None = None
        self._episodes = [(uuid.uuid4().hex, 0) for _ in range(count)]
        self._columns: list[dict[str, list[Any]]] = [{} for _ in range(count)]

    @property
    def ended(self) -> list[Ended]:
        """Episodes that ended with the last `observe`."""
        return self._inner.ended

    def act(self, observed: Floats, *, explore: bool) -> Floats:
        """Choose an action for each row."""
        actions = self._inner.act(observed, explore=explore)
        self._open = (observed.copy(), actions.copy())
        return actions

    def told(self, observed: Floats, actions: Floats) -> None:
        """Write down actions that somebody else chose."""
        self._inner.told(observed, actions)
        self._open = (observed.copy(), actions.copy())

    def observe(self, rewards: Floats, terminated: Flags, truncated: Flags, observed: Floats, last: Floats) -> None:
        """Write down what the actions led to."""
        self._inner.observe(rewards, terminated, truncated, observed, last)
        assert self._open is not None, "act comes before observe"
        seen, actions = self._open
        for index, columns in enumerate(self._columns):
            episode, at = self._episodes[index]
            is_over = bool(terminated[index] or truncated[index])
            step = {
                "eps_id": episode,
                "t": at,
                "obs": seen[index].tolist(),
                "rows": actions[index : index + 1],
                "rewards": float(rewards[index]),
                "terminateds": bool(terminated[index]),
                "truncateds": bool(truncated[index]),
                "dones": is_over,
                "new_obs": (last if is_over else observed)[index].tolist(),
            }
            for name, value in step.items():
                columns.setdefault(name, []).append(value)
            self._episodes[index] = (uuid.uuid4().hex, 0) if is_over else (episode, at + 1)

    def run(self, simulator: Simulator, steps: int, *, explore: bool) -> list[Ended]:
        """Do all of that with a simulator, step by step."""
        found: list[Ended] = []
        seen = simulator.look()
        for _ in range(steps):
            stepped = simulator.step(self.act(seen, explore=explore))
            seen = stepped.observed
            self.observe(stepped.rewards, stepped.terminated, stepped.truncated, seen, stepped.last)
            found += self.ended
        return found

    def forget(self) -> None:
        """Drop what was written since the last `take`, and the episodes that ran: nobody reads of them."""
        self._inner.forget()
        self._open = None
        self._episodes = [(uuid.uuid4().hex, 0) for _ in self._episodes]
        self._columns = [{} for _ in self._columns]

    def take(self) -> Rollout:
        """Hand over what was written, and write it for others too."""
        for index, columns in enumerate(self._columns):
            if columns:
                self._write(columns)
                self._columns[index] = {}
        return self._inner.take()

    def state(self) -> bytes:
        """What its next choices depend on."""
        return self._inner.state()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self._inner.restore(state)


def _plain(action: Any) -> Any:
    """An action as JSON has it."""
    if isinstance(action, dict):
        return {key: _plain(part) for key, part in action.items()}
    if isinstance(action, tuple | list):
        return [_plain(part) for part in action]
    return action.tolist() if hasattr(action, "tolist") else action
