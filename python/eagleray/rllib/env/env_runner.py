"""Who samples: environments, the policies that act in them, and what is measured there. Local, or an actor."""

from __future__ import annotations

import functools
import json
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from eagleray.rllib._engine import custom, engine
from eagleray.rllib._engine.protocol import Acted, Observed, Plan
from eagleray.rllib.callbacks._given import AgentsBatch, Batch
from eagleray.rllib.callbacks._hooks import EPISODE_HOOKS, Hooks
from eagleray.rllib.env import _make
from eagleray.rllib.env._episode import POLICY, Episode
from eagleray.rllib.env._samplers import Sample, SimulatorSampler, Telling
from eagleray.rllib.env._worker import HasPolicies
from eagleray.rllib.env.env_context import EnvContext
from eagleray.rllib.env.external_env import ExternalEnv
from eagleray.rllib.env.multi_agent_env import MultiAgentEnv
from eagleray.rllib.env.vector_env import VectorEnv
from eagleray.rllib.utils.metrics import MetricsLogger
from eagleray.tune import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from eagleray.rllib._engine.protocol import Policy
    from eagleray.rllib.algorithms._views import PolicyView
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from eagleray.rllib.env._agents import AgentSampler
    from eagleray.rllib.env._bridge import Bridge
    from eagleray.rllib.env._samplers import Sampler
    from eagleray.rllib.offline import JsonWriter
    from eagleray.rllib.utils.metrics._episodes import EpisodeRecord

#: Seeds of two runners lie this far apart, so that their environments do not share one.
_SEED_STRIDE = 1000


@dataclass(frozen=True)
class PolicySpaces:
    """What one policy sees and does. Built-in environments have no spaces of gymnasium."""

    observed: Observed
    acted: Acted
    observation_space: Any = None
    action_space: Any = None

    def public(self) -> tuple[Any, Any]:
        """Spaces for programs to look at: of gymnasium if it is there, else with the same names in them."""
        from eagleray.rllib.env.spaces import acted_space, as_gymnasium, seen_space

        seen = self.observation_space if self.observation_space is not None else as_gymnasium(seen_space(self.observed))
        return seen, self.action_space if self.action_space is not None else as_gymnasium(acted_space(self.acted))


@dataclass(frozen=True)
class Weights:
    """What runners act by: weights and exploration of each policy, and how many steps were sampled in all."""

    policies: dict[str, bytes]
    exploration: dict[str, dict[str, float]] = field(default_factory=dict)
    timestep: int = 0


@dataclass
class RunnerMetrics:
    """What a runner measured since it was last asked."""

    episodes: list[EpisodeRecord]
    logged: list[Any]
    restarts: int = 0


def make_plan(config: AlgorithmConfig, policy_id: str, spaces: PolicySpaces, seed: int) -> Plan:
    """What the engine is told about one policy."""
    own = config.get_config_for_module(policy_id)
    settings = {name: value for name, value in own.to_dict().items() if _is_plain(value)}
    own_spaces = (spaces.observation_space, spaces.action_space)
    model = custom.of(own, policy_id, spaces.observed, spaces.acted, own_spaces)
    return Plan(config.ENGINE, spaces.observed, spaces.acted, own.network, settings, seed, model)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(one) for one in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    return value is None or isinstance(value, int | float | str | bool)


