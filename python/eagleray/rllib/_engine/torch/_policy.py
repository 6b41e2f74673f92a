"""Acting by a program's model: in a runner, beside its environments, a batch for each vector step."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from eagleray.rllib._engine import _filters
from eagleray.rllib._engine._moments import Filter
from eagleray.rllib._engine.protocol import Ended
from eagleray.rllib._engine.torch._columns import Columns
from eagleray.rllib._engine.torch._dist import dist_of
from eagleray.rllib._engine.torch._network import Network, device_of, pack, unpack
from eagleray.rllib._engine.torch._threads import threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagleray.rllib._engine.native import NativeSimulator
    from eagleray.rllib._engine.protocol import Flags, Floats, Plan


def filter_of(plan: Plan, count: int) -> Filter | None:
    """What brings observations and rewards to one scale, if anything does."""
    spec = _filters.spec_of(plan)
    if spec is None:
        return None
    said = json.loads(spec)
    return Filter(plan.observed.size, count, observes=said["observes"], rewards=said["rewards"], gamma=said["gamma"])


class TorchPolicy:
    """A model that acts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._device = device_of(plan.settings, acts=True)
        # The weights come from the learner; what programs draw from torch themselves is not disturbed.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(plan.seed)
            self.network = Network(plan).to(self._device).eval()
        self.dist = dist_of(plan.acted)
        self.is_q = plan.algorithm == "DQN"
        self.epsilon = 0.0
        self._filter = filter_of(plan, 1)
        self._chance = np.random.default_rng(plan.seed)
        self._collectors: list[TorchCollector] = []

    @property
    def module(self) -> Any:
        """The program's own module, with the weights that it acts by."""
        return self.network.model

    def load(self, weights: bytes, exploration: Mapping[str, float]) -> None:
        """Take these weights, and what exploring depends on."""
        moments, weights = _filters.parted(weights)
        self.network.load(unpack(weights)[0])
        self.epsilon = float(exploration.get("epsilon", 0.0))
        if moments is not None:
            for filter_ in (self._filter, *(collector.filter for collector in self._collectors)):
                if filter_ is not None:
                    filter_.set_moments(moments)

    def written(self) -> bytes:
        """The weights that it acts by."""
        return _filters.joined(None if self._filter is None else self._filter.moments(), pack(self.network.tensors()))

    def judge(self, rows: Floats, *, explore: bool, values: bool) -> tuple[Floats, Floats | None]:
        """What actions are chosen from, and what the rows are worth."""
        with torch.inference_mode(), threads(1):
            # A copy: the rows are written down, and models may write into what they are given.
            seen = torch.tensor(np.asarray(rows, np.float32), device=self._device)
            how = "exploration" if explore else "inference"
            inputs, worth = self.network(seen, how=how, values=values)
            found = inputs.float().cpu().numpy()
            return found, None if worth is None else worth.float().cpu().numpy()

    def choose(self, inputs: Floats, chance: np.random.Generator, *, explore: bool) -> Floats:
        """An action for each row."""
        if not self.is_q:
            return self.dist.draw(inputs, chance if explore else None)
        actions = inputs.argmax(-1)
        if explore:
            is_astray = chance.random(len(actions)) < self.epsilon
            actions = np.where(is_astray, chance.integers(0, inputs.shape[1], len(actions)), actions)
        column: Floats = actions.astype(np.float32)[:, None]
        return column

    @property
    def state_size(self) -> int:
        """Models that remember are refused."""
        return 0

    def act(self, observed: Floats, *, explore: bool, state: Floats | None = None) -> tuple[Floats, Floats | None]:
        """Choose actions without writing anything down."""
        inputs, _ = self.judge(self._scaled(observed), explore=explore, values=False)
        return self.choose(inputs, self._chance, explore=explore), None

    def inputs(self, observed: Floats, state: Floats | None = None) -> Floats:
        """What the distribution of actions is made of, a row each."""
        return self.judge(self._scaled(observed), explore=False, values=False)[0]

    def _scaled(self, observed: Floats) -> Floats:
        rows = np.asarray(observed, np.float32).reshape(len(observed), -1)
        return rows if self._filter is None else self._filter.scale(rows)

    def collector(self, count: int) -> TorchCollector:
        """A collector for so many environments, which acts by this policy from then on."""
        # Collectors of one policy do not choose alike.
        seed = self._plan.seed + 7_919 * (1 + len(self._collectors))
        collector = TorchCollector(self, filter_of(self._plan, count), count, seed)
        if collector.filter is not None and self._filter is not None:
            collector.filter.set_moments(self._filter.moments())
        self._collectors.append(collector)
        return collector


