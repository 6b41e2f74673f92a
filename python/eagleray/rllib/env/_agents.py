"""Sampling where agents come and go: environments with several of them, simulators that drive themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eagleray.rllib.callbacks._hooks import EPISODE_HOOKS
from eagleray.rllib.env import multi_agent_env
from eagleray.rllib.env._episode import POLICY, Episode
from eagleray.rllib.env._samplers import Sample, check_endless
from eagleray.rllib.env._streams import Stream, Streams
from eagleray.rllib.env.multi_agent_env import ALL
from eagleray.rllib.utils.error import EnvError, NotFiniteError, PolicyMappingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eagleray.rllib._engine.protocol import Policy
    from eagleray.rllib.env._samplers import Telling
    from eagleray.rllib.env.external_env import ExternalEnv, Request
    from eagleray.rllib.env.spaces import ActionForm, ObservationForm
    from eagleray.rllib.utils.metrics._episodes import EpisodeRecord

    #: How one policy's observations become rows, and its rows actions.
    Forms = tuple[ObservationForm, ActionForm]

#: A batch may become longer by this part of it until agents that wait for their turn have seen what their last action led to.
_LONGER = 1 / 16

#: Steps after one another in which no agent acts. Agents may come later, but not at any time.
_IDLE_STEPS = 1000


class _Table:
    """One environment with its agents."""

    def __init__(self, env: Any, index: int) -> None:
        self.env = env
        self.index = index
        self.episode = Episode(index)
        #: Who acts next, and on what.
        self.seen: dict[Any, Any] = {}
        self.streams: dict[Any, tuple[str, Stream]] = {}
        #: By which policy each agent of this episode acts; asked once, because who answers may draw lots.
        self.policies: dict[Any, str] = {}
        self.is_begun = False
        self.is_seeded = False
        #: Steps since somebody acted, over episodes too: some have nobody at all.
        self.idle = 0

    @property
    def where(self) -> str:
        """Where an error happened."""
        return f"sub-environment {self.index}, step {self.episode.length}: "


class AgentSampler:
    """Environments with several agents. Each agent has a stream of the policy that it acts by."""

    def __init__(
        self,
        envs: list[Any],
        policies: Mapping[str, Policy],
        forms: Mapping[str, Forms],
        policy_of: Callable[[Any, Any], str],
        telling: Telling,
        *,
        seed: int | None,
        horizon: int | None,
        whole: bool = False,
    ) -> None:
        self._tables = [_Table(env, index) for index, env in enumerate(envs)]
        self._streams = {name: Streams(policy) for name, policy in policies.items()}
        self._forms = forms
        self._policy_of = policy_of
        self._telling = telling
        self._seed = seed
        self._horizon = horizon or math.inf
        #: Whether a sample holds whole episodes only.
        self._is_whole = whole
        self._next = 0
        self._is_watched = telling.hooks.wants(*EPISODE_HOOKS)
        self.records: list[EpisodeRecord] = []
        self.restarts = 0

    def change_policies(
        self, policies: Mapping[str, Policy], forms: Mapping[str, Forms], policy_of: Callable[[Any, Any], str]
    ) -> None:
        """Goes on with these policies. Agents stay with theirs to the end of the episode; those whose policy is gone are asked for anew."""
        for table in self._tables:
            for agent, (name, _) in list(table.streams.items()):
                if name not in policies:
                    del table.streams[agent]
        kept = {name: streams for name, streams in self._streams.items() if name in policies}
        self._streams = kept | {name: Streams(policy) for name, policy in policies.items() if name not in kept}
        self._forms, self._policy_of = forms, policy_of

    def reset(self) -> None:
        """Begins all episodes anew."""
        for table in self._tables:
            self._begin(table)

    def close(self) -> None:
        """Lets go of the environments."""
        for table in self._tables:
            if callable(end := getattr(table.env, "close", None)):
                end()

    def environments(self) -> list[Any]:
        """All of them."""
        return [table.env for table in self._tables]

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Samples in whole steps of the environments, or in whole episodes."""
        try:
            return self._sample(steps, episodes, explore=explore)
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        """Drops what was begun. Some agents have acted and others not: all episodes begin anew."""
        for streams in self._streams.values():
            streams.forget()
        for table in self._tables:
            table.streams, table.seen, table.is_begun = {}, {}, False

    def _sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        found, before = Sample(), len(self.records)
        if self._is_whole or steps is None:
            # Also where episodes are counted: side by side several end at once, which is more than was asked for.
            while found.env_steps < (steps or 0) or len(self.records) - before < (episodes or 0):
                self._play(found, explore=explore)
            self._cut()
        else:
            while found.env_steps < steps:
                self._round(found, explore=explore)
            longest = int(found.env_steps * (1 + _LONGER))
            while self._cut() and found.env_steps + len(self._tables) <= longest:
                self._round(found, explore=explore)
        found.rollouts = {name: streams.take() for name, streams in self._streams.items()}
        return found

    def _play(self, found: Sample, *, explore: bool) -> None:
        """One episode, or the rest of it. Environments take turns, so that none begins one that a sample does not end."""
        table = self._tables[self._next % len(self._tables)]
        self._next += 1
        before, done = len(self.records), 0
        while len(self.records) == before:
            check_endless(done)
            self._step_once(table, found, explore=explore)
            done += 1

    def _step_once(self, table: _Table, found: Sample, *, explore: bool) -> None:
        if not table.is_begun:
            self._begin(table)
        found.agent_steps += self._step(table, explore=explore)
        found.env_steps += 1

    def _round(self, found: Sample, *, explore: bool) -> None:
        """One step of each environment."""
        for table in self._tables:
            self._step_once(table, found, explore=explore)

    def _cut(self) -> bool:
        """A batch ends here. Returns whether an agent has not seen yet what its last action led to, and steps before that wait for it.

        Those whose turn it is have seen it. They act on it in the next batch, by the weights of then.
        """
        for table in self._tables:
            for agent, seen in table.seen.items():
                name, stream = table.streams.get(agent, ("", None))
                if stream is not None and stream.is_open:
                    stream.close(self._forms[name][0].row(seen))
        are_waiting = [streams.cut() for streams in self._streams.values()]
        return any(are_waiting)

    def _begin(self, table: _Table) -> None:
        # An episode that is given up is cut: what its agents did last led to nothing of the next one.
        for agent in list(table.streams):
            self._leave(table, agent, table.seen.get(agent), truncated=True)
        table.episode = Episode(table.index)
        table.policies = {}
        if self._is_watched:
            self._telling.tell("on_episode_created", table.episode, table.env)
        seed = None if self._seed is None or table.is_seeded else self._seed + table.index
        table.is_seeded = True
        table.seen, infos = multi_agent_env.reset(table.env, seed)
        table.is_begun = True
        if self._is_watched:
            for agent, observation in table.seen.items():
                table.episode.saw(observation, infos.get(agent), agent)
            self._telling.tell("on_episode_start", table.episode, table.env)

    def _step(self, table: _Table, *, explore: bool) -> int:
        actions = {agent: self._act(table, agent, seen, explore=explore) for agent, seen in table.seen.items()}
        said = table.env.step(actions)
        episode = table.episode
        episode.length += 1
        try:
            observations, rewards, terminated, truncated, infos = multi_agent_env.parts(said)
        except EnvError as error:
            raise EnvError(f"{table.where}{error}") from None
        for agent, reward in rewards.items():
            self._earn(table, agent, reward, actions)
        is_cut = episode.length >= self._horizon
        is_over = bool(terminated.get(ALL) or truncated.get(ALL) or is_cut)
        for agent in list(table.streams):
            gone = bool(terminated.get(agent) or truncated.get(agent))
            if gone or is_over:
                is_real_end = bool(terminated.get(agent) or (terminated.get(ALL) and not truncated.get(agent)))
                self._leave(table, agent, observations.get(agent, table.seen.get(agent)), truncated=not is_real_end)
        if self._is_watched:
            for agent, observation in observations.items():
                episode.saw(observation, infos.get(agent), agent)
            self._telling.tell("on_episode_step", episode, table.env)
        if is_over:
            self._end(table)
        else:
            left = {agent for agent in observations if terminated.get(agent) or truncated.get(agent)}
            table.seen = {agent: seen for agent, seen in observations.items() if agent not in left}
        table.idle = 0 if actions or table.seen else table.idle + 1
        if table.idle >= _IDLE_STEPS:
            raise EnvError(f"{table.where}{self._idle(table)}")
        return len(actions)

    def _idle(self, table: _Table) -> str:
        # Those that are in the middle of an episode have a stream, those that ended have none.
        who = f"agents {', '.join(map(repr, table.streams))} wait for one" if table.streams else "no agent is left"
        return (
            f"nobody has acted for {table.idle} steps, and no observation says who acts next ({who}). "
            f"Return an observation for each agent that is to act, or end the episode with {ALL!r}: True"
        )

    def _act(self, table: _Table, agent: Any, seen: Any, *, explore: bool) -> Any:
        if agent not in table.streams:
            name = self._name(table, agent)
            table.streams[agent] = (name, self._streams[name].get())
        name, stream = table.streams[agent]
        form, actions = self._forms[name]
        return actions.actions(stream.act(form.row(seen), explore=explore))[0]

    def _name(self, table: _Table, agent: Any) -> str:
        """The policy of an agent, which may have been paid before it acts."""
        name = table.policies.get(agent)
        # A policy may have been removed since.
        if name is None or name not in self._streams:
            name = table.policies[agent] = self._policy_of(agent, table.episode)
            if name not in self._streams:
                raise PolicyMappingError(
                    f"policy_mapping_fn gave {name!r} for agent {agent!r}; the policies are {sorted(self._streams)}"
                )
        return name

    def _earn(self, table: _Table, agent: Any, reward: Any, actions: dict[Any, Any]) -> None:
        amount = float(reward)
        if not math.isfinite(amount):
            raise NotFiniteError(f"{table.where}the reward of agent {agent!r} is {reward!r}")
        name = self._name(table, agent)
        if agent in table.streams:
            table.streams[agent][1].reward(amount)
        if agent in actions:
            table.episode.did(actions[agent], amount, agent, name)
        else:
            table.episode.earned(amount, agent, name)

    def _leave(self, table: _Table, agent: Any, last: Any, *, truncated: bool) -> None:
        name, stream = table.streams.pop(agent)
        form, _ = self._forms[name]
        # Without a last observation nothing can be expected of what comes: the end is taken for real.
        if last is None:
            stream.end(form.blank(), truncated=False)
        else:
            stream.end(form.row(last), truncated=truncated)
        self._streams[name].give_back(stream)

    def _end(self, table: _Table) -> None:
        episode = table.episode
        episode.is_done = True
        if self._is_watched:
            self._telling.tell("on_episode_end", episode, table.env)
        self.records.append(episode.record())
        self._begin(table)