class EnvRunner(HasPolicies):
    """Samples from its environments. `worker_index` is 0 in the main process, and from 1 on in actors."""

    def __init__(
        self,
        config: AlgorithmConfig,
        worker_index: int = 0,
        known_envs: Mapping[str, Callable[..., Any]] | None = None,
        *,
        recreated: bool = False,
    ) -> None:
        for name, creator in (known_envs or {}).items():
            registry.register_env(name, creator)
        self.config = config
        self.worker_index = worker_index
        self.metrics = MetricsLogger()
        self.global_timestep = 0
        self._exploration: dict[str, dict[str, float]] = {}
        self._engine = engine()
        self._context = EnvContext(
            config.env_config, worker_index, num_workers=config.num_env_runners, recreated_worker=recreated
        )
        seed = config.seed
        #: What environments are reset by, if it was set; policies draw by it too, or by one of their own.
        self._seed: int | None = None if seed is None else seed + _SEED_STRIDE * worker_index
        self._chance = secrets.randbits(31) if self._seed is None else self._seed
        self._hooks = Hooks(config)
        self._telling = Telling(self._hooks, self)
        self.policies: dict[str, Policy] = {}
        #: Policies that were made; each draws by a seed of its own.
        self._made = 0
        self._plans: dict[str, Plan] = {}
        self._views: dict[str, PolicyView] = {}
        self.spaces: dict[str, PolicySpaces] = {}
        self.env: Any = None
        self._restarts_told = 0
        self._writer: JsonWriter | None = None
        self._sampler = self._make_sampler()

    # What the algorithm asks.

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        force_reset: bool = False,
    ) -> Sample:
        """Sample so many steps over all environments, or until so many episodes ended; by default one fragment in each.

        Episodes go on where the last sample left them, unless `force_reset` begins them anew.
        """
        if num_timesteps is not None and num_episodes is not None:
            raise ValueError("Provide either num_timesteps or num_episodes, not both")
        for name, value in (("num_timesteps", num_timesteps), ("num_episodes", num_episodes)):
            if value is not None and value < 0:
                raise ValueError(f"{name} must be >= 0, not {value}")
        if num_timesteps is None and num_episodes is None:
            fragment = self.config.get_rollout_fragment_length(worker_index=self.worker_index)
            num_timesteps = fragment * self.config.num_envs_per_env_runner
        if force_reset:
            self._sampler.reset()
        sample = self._sampler.sample(
            num_timesteps, num_episodes, explore=self.config.explore if explore is None else explore
        )
        if self._hooks.wants("on_sample_end"):
            samples = self._shown(sample)
            self._hooks.call(
                "on_sample_end", env_runner=self, worker=self, samples=samples, metrics_logger=self.metrics
            )
        return sample

    def _shown(self, sample: Sample) -> Batch | AgentsBatch:
        """A sample as callbacks look at it."""
        batches = {}
        for name, rollouts in sample.rollouts.items():
            spaces = self.spaces[name]
            batches[name] = Batch(rollouts, self._engine.columns, spaces.observed, spaces.acted)
        return AgentsBatch(batches, sample.env_steps) if self.config.is_multi_agent else batches[POLICY]

    def get_metrics(self) -> RunnerMetrics:
        """What was measured since the last time; it is not kept."""
        records, self._sampler.records = self._sampler.records, []
        restarts = self._sampler.restarts - self._restarts_told
        self._restarts_told = self._sampler.restarts
        return RunnerMetrics(records, self.metrics.logged(), restarts)

    def sample_and_metrics(self, **how: Any) -> tuple[Sample, RunnerMetrics]:
        """Both in one call."""
        return self.sample(**how), self.get_metrics()

    def set_weights(self, weights: Weights | Mapping[str, Mapping[str, Any]]) -> None:
        """Act by these from now on: as the algorithm sends them, or arrays by the names of policies and tensors."""
        if not isinstance(weights, Weights):
            weights = Weights(
                {name: self._engine.packed(arrays) for name, arrays in weights.items()},
                self._exploration,
                self.global_timestep,
            )
        self._exploration = weights.exploration
        self.global_timestep = weights.timestep
        for name, data in weights.policies.items():
            self.policies[name].load(data, weights.exploration.get(name, {}))

    def try_weights(
        self, weights: bytes, exploration: dict[str, float], episodes: int
    ) -> tuple[list[tuple[float, int]], int]:
        """Return and length of so many whole episodes with these weights, and the steps that took."""
        self.policies[POLICY].load(weights, exploration)
        self._sampler.reset()
        self._sampler.records = []
        sample = self._sampler.sample(None, episodes, explore=self.config.explore)
        records, self._sampler.records = self._sampler.records, []
        return [(record.total, record.length) for record in records[:episodes]], sample.env_steps

    def get_weights(self, policies: Iterable[str] | None = None, **_: Any) -> dict[str, dict[str, Any]]:
        """What it acts by, by the names of policies and tensors."""
        names = list(self.policies) if policies is None else policies
        return {name: self._engine.arrays(self.acting(name).written()) for name in names}

    def acting(self, policy_id: str) -> Policy:
        """The policy as it acts here."""
        if policy_id not in self.policies:
            raise KeyError(f"there is no policy {policy_id!r}; there are {sorted(self.policies)}")
        return self.policies[policy_id]

    def get_policy(self, policy_id: str = POLICY) -> Any:
        """One policy as it acts here. What learns is the algorithm's: weights set here hold until it sends new ones."""
        from eagleray.rllib.algorithms._views import PolicyView

        self.acting(policy_id)
        if policy_id not in self._views:
            self._views[policy_id] = PolicyView(self, policy_id, self.spaces[policy_id])
        return self._views[policy_id]

    def _policy_ids(self) -> list[str]:
        return list(self.policies)

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """Calls a function with each of its environments that is in Python."""
        return [func(env) for env in self.environments()]

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        """Calls a function with each of its environments that is in Python, and what it was made with."""
        contexts = [self._context.copy_with_overrides(vector_index=at) for at in range(len(self.environments()))]
        return [func(env, context) for env, context in zip(self.environments(), contexts, strict=True)]

    def environments(self) -> list[Any]:
        """Those that are in Python."""
        return self._sampler.environments()

    def get_spaces(self, config: AlgorithmConfig | None = None) -> dict[str, PolicySpaces]:
        """What each policy sees and does, or would with the policies of another configuration."""
        if config is None:
            return self.spaces
        return {name: _spaces_of(form) for name, form in self._forms_by_policy(config).items()}

    def change_policies(self, config: AlgorithmConfig) -> None:
        """Go on with the policies of this configuration; those that stay keep what they act by."""
        forms = self._forms_by_policy(config)
        self.config = config
        for name in [name for name in self.policies if name not in forms]:
            for of_policies in (self.policies, self.spaces, self._plans):
                del of_policies[name]
            self._views.pop(name, None)
        for name, form in forms.items():
            if name not in self.policies:
                self.spaces[name] = _spaces_of(form)
                self._make_policy(name)
        cast("AgentSampler", self._sampler).change_policies(self.policies, forms, config.policy_of)

    def _forms_by_policy(self, config: AlgorithmConfig) -> dict[str, Any]:
        if self.env is None or not _is_multi_agent(self.env):
            raise ValueError(
                "policies are added and removed where an environment has several agents: this is no MultiAgentEnv"
            )
        found = self._spaces_by_policy(self.env, config).items()
        return {name: self._forms(observation_space, action_space) for name, (observation_space, action_space) in found}

    def get_state(self) -> dict[str, bytes]:
        """What its next samples depend on beside the weights, where that can be written down: built-in environments."""
        if isinstance(self._sampler, SimulatorSampler):
            states = {"simulator": self._sampler.simulator.state(), "collector": self._sampler.collector.state()}
            return states | {"about": json.dumps({"seed": self._chance, "filters": self._filters()}).encode()}
        return {}

    def _filters(self) -> list[str]:
        return [str(name or "NoFilter") for name in (self.config.observation_filter, self.config.reward_filter)]

    def set_state(self, state: dict[str, bytes]) -> None:
        """Go on from such a state. One of other environments or filters, or of another number, raises ValueError and changes nothing."""
        if isinstance(self._sampler, SimulatorSampler) and state:
            simulator, about = self._sampler.simulator, json.loads(state["about"])
            # What it saw was brought to scale by those, or by none.
            if about["filters"] != self._filters():
                raise ValueError(f"the filters were {about['filters']}, and are {self._filters()} here")
            before = simulator.state()
            simulator.restore(state["simulator"])
            try:
                self._sampler.collector.restore(state["collector"])
            except ValueError:
                simulator.restore(before)
                raise
            # Environments that are begun anew begin as they did before.
            self._chance = about["seed"]

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with this runner."""
        return function(self, *args, **kwargs)

    def ping(self) -> str:
        """Answer."""
        return "pong"

    def stop(self) -> None:
        """Let go of the environments."""
        self._sampler.close()
        if self._writer is not None:
            self._writer.close()

    # How it is put together.

    def _make_sampler(self) -> Sampler:
        config = self.config
        count = config.num_envs_per_env_runner
        if config.input_ != "sampler":
            return self._from_input()
        if (sampler := self._built_in(count)) is not None:
            return sampler
        first = self._make_env(0)
        self.env = first
        if isinstance(first, ExternalEnv):
            return self._external(first)
        if _is_multi_agent(first):
            return self._several_agents(first, count)
        return self._one_agent(first, count)

    def _built_in(self, count: int) -> Sampler | None:
        config = self.config
        is_special = config.horizon is not None or config.clip_rewards or config.batch_mode != "truncate_episodes"
        if not isinstance(config.env, str) or registry.env_creator(config.env) or is_special:
            return None
        # Callbacks about episodes want to see each step; those need the environment in Python.
        if self._hooks.wants(*EPISODE_HOOKS) or config.is_multi_agent:
            return None

        def make() -> Any:
            return self._engine.simulator(config.env, config.env_config, count, self._chance, config.bounded)

        simulator = make()
        if simulator is None:
            return None
        self.spaces = {POLICY: PolicySpaces(simulator.observed, simulator.acted)}
        self._make_policies()
        return SimulatorSampler(make, self.policies[POLICY])

    def _one_agent(self, first: Any, count: int) -> Sampler:
        from eagleray.rllib.env._bridge import GymBridge, VectorEnvBridge
        from eagleray.rllib.env._samplers import BridgeSampler, WholeEpisodesSampler

        options = self._bridge_options()
        bridges: list[Bridge]
        if isinstance(first, VectorEnv):
            bridges = [VectorEnvBridge(first, options)]
        else:
            made = {0: first}  # one that failed is made anew, the first one too

            def make(index: int) -> Any:
                return made.pop(index, None) or self._make_env(index)

            if self.config.batch_mode == "complete_episodes":
                bridges = []
                for index in range(count):
                    own = replace(options, seed=None if options.seed is None else options.seed + index)
                    bridges.append(GymBridge(functools.partial(_ignoring, make, index), 1, own))
            else:
                bridges = [GymBridge(make, count, options)]
        bridge = bridges[0]
        self.spaces = {POLICY: PolicySpaces(bridge.observed, bridge.acted, bridge.form.space, bridge.actions.space)}
        self._make_policies()
        samplers = [BridgeSampler(bridge, self.policies[POLICY], self._telling) for bridge in bridges]
        return samplers[0] if self.config.batch_mode == "truncate_episodes" else WholeEpisodesSampler(samplers)

    def _from_input(self) -> Sampler:
        """What others sampled: from files, from a reader of the program's own, or from simulators that ask over the network."""
        from eagleray.rllib.env._offline import OfflineSampler
        from eagleray.rllib.offline import IOContext, JsonReader

        config = self.config
        if callable(config.input_):
            reader = config.input_(IOContext(config, self.worker_index, self))
            if isinstance(reader, ExternalEnv):
                self.env = reader
                return self._external(reader)
        else:
            reader = JsonReader(config.input_, seed=self._seed)
        if not callable(getattr(reader, "next", None)):
            raise TypeError(
                f"the function given as `input_` must make an InputReader or a PolicyServerInput, not {reader!r}"
            )
        forms = self._forms(*self._declared_spaces())
        self.spaces = {POLICY: _spaces_of(forms)}
        self._make_policies()
        is_normalized = config.actions_in_input_normalized
        return OfflineSampler(reader, self.policies[POLICY], forms, is_normalized=is_normalized)

    def _declared_spaces(self) -> tuple[Any, Any]:
        """The spaces of the configuration, or of the environment where it does not say them."""
        from eagleray.rllib.env.spaces import acted_space, seen_space

        config = self.config
        if config.observation_space is not None and config.action_space is not None:
            return config.observation_space, config.action_space
        if config.env is None:
            raise ValueError("say `environment(observation_space=..., action_space=...)`, or an `env` that has them")
        simulator = None
        if isinstance(config.env, str) and not registry.env_creator(config.env):
            simulator = self._engine.simulator(config.env, config.env_config, 1, 0)
        if simulator is not None:
            return seen_space(simulator.observed), acted_space(simulator.acted)
        env = self._make_env(0)
        spaces = (env.observation_space, env.action_space)
        if callable(end := getattr(env, "close", None)):
            end()
        return spaces

    def _external(self, env: ExternalEnv) -> Sampler:
        from eagleray.rllib.env._agents import ExternalSampler

        forms = self._forms(env.observation_space, env.action_space)
        self.spaces = {POLICY: _spaces_of(forms)}
        self._make_policies()
        patience_s = float(self.config.sample_timeout_s or 60.0)
        return ExternalSampler(env, self.policies[POLICY], forms, self._telling, patience_s=patience_s)

    def _several_agents(self, first: Any, count: int) -> Sampler:
        from eagleray.rllib.env._agents import AgentSampler

        envs = [first, *(self._make_env(index) for index in range(1, count))]
        forms = self._forms_by_policy(self.config)
        self.spaces = {name: _spaces_of(form) for name, form in forms.items()}
        self._make_policies()
        return AgentSampler(
            envs,
            self.policies,
            forms,
            self.config.policy_of,
            self._telling,
            seed=self._seed,
            horizon=self.config.horizon,
            whole=self.config.batch_mode == "complete_episodes",
        )

    def _spaces_by_policy(self, env: Any, config: AlgorithmConfig) -> dict[str, tuple[Any, Any]]:
        """From the specs where they say it, else from an agent that acts by the policy, else from any agent."""

        def of(agent: Any, kind: str) -> Any:
            getter = getattr(env, f"get_{kind}", None)
            return getter(agent) if callable(getter) else getattr(env, kind, None)

        agents = list(getattr(env, "possible_agents", None) or getattr(env, "agents", None) or ())
        by_policy: dict[str, Any] = {}
        for agent in agents:
            by_policy.setdefault(config.policy_of(agent, Episode()), agent)
        found = {}
        for name, spec in config.policy_specs().items():
            agent = by_policy.get(name, agents[0] if agents else None)
            seen = spec.observation_space or config.observation_space or of(agent, "observation_space")
            done = spec.action_space or config.action_space or of(agent, "action_space")
            if seen is None or done is None:
                raise ValueError(
                    f"the spaces of policy {name!r} are not known: say them in its PolicySpec, or in the environment"
                )
            found[name] = (seen, done)
        return found

    def _forms(self, observation_space: Any, action_space: Any) -> Any:
        from eagleray.rllib.env.spaces import ActionForm, ObservationForm

        config = self.config
        actions = ActionForm(
            config.action_space or action_space, normalize=config.normalize_actions, clip=config.clip_actions
        )
        return ObservationForm(config.observation_space or observation_space), actions

    def _bridge_options(self) -> Any:
        from eagleray.rllib.env._bridge import BridgeOptions

        config = self.config
        return BridgeOptions(
            normalize_actions=config.normalize_actions,
            clip_actions=config.clip_actions,
            clip_rewards=config.clip_rewards,
            horizon=config.horizon,
            seed=self._seed,
            is_checked=not config.disable_env_checking,
            restarts=config.restart_failed_sub_environments,
            label=f"runner {self.worker_index}, ",
            observation_space=config.observation_space,
            action_space=config.action_space,
        )

    def _make_env(self, index: int) -> Any:
        context = self._context.copy_with_overrides(vector_index=index)
        try:
            env = _make.make(self.config.env, context)
        except Exception as error:
            error.add_note(f"while runner {self.worker_index} made sub-environment {index} of {self.config.env!r}")
            raise
        said = {"env_runner": self, "worker": self, "env_context": context, "metrics_logger": self.metrics}
        self._hooks.call("on_sub_environment_created", sub_environment=env, env_index=index, **said)
        if index == 0:
            self._hooks.call("on_environment_created", env=env, **said)
        return env

    def _make_policies(self) -> None:
        for name in self.spaces:
            self._make_policy(name)

    def _make_policy(self, name: str) -> None:
        spaces = self.spaces[name]
        plan = self._plans[name] = make_plan(self.config, name, spaces, self._chance + self._made)
        self._made += 1
        self.policies[name] = self._recorded(name, spaces, self._engine.policy(plan))
        if self._hooks.wants("on_create_policy"):
            self._hooks.call("on_create_policy", policy_id=name, policy=self.get_policy(name))

    def _recorded(self, name: str, spaces: PolicySpaces, policy: Policy) -> Policy:
        """The policy, with what it does written to `output` if there is one."""
        config = self.config
        if config.output is None:
            return policy
        from eagleray.rllib.env.spaces import ActionForm, acted_space
        from eagleray.rllib.offline import JsonWriter
        from eagleray.rllib.offline._recorded import RecordedPolicy

        if self._writer is None:
            size = config.output_max_file_size
            self._writer = JsonWriter(config.output, max_file_size=size, worker_index=self.worker_index)
        space = spaces.action_space if spaces.action_space is not None else acted_space(spaces.acted)
        form = ActionForm(space, normalize=config.normalize_actions, clip=config.clip_actions)
        return RecordedPolicy(policy, name, self._writer, form.actions)


def _ignoring(make: Callable[[int], Any], index: int, _: int) -> Any:
    return make(index)


def _is_multi_agent(env: Any) -> bool:
    if isinstance(env, MultiAgentEnv):
        return True
    return isinstance(getattr(env, "unwrapped", None), MultiAgentEnv)


def _spaces_of(forms: Any) -> PolicySpaces:
    seen, done = forms
    return PolicySpaces(seen.observed, done.acted, seen.space, done.space)