class TorchCollector:
    """Chooses actions for environments side by side and writes down what comes of them."""

    def __init__(self, policy: TorchPolicy, filter_: Filter | None, count: int, seed: int) -> None:
        self._policy, self.filter, self._count = policy, filter_, count
        self._chance = np.random.default_rng(seed)
        self._simulator: NativeSimulator | None = None
        self._totals, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        #: Episodes that ended with the last `observe`, in the order of their environments.
        self.ended: list[Ended] = []
        self._begin()

    def _begin(self) -> None:
        self._written: dict[str, list[Any]] = {name: [] for name in _WRITTEN}
        self._cut: list[tuple[int, int]] = []
        self._last: list[Floats] = []
        self._open: Floats | None = None

    def _see(self, observed: Floats) -> Floats:
        """The rows as the model knows them. What `observe` brought is counted once only."""
        rows = np.array(observed, np.float32).reshape(self._count, -1)
        if self._open is not None and self._written["rewards"]:
            return self._open
        return rows if self.filter is None else self.filter.observe(rows)

    def act(self, observed: Floats, *, explore: bool) -> Floats:
        """Choose an action for each row."""
        rows = self._see(observed)
        inputs, values = self._policy.judge(rows, explore=explore, values=not self._policy.is_q)
        actions = self._policy.choose(inputs, self._chance, explore=explore)
        self._write(rows, actions, inputs, values)
        return actions

    def told(self, observed: Floats, actions: Floats) -> None:
        """Write down actions that somebody else chose."""
        rows = self._see(observed)
        inputs, values = self._policy.judge(rows, explore=True, values=not self._policy.is_q)
        self._write(rows, np.array(actions, np.float32).reshape(self._count, -1), inputs, values)

    def _write(self, rows: Floats, actions: Floats, inputs: Floats, values: Floats | None) -> None:
        is_q = self._policy.is_q
        logp = np.zeros(len(rows), np.float32) if is_q else self._policy.dist.logp(inputs, actions)
        column = np.zeros(len(rows), np.float32) if values is None else values
        for name, value in zip(_WRITTEN, (rows, actions, inputs, logp, column), strict=False):
            self._written[name].append(value)

    def observe(self, rewards: Floats, terminated: Flags, truncated: Flags, observed: Floats, last: Floats) -> None:
        """Write down what the actions led to."""
        step = len(self._written["rewards"])
        ends = np.asarray(terminated, bool), np.asarray(truncated, bool)
        given = np.array(rewards, np.float32)
        if self.filter is not None:
            given = self.filter.reward(given, ends[0] | ends[1])
        for name, value in zip(("rewards", "terminated", "truncated"), (given, *map(np.array, ends)), strict=True):
            self._written[name].append(value)
        for env in np.flatnonzero(ends[1] & ~ends[0]).tolist():
            seen = np.array(last[env], np.float32).reshape(1, -1)
            self._cut.append((step, env))
            self._last.append(seen if self.filter is None else self.filter.scale(seen))
        rows = np.array(observed, np.float32).reshape(self._count, -1)
        self._open = rows if self.filter is None else self.filter.observe(rows)
        self._totals += rewards
        self._lengths += 1
        self.ended = []
        for env in np.flatnonzero(ends[0] | ends[1]).tolist():
            self.ended.append(Ended(float(self._totals[env]), int(self._lengths[env])))
            self._totals[env], self._lengths[env] = 0.0, 0

    def run(self, simulator: Any, steps: int, *, explore: bool) -> list[Ended]:
        """Do all of that with a simulator, so many steps in each environment. Returns the episodes that ended."""
        if simulator is not self._simulator:
            # One that was restored belongs to totals that were: only another one begins them anew.
            if self._simulator is not None:
                self._totals[:], self._lengths[:] = 0.0, 0
            self._simulator = simulator
        seen, count = simulator.seen, self._count
        rewards, last = np.empty(count, np.float32), np.zeros_like(seen)
        flags = np.zeros((2, count), np.uint8)
        ended: list[Ended] = []
        for _ in range(steps):
            actions = self.act(seen, explore=explore)
            simulator.native.step(np.ascontiguousarray(actions), seen, rewards, flags[0], flags[1], last)
            self.observe(rewards, flags[0].view(bool), flags[1].view(bool), seen, last)
            ended += self.ended
        return ended

    def forget(self) -> None:
        """Drop what was written since the last `take`, and the episodes that ran."""
        self._begin()
        self._totals[:], self._lengths[:] = 0.0, 0
        self.ended = []

    def take(self) -> Columns:
        """Hand over what was written since the last time."""
        written: dict[str, Any] = {name: np.stack(self._written[name]) for name in _WRITTEN}
        size = written["observed"].shape[-1]
        last = np.concatenate(self._last) if self._last else np.zeros((0, size), np.float32)
        cut = np.asarray(self._cut, np.int64).reshape(-1, 2)
        still = written["observed"][-1] if self._open is None else self._open
        columns = Columns(**written, following=np.zeros_like(written["rewards"]), cut=cut, last=last, open=still)
        if not self._policy.is_q:
            _, values = self._policy.judge(columns.behind(), explore=True, values=True)
            if values is not None:
                columns.following = columns.following_of(values)
        if self.filter is not None:
            columns.delta = self.filter.take_delta()
        self._begin()
        return columns

    def state(self) -> bytes:
        """What its next choices depend on, beside the weights. Between rollouts only."""
        said = {
            "chance": self._chance.bit_generator.state,
            "totals": self._totals.tolist(),
            "lengths": self._lengths.tolist(),
        }
        text = json.dumps(said).encode()
        behind = b"" if self.filter is None else self.filter.state()
        return len(text).to_bytes(8, "little") + text + behind

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        size = int.from_bytes(state[:8], "little")
        said = json.loads(state[8 : 8 + size])
        self._chance.bit_generator.state = copy.deepcopy(said["chance"])
        self._totals, self._lengths = np.array(said["totals"]), np.array(said["lengths"], np.int64)
        if self.filter is not None:
            self.filter.restore(state[8 + size :])


#: The columns that are written step by step, those of `act` first.
_WRITTEN = ("observed", "actions", "inputs", "logp", "values", "rewards", "terminated", "truncated")