class ExternalSampler:
    """A simulator that drives itself. It is answered while somebody samples, and waits in between."""

    def __init__(self, env: ExternalEnv, policy: Policy, forms: Forms, telling: Telling, *, patience_s: float) -> None:
        self._env = env
        self._policy = policy
        self._streams = Streams(policy)
        self._form, self._actions = forms
        self._telling = telling
        self._patience_s = patience_s
        self._held: Request | None = None
        self._is_begun = False
        self.records: list[EpisodeRecord] = []
        self.restarts = 0

    def reset(self) -> None:
        """Changes nothing: episodes are the simulator's."""

    def close(self) -> None:
        """Ends the simulator at its next question."""
        self._env.end()
        if self._held is not None:
            self._env._requests.put(self._held)
            self._env.end()

    def environments(self) -> list[Any]:
        """The simulator."""
        return [self._env]

    def sample(self, steps: int | None, episodes: int | None, *, explore: bool) -> Sample:
        """Answers the simulator until it has done enough."""
        if not self._is_begun:
            self._is_begun = True
            self._env.begin()
        done, before = 0, len(self.records)

        def is_enough() -> bool:
            if steps is not None:
                return done >= steps
            return len(self.records) - before >= (episodes or 0)

        while not is_enough():
            request, self._held = self._held or self._env.next_request(self._patience_s), None
            done += self._complete(request)
            # The step that ends a batch is whole once its successor is asked for, which then belongs to the next batch.
            if request.kind != "end" and is_enough():
                self._held = request
                break
            self._answer(request, explore=explore)
        return Sample({POLICY: self._streams.take()}, done, done)

    def _complete(self, request: Request) -> int:
        """Completes the step before. Returns how many were."""
        episode = request.episode
        stream: Stream | None = episode.held
        if not math.isfinite(episode.reward):
            raise NotFiniteError(
                f"episode {episode.episode_id}, step {episode.length}: the reward is {episode.reward!r}"
            )
        reward, episode.reward = episode.reward, 0.0
        if stream is None:
            return 0
        row = self._form.row(request.observation)
        stream.reward(reward)
        if request.kind == "end":
            stream.end(row, truncated=False)
            # Whole already, although the stream waits for what comes next to write it down.
            return 1
        return int(stream.close(row))

    def _answer(self, request: Request, *, explore: bool) -> None:
        episode = request.episode
        if request.kind == "end":
            self._end(request)
            return
        try:
            row = self._form.row(request.observation)
        except Exception as error:
            request.reply.put(error)
            raise
        episode.length += 1
        if not episode.is_training:
            self._answer_only(request, row, explore=explore)
            return
        if episode.held is None:
            episode.held = self._streams.get()
        if request.kind == "told":
            episode.held.told(row, self._actions.row(request.action))
            request.reply.put(None)
        else:
            request.reply.put(self._actions.actions(episode.held.act(row, explore=explore))[0])

    def _answer_only(self, request: Request, row: Any, *, explore: bool) -> None:
        if request.kind == "told":
            request.reply.put(None)
        else:
            actions, _ = self._policy.act(row, explore=explore)
            request.reply.put(self._actions.actions(actions)[0])

    def _end(self, request: Request) -> None:
        episode = request.episode
        if episode.held is not None:
            self._streams.give_back(episode.held)
            episode.held = None
        # An episode without a step says nothing.
        if episode.length == 0:
            return
        whole = Episode()
        whole.length = episode.length
        whole.earned(episode.total)
        for hook in ("on_episode_created", "on_episode_start", "on_episode_end"):
            if self._telling.hooks.wants(hook):
                self._telling.tell(hook, whole, self._env)
        self.records.append(whole.record())
