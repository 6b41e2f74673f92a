"""The engine: `eagleray._native.rl` behind the protocol that the rest of this package is written to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from eagleray._native import rl
from eagleray.rllib._engine import _filters, _models, _rollouts, _safetensors
from eagleray.rllib._engine._learners import LEARNERS
from eagleray.rllib._engine.protocol import Acted, Ended, Observed, Stepped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagleray.rllib._engine.protocol import Bounded, Flags, Floats, Learner, Plan, Policy, Rollout, Simulator


class NativeSimulator:
    """Built-in environments of one kind, stepped where they are."""

    def __init__(
        self, name: str, env_config: Mapping[str, Any], count: int, seed: int, bounded: Bounded = "spread"
    ) -> None:
        self.native = rl.VectorEnv(name, count, json.dumps(dict(env_config)), bounded)
        spaces = json.loads(self.native.spaces)
        self.count = count
        self.observed = Observed(tuple(spaces["observed"]["Box"]["shape"]))
        self.acted = _acted(spaces["acted"])
        self.seen: Floats = np.zeros((count, self.observed.size), np.float32)
        self.native.reset(seed, self.seen)
        self._stepped: Stepped | None = None

    def look(self) -> Floats:
        """What is seen now."""
        self.native.observe(self.seen)
        return self.seen

    def step(self, actions: Floats) -> Stepped:
        """Do one step in each."""
        if self._stepped is None:
            rewards, last = np.zeros(self.count, np.float32), np.zeros_like(self.seen)
            terminated, truncated = np.zeros(self.count, np.bool_), np.zeros(self.count, np.bool_)
            self._stepped = Stepped(rewards, terminated, truncated, self.seen, last)
        into = self._stepped
        flags = (into.terminated.view(np.uint8), into.truncated.view(np.uint8))
        self.native.step(_whole(actions), into.observed, into.rewards, *flags, into.last)
        return into

    def state(self) -> bytes:
        """All of it, so that another one goes on from here in the same way."""
        return self.native.save()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self.native.restore(state)
        self.native.observe(self.seen)


def _acted(spaces: dict[str, Any]) -> Acted:
    (kind, said), *_ = spaces.items()
    if kind == "Discrete":
        return Acted("discrete", (said,))
    if kind == "MultiDiscrete":
        return Acted("discrete", tuple(said))
    return Acted("box", (1,) * len(said["low"]), tuple(said["low"]), tuple(said["high"]))


class NativePolicy:
    """A network that acts."""

    def __init__(self, plan: Plan) -> None:
        self._kind, self._model = _models.described(plan)
        self._seed = plan.seed
        self._acted = plan.acted.size
        self._observed = plan.observed.size
        self.native = rl.Policy(self._kind, self._model, plan.seed)
        self.filter_spec = _filters.spec_of(plan)
        self._filter = None if self.filter_spec is None else rl.Filter(self.filter_spec, plan.observed.size)
        self._epsilon = 0.0
        self._collectors: list[NativeCollector] = []

    def load(self, weights: bytes, exploration: Mapping[str, float]) -> None:
        """Take these weights, and what exploring depends on."""
        moments, weights = _filters.parted(weights)
        self.native.set_weights(weights)
        if self._filter is not None and moments is not None:
            self._filter.set_moments(moments)
        self._epsilon = float(exploration.get("epsilon", 0.0))
        for collector in self._collectors:
            collector.native.set_weights(weights)
            if moments is not None:
                collector.native.set_filter_moments(moments)

    def written(self) -> bytes:
        """The weights that it acts by."""
        return _filters.joined(None if self._filter is None else self._filter.moments(), self.native.weights())

    def choice(self, *, explore: bool) -> tuple[str, float]:
        """How actions are chosen."""
        if not explore:
            return "best", 0.0
        return ("astray", self._epsilon) if self._kind == "q" else ("drawn", 0.0)

    @property
    def state_size(self) -> int:
        """Numbers that it remembers of each row."""
        return self.native.state_size

    def act(self, observed: Floats, *, explore: bool, state: Floats | None = None) -> tuple[Floats, Floats | None]:
        """Choose actions without writing anything down."""
        actions = np.empty((len(observed), self._acted), np.float32)
        self._recall(len(observed), state)
        self.native.act(self._scaled(observed), *self.choice(explore=explore), actions)
        if not self.state_size:
            return actions, None
        return actions, np.frombuffer(self.native.states(), np.float32).reshape(len(observed), -1)

    def _recall(self, rows: int, state: Floats | None) -> None:
        """The next choices go on from this state, whatever was chosen before."""
        if self.state_size:
            self.native.set_states(bytes(4 * self.state_size * rows) if state is None else _whole(state).tobytes())

    def _scaled(self, observed: Floats) -> Floats:
        """The rows as the network knows them."""
        if self._filter is None:
            return _whole(observed)
        rows = np.array(observed, np.float32, order="C")
        self._filter.scale(rows)
        return rows

    def inputs(self, observed: Floats, state: Floats | None = None) -> Floats:
        """What the distribution of actions is made of, a row each."""
        actions = np.empty((len(observed), self._acted), np.float32)
        self._recall(len(observed), state)
        inputs, _, _ = self.native.act(self._scaled(observed), "best", 0.0, actions)
        return np.frombuffer(inputs, np.float32).reshape(len(observed), -1)

    def collector(self, count: int) -> NativeCollector:
        """A collector for so many environments, which acts by this policy from then on."""
        # Collectors of one policy do not choose alike.
        seed = self._seed + 7_919 * (1 + len(self._collectors))
        collector = NativeCollector(self, rl.Runner(self._kind, self._model, count, seed), (count, self._acted))
        collector.native.set_weights(self.native.weights())
        if self._filter is not None:
            collector.native.set_filter(self.filter_spec)
            collector.native.set_filter_moments(self._filter.moments())
        self._collectors.append(collector)
        return collector


class NativeCollector:
    """Chooses actions for environments side by side and writes down what comes of them."""

    def __init__(self, policy: NativePolicy, native: rl.Runner, shape: tuple[int, int]) -> None:
        self._policy, self.native, self._shape = policy, native, shape
        self._simulator: NativeSimulator | None = None
        #: Whether the filter counts what it sees.
        self._is_learning = True
        #: Episodes that ended with the last `observe`, in the order of their environments.
        self.ended: list[Ended] = []

    def act(self, observed: Floats, *, explore: bool) -> Floats:
        """Choose an action for each row."""
        actions = np.empty(self._shape, np.float32)
        self._learn(explore)
        self.native.see(_whole(observed))
        self.native.act(*self._policy.choice(explore=explore), actions)
        return actions

    def _learn(self, is_learning: bool) -> None:  # noqa: FBT001 - a state, not an option
        """What is seen where nothing is tried out, as in evaluation, says nothing about what training sees."""
        if is_learning != self._is_learning:
            self.native.set_filter_learning(is_learning)
            self._is_learning = is_learning

    def told(self, observed: Floats, actions: Floats) -> None:
        """Write down actions that somebody else chose."""
        self.native.see(_whole(observed))
        self.native.told(_whole(actions))

    def observe(self, rewards: Floats, terminated: Flags, truncated: Flags, observed: Floats, last: Floats) -> None:
        """Write down what the actions led to."""
        flags = (np.ascontiguousarray(terminated).view(np.uint8), np.ascontiguousarray(truncated).view(np.uint8))
        self.native.observe(_whole(rewards), *flags, _whole(observed), _whole(last))
        self.ended = [Ended(total, length) for total, length in self.native.take_episodes()]

    def run(self, simulator: Simulator, steps: int, *, explore: bool) -> list[Ended]:
        """Do all of that with a simulator, so many steps in each environment. Returns the episodes that ended."""
        native = cast("NativeSimulator", simulator)
        self._learn(explore)
        if native is not self._simulator:
            self._simulator = native
            self.native.see(native.seen)
        self.native.run(native.native, steps, *self._policy.choice(explore=explore))
        return [Ended(total, length) for total, length in self.native.take_episodes()]

    def forget(self) -> None:
        """Drop what was written since the last `take`, and the episodes that ran."""
        self.native.forget()
        self.ended, self._simulator = [], None

    def take(self) -> Rollout:
        """Hand over what was written since the last time."""
        rollout, delta = self.native.take(), self.native.take_filter_delta()
        return cast("Rollout", rollout if delta is None else _filters.Filtered(rollout, delta))

    def state(self) -> bytes:
        """What its next choices depend on, beside the weights."""
        return self.native.save()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self.native.restore(state)


def _whole(column: Floats) -> Floats:
    return np.ascontiguousarray(column, np.float32)


def _torch() -> Any:
    """What runs models of a program's own. Only those need torch."""
    from eagleray.rllib._engine import torch

    return torch


