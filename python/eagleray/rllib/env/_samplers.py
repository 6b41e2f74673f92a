"""Sampling where each environment has one agent: built-in environments in one call, those in Python step by step."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eagleray.rllib.callbacks._given import SubEnvironments
from eagleray.rllib.callbacks._hooks import EPISODE_HOOKS
from eagleray.rllib.env._episode import AGENT, POLICY, Episode
from eagleray.rllib.utils.error import EnvError
from eagleray.rllib.utils.metrics._episodes import EpisodeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib._engine.protocol import Collector, Policy, Rollout, Simulator
    from eagleray.rllib.callbacks._hooks import Hooks
    from eagleray.rllib.env._bridge import Bridge

#: Steps without the end of an episode that is waited for, after which it is taken for endless. A word is said after a tenth of them.
ENDLESS_STEPS = 1_000_000

_logger = logging.getLogger("eagleray.rllib")


def check_endless(steps: int) -> None:
    """Called while whole episodes are waited for, with the steps since the last end: some environments have none."""
    if steps == ENDLESS_STEPS // 10:
        _logger.warning("no episode has ended in %d steps, and one is waited for: set `horizon` to cut it", steps)
    if steps >= ENDLESS_STEPS:
        raise EnvError(
            f"no episode has ended in {steps} steps, and whole ones are wanted: set `horizon` to cut them, "
            'or batch_mode="truncate_episodes" and evaluation_duration_unit="timesteps"'
        )


@dataclass
class Sample:
    """What was sampled: by policy, and how many steps."""

    rollouts: dict[str, list[Rollout]] = field(default_factory=dict)
    env_steps: int = 0
    agent_steps: int = 0


class Sampler(Protocol):
    """Samples from the environments of a runner."""

    #: Episodes that ended and were not asked for yet.
    records: list[EpisodeRecord]

    @property
    def restarts(self) -> int:
        """How often an environment was made anew."""

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Samples at least so many steps over all environments, or until so many episodes ended."""

    def reset(self) -> None:
        """Begins all episodes anew."""

    def close(self) -> None:
        """Lets go of the environments."""

    def environments(self) -> list[Any]:
        """Those that are in Python."""


@dataclass
class Telling:
    """What callbacks about episodes are told beside the episode."""

    hooks: Hooks
    runner: Any

    def tell(self, hook: str, episode: Episode, env: Any) -> None:
        """Tells those who want to hear of it."""
        from eagleray.rllib.algorithms._views import module_of

        runner = self.runner
        policies = runner.policy_map
        modules = {name: module_of(policy) for name, policy in policies.items()}
        self.hooks.call(
            hook,
            episode=episode,
            env_runner=runner,
            worker=runner,
            env=env,
            base_env=SubEnvironments(env, runner.environments),
            env_index=episode.env_id,
            rl_module=modules[POLICY] if set(modules) == {POLICY} else modules,
            policies=policies,
            prev_episode_chunks=[],
            metrics_logger=getattr(runner, "metrics", None),
        )


class _Quotas:
    """Shares so many episodes out over the environments.

    Whoever takes those that end first has too many short ones: an environment with long episodes would not get to its first end.
    """

    def __init__(self, episodes: int, count: int) -> None:
        whole, rest = divmod(episodes, count)
        self._left = [whole + (index < rest) for index in range(count)]
        #: Episodes that have not ended yet.
        self.open = episodes

    @property
    def are_met(self) -> bool:
        """Whether all have ended their share."""
        return self.open == 0

    def take(self, index: int) -> bool:
        """An episode of this environment has ended. Returns whether it counts."""
        if self._left[index] == 0:
            return False
        self._left[index] -= 1
        self.open -= 1
        return True