class Engine:
    """Makes learners, policies and simulators."""

    def learner(self, plan: Plan) -> Learner:
        """One that learns by the plan's algorithm."""
        if plan.custom is not None:
            return cast("Learner", _torch().learner(plan))
        return cast("Learner", LEARNERS[plan.algorithm](plan))

    def policy(self, plan: Plan) -> Policy:
        """One that acts."""
        if plan.custom is not None:
            return cast("Policy", _torch().policy(plan))
        return cast("Policy", NativePolicy(plan))

    def simulator(
        self, name: str, env_config: Mapping[str, Any], count: int, seed: int, bounded: Bounded = "spread"
    ) -> Simulator | None:
        """The built-in environments of this name, or None."""
        if name not in rl.environments():
            return None
        return cast("Simulator", NativeSimulator(name, env_config, count, seed, bounded))

    def columns(self, rollout: Rollout) -> dict[str, Any]:
        """A rollout's columns by RLlib's names."""
        return _rollouts.columns_of(rollout)

    def arrays(self, weights: bytes) -> dict[str, Floats]:
        """Weights by the names of their tensors."""
        arrays, _, _ = _safetensors.unpack(_filters.parted(weights)[1])
        return arrays

    def packed(self, arrays: Mapping[str, Floats]) -> bytes:
        """Weights of such arrays: floats as built-in networks have them, others as they are."""
        return _safetensors.pack({name: _narrow(array) for name, array in arrays.items()})


def _narrow(array: Any) -> Any:
    given = np.asarray(array)
    return given.astype(np.float32) if given.dtype.kind == "f" else given