class SimulatorSampler:
    """Built-in environments. Nothing of Python runs between two steps."""

    def __init__(self, make: Callable[[], Simulator], policy: Policy) -> None:
        self._make = make
        self.simulator = make()
        self.collector = policy.collector(self.simulator.count)
        self.records: list[EpisodeRecord] = []
        self.restarts = 0

    def reset(self) -> None:
        """Begins all episodes anew, as at the very start. Those that run are forgotten."""
        self.simulator = self._make()
        self.collector.forget()

    def close(self) -> None:
        """Nothing is held."""

    def environments(self) -> list[Any]:
        """None is in Python."""
        return []

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Samples in one call, or step by step until so many episodes ended."""
        try:
            return self._sample(steps, episodes, explore=explore)
        except BaseException:
            # In the midst of a step: episodes begin anew.
            self.reset()
            raise

    def _sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        count = self.simulator.count
        each = 0
        if steps is not None:
            each = -(-steps // count)
            self._run(each, explore=explore)
        if episodes:
            each = self._run_whole(episodes, explore=explore)
        if not each:
            return Sample({POLICY: []})
        return Sample({POLICY: [self.collector.take()]}, each * count, each * count)

    def _run_whole(self, episodes: int, *, explore: bool) -> int:
        """Steps one by one until each environment has ended its share of episodes. Returns the steps of each."""
        quotas = _Quotas(episodes, self.simulator.count)
        seen, steps, began = self.simulator.look(), 0, time.perf_counter()
        while not quotas.are_met:
            stepped = self.simulator.step(self.collector.act(seen, explore=explore))
            seen = stepped.observed
            self.collector.observe(stepped.rewards, stepped.terminated, stepped.truncated, seen, stepped.last)
            steps += 1
            over = (stepped.terminated | stepped.truncated).nonzero()[0].tolist()
            for index, one in zip(over, self.collector.ended, strict=True):
                if quotas.take(index):
                    each = (time.perf_counter() - began) / steps
                    self.records.append(_record(one.total, one.length, one.length * each))
        return steps

    def _run(self, steps: int, *, explore: bool) -> None:
        start = time.perf_counter()
        ended = self.collector.run(self.simulator, steps, explore=explore)
        each = (time.perf_counter() - start) / max(steps, 1)
        for one in ended:
            self.records.append(_record(one.total, one.length, one.length * each))


class BridgeSampler:
    """Environments in Python behind a bridge: two calls of the engine for each vector step."""

    def __init__(self, bridge: Bridge, policy: Policy, telling: Telling) -> None:
        self.bridge = bridge
        self.collector: Collector = policy.collector(bridge.count)
        self.records: list[EpisodeRecord] = []
        self._telling = telling
        self._is_watched = telling.hooks.wants(*EPISODE_HOOKS)
        self._episodes: list[Episode] = []
        self._totals = [0.0] * bridge.count
        self._began: list[tuple[int, float]] = []
        self._is_begun = False
        #: While whole episodes are waited for: whose count.
        self._quotas: _Quotas | None = None

    @property
    def restarts(self) -> int:
        """How often an environment was made anew."""
        return self.bridge.restarts

    def reset(self) -> None:
        """Begins all episodes anew. Those that run are forgotten."""
        self.collector.forget()
        self.bridge.reset()
        count = self.bridge.count
        self._totals = [0.0] * count
        self._began = [(self.bridge.steps, time.perf_counter())] * count
        self._is_begun = True
        if self._is_watched:
            self._episodes = [self._new_episode(index) for index in range(count)]

    def close(self) -> None:
        """Lets go of the environments."""
        self.bridge.close()

    def environments(self) -> list[Any]:
        """All of them, as the program made them; of a `VectorEnv` its parts, if it says them."""
        return self.bridge.environments()

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Samples in whole vector steps."""
        try:
            return self._sample(steps, episodes, explore=explore)
        except BaseException:
            # Some environments have made the step and others not: what was begun is dropped, and episodes begin anew.
            self.collector.forget()
            self._is_begun = False
            raise

    def _sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        if not self._is_begun:
            self.reset()
        count = self.bridge.count
        each = 0
        if steps is not None:
            each = -(-steps // count)
            self._run(each, explore=explore)
        if episodes:
            quotas = self._quotas = _Quotas(episodes, count)
            try:
                quiet = 0
                while not quotas.are_met:
                    open_before = quotas.open
                    self._run(1, explore=explore)
                    each += 1
                    quiet = quiet + 1 if quotas.open == open_before else 0
                    check_endless(quiet)
            finally:
                self._quotas = None
        if not each:
            return Sample({POLICY: []})
        return Sample({POLICY: [self.collector.take()]}, each * count, each * count)

    def _run(self, steps: int, *, explore: bool) -> None:
        # HOT: once per vector step. What is not needed at each step is below.
        bridge, collector, totals = self.bridge, self.collector, self._totals
        seen, raw = bridge.observed_rows, bridge.raw_rewards
        for _ in range(steps):
            actions = collector.act(seen, explore=explore)
            bridge.step(actions)
            collector.observe(bridge.rewards, bridge.terminated, bridge.truncated, seen, bridge.last)
            for index, reward in enumerate(raw):
                totals[index] += reward
            if self._is_watched:
                self._watch(actions)
            if bridge.ended:
                self._end()

    def _end(self) -> None:
        bridge, now = self.bridge, time.perf_counter()
        for index in bridge.ended:
            start, began = self._began[index]
            length = bridge.steps - start
            total, self._totals[index] = self._totals[index], 0.0
            self._began[index] = (bridge.steps, now)
            # An episode that broke off says nothing about the policy.
            if index in bridge.broken:
                if self._is_watched:
                    self._episodes[index] = self._new_episode(index)
                continue
            record = _record(total, length, now - began)
            if self._is_watched:
                episode = self._episodes[index]
                episode.is_done = True
                episode.is_terminated = bool(bridge.terminated[index])
                episode.is_truncated = bool(bridge.truncated[index])
                self._telling.tell("on_episode_end", episode, bridge.environment(index))
                record.custom, record.hist = dict(episode.custom_metrics), dict(episode.hist_data)
                self._episodes[index] = self._new_episode(index)
            if self._quotas is None or self._quotas.take(index):
                self.records.append(record)

    def _watch(self, actions: Any) -> None:
        bridge = self.bridge
        given = bridge.actions.actions(actions)
        ended = set(bridge.ended)
        for index, episode in enumerate(self._episodes):
            is_over = index in ended
            rows, infos = (bridge.last, bridge.last_infos) if is_over else (bridge.observed_rows, bridge.infos)
            episode.length += 1
            episode.did(given[index], bridge.raw_rewards[index])
            episode.saw(rows[index].copy(), infos[index])
            self._telling.tell("on_episode_step", episode, bridge.environment(index))

    def _new_episode(self, index: int) -> Episode:
        episode, env = Episode(index), self.bridge.environment(index)
        self._telling.tell("on_episode_created", episode, env)
        episode.saw(self.bridge.observed_rows[index].copy(), self.bridge.infos[index])
        self._telling.tell("on_episode_start", episode, env)
        return episode


class WholeEpisodesSampler:
    """Samples that hold whole episodes only: each environment has a sampler of its own, and they take turns."""

    def __init__(self, samplers: list[BridgeSampler]) -> None:
        self._samplers = samplers
        self._next = 0

    @property
    def records(self) -> list[EpisodeRecord]:
        """Of all of them."""
        return [record for sampler in self._samplers for record in sampler.records]

    @records.setter
    def records(self, records: list[EpisodeRecord]) -> None:
        for sampler in self._samplers:
            sampler.records = []
        self._samplers[0].records = records

    @property
    def restarts(self) -> int:
        """How often an environment was made anew."""
        return sum(sampler.restarts for sampler in self._samplers)

    def reset(self) -> None:
        """Begins all episodes anew."""
        for sampler in self._samplers:
            sampler.reset()

    def close(self) -> None:
        """Lets go of the environments."""
        for sampler in self._samplers:
            sampler.close()

    def environments(self) -> list[Any]:
        """Of all of them."""
        return [env for sampler in self._samplers for env in sampler.environments()]

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Samples episode by episode."""
        found, ended = Sample({POLICY: []}), 0
        while (steps is not None and found.env_steps < steps) or (episodes is not None and ended < episodes):
            sampler = self._samplers[self._next % len(self._samplers)]
            self._next += 1
            part = sampler.sample(None, 1, explore=explore)
            found.rollouts[POLICY] += part.rollouts[POLICY]
            found.env_steps += part.env_steps
            found.agent_steps += part.agent_steps
            ended += 1
        return found


def _record(total: float, length: int, seconds: float) -> EpisodeRecord:
    total = float(total)  # rewards may have been numpy's
    return EpisodeRecord(total, length, seconds, {AGENT: total}, {POLICY: [total]})
