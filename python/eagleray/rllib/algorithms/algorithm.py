"""What all algorithms share: set up, sample, learn, report, evaluate, save.

An algorithm says in `training_step` what one round of it is. Everything else is here: it is a trainable of Tune, and what computes is the
engine's.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib._engine import custom, engine
from eagleray.rllib.algorithms import _checkpoints, _memory, _views
from eagleray.rllib.algorithms._evaluation import Evaluation
from eagleray.rllib.algorithms._interruptible import Interruptible
from eagleray.rllib.algorithms._policies import ChangingPolicies
from eagleray.rllib.algorithms._settings import DEFAULT_POLICY_ID
from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
from eagleray.rllib.callbacks._given import Batch
from eagleray.rllib.callbacks._hooks import Hooks
from eagleray.rllib.env.env_runner import Weights, make_plan
from eagleray.rllib.env.env_runner_group import EnvRunnerGroup
from eagleray.rllib.models.catalog import ModelCatalog, known_models
from eagleray.rllib.utils.error import NotFiniteError
from eagleray.rllib.utils.metrics import MetricsLogger
from eagleray.rllib.utils.metrics._episodes import EpisodeStatistics
from eagleray.rllib.utils.metrics._load import Load
from eagleray.rllib.utils.metrics._results import Counters, Faults, Parts, Timers, evaluation_in_result, result_of
from eagleray.rllib.utils.schedules import Schedule
from eagleray.tune import registry
from eagleray.tune.trainable.trainable import Trainable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eagleray.rllib._engine.protocol import Policy, Rollout
    from eagleray.rllib.env._samplers import Sample
    from eagleray.rllib.env.env_runner import RunnerMetrics

_logger = logging.getLogger("eagleray.rllib")


class Algorithm(ChangingPolicies, Trainable):
    """One run of an algorithm: `train()` does an iteration of it.

    Args:
        config: an `AlgorithmConfig`, or a dictionary with names of any era.
        env: the environment, where the configuration does not say it.
        logger_creator: taken for Ray's sake; Tune writes the results.
    """

    #: Its configuration.
    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    #: Environments that were registered where an experiment was started, to be known where its trials run.
    known_envs: ClassVar[dict[str, Callable[..., Any]]] = {}
    #: The same for models.
    known_models: ClassVar[dict[str, Any]] = {}

    config: Any

    def __init__(
        self,
        config: AlgorithmConfig | dict[str, Any] | None = None,
        env: Any = None,
        logger_creator: Any = None,
        **kwargs: Any,
    ) -> None:
        """Set the algorithm up."""
        for name, creator in self.known_envs.items():
            registry.register_env(name, creator)
        for name, model in self.known_models.items():
            ModelCatalog.register_custom_model(name, model)
        if isinstance(config, AlgorithmConfig):
            given, about = config.copy(copy_frozen=False), {}
        else:
            settings = dict(config or {})
            about = {name: settings.pop(name) for name in list(settings) if name.startswith("__")}
            given = self.config_class.from_old_dict(settings)
        if env is not None:
            given.env = env
        self._given = given
        try:
            super().__init__(about)
        except BaseException:
            self.cleanup()
            raise

    # The life of an algorithm.

    def setup(self, config: dict[str, Any]) -> None:
        """Make runners, learners and what measures them."""
        settings = self._given
        custom.resolve(settings)
        settings.validate()
        settings.freeze()
        self.config = settings
        self._said = settings.to_dict()
        self._engine = engine()
        self._hooks = Hooks(settings)
        self.metrics = MetricsLogger()
        self.counters = Counters()
        self.timers = Timers()
        self._load = Load()
        self._rounds = 0
        self._episodes = EpisodeStatistics(settings.metrics_num_episodes_for_smoothing)
        self._sub_restarts = 0
        #: The folder of the last checkpoint, and its iteration.
        self._saved: tuple[str, int] | None = None
        self._learner_results: dict[str, dict[str, float]] = {}
        self.env_runner_group = EnvRunnerGroup(settings, on_recreated=self._on_recreated)
        self._spaces = dict(self.env_runner_group.spaces())
        self._next_seed = settings.seed if settings.seed is not None else time.time_ns() % 2**31
        self._plans = {
            name: make_plan(settings, name, spaces, self.next_seed()) for name, spaces in self._spaces.items()
        }
        #: Whether some were added or removed since.
        self.have_policies_changed = False
        self.learners: dict[str, Interruptible] = {
            name: Interruptible(self._engine.learner(plan)) for name, plan in self._plans.items()
        }
        self._policies: dict[str, Policy] = {}
        self._views: dict[str, _views.PolicyView] = {}
        #: Goes up with every change of weights; which of them each policy in this process has.
        self._version = 0
        self._versions: dict[str, int] = {}
        self._schedules: dict[tuple[str, str], Schedule] = {}
        self._evaluation = Evaluation(self)
        self.env_runner_group.add_local_worker(self)
        self.tell_of_policies(self.learners)
        self.sync_weights()
        self._hooks.call("on_algorithm_init", algorithm=self, metrics_logger=self.metrics)

    def next_seed(self) -> int:
        """What the next learner draws by."""
        self._next_seed += 1
        return self._next_seed - 1

    def tell_of_policies(self, names: Iterable[str]) -> None:
        """Tells callbacks of new policies. A runner in this process has told of its own."""
        if self.env_runner_group.runner is None and self._hooks.wants("on_create_policy"):
            for name in names:
                self._hooks.call("on_create_policy", policy_id=name, policy=self.get_policy(name))

    def step(self) -> dict[str, Any]:
        """Train until there is enough for a result, and evaluate where it is due."""
        config = self.config
        self.counters.next_iteration()
        self._episodes.next_iteration()
        self._rounds = 0
        # A policy that learns nothing in this iteration has nothing to say in its result.
        self._learner_results = {}
        start = time.perf_counter()
        try:
            evaluation = self._one_iteration(start)
        except Exception as error:
            error.add_note(
                f"in iteration {self._iteration + 1}, after {self.timestep} steps. {self._last_checkpoint()}"
            )
            raise
        group = self.env_runner_group
        healthy = group.num_healthy_remote_workers()
        faults = Faults(healthy, group.num_restarts, group.num_in_flight_async_reqs(), self._sub_restarts)
        result = result_of(
            Parts(
                self._episodes,
                self.counters,
                self.timers,
                faults,
                # It is frozen: what results say of it is made once.
                dict(self._said),
                self._learner_results,
                evaluation,
                self.metrics.reduce(),
                keep_custom=config.keep_per_episode_custom_metrics,
                load=self._load.percents(),
                rounds=self._rounds,
            )
        )
        self.metrics.reported = result
        self._hooks.call("on_train_result", algorithm=self, trainer=self, result=result, metrics_logger=self.metrics)
        return result

    def _one_iteration(self, start: float) -> dict[str, Any] | None:
        """Trains, and gives what an evaluation found where one is due."""
        config = self.config
        with self.timers.measure("training_iteration"):
            is_due = bool(config.evaluation_interval) and (self._iteration + 1) % config.evaluation_interval == 0
            if is_due and config.evaluation_parallel_to_training:
                return evaluation_in_result(self._evaluation.beside(lambda: self._train_enough(start)))
            self._train_enough(start)
            return evaluation_in_result(self.evaluate()) if is_due else None

    def _last_checkpoint(self) -> str:
        if self._saved is None or not os.path.isdir(self._saved[0]):
            return "Checkpoints from before are good."
        return f"The last checkpoint, {self._saved[0]} of iteration {self._saved[1]}, is good."

    def log_result(self, result: dict[str, Any]) -> None:
        """Add where and when, for programs that read it without Tune."""
        result.setdefault("date", time.strftime("%Y-%m-%d_%H-%M-%S"))
        result.setdefault("hostname", socket.gethostname())
        result.setdefault("node_ip", "127.0.0.1")
        result.setdefault("pid", os.getpid())
        result.setdefault("trial_id", self.trial_id)

    def _train_enough(self, start: float) -> None:
        config = self.config
        while True:
            with self.timers.measure("training_step"):
                self.training_step()
            self._rounds += 1
            done = self.counters.iteration
            if (
                time.perf_counter() - start >= (config.min_time_s_per_iteration or 0)
                and done["env_steps_sampled"] >= config.min_sample_timesteps_per_iteration
                and done["env_steps_trained"] >= config.min_train_timesteps_per_iteration
            ):
                return

    def training_step(self) -> None:
        """Do one round: sample, learn, hand out the weights. Algorithms write it."""
        raise NotImplementedError

    def cleanup(self) -> None:
        """End the runners."""
        for name in ("env_runner_group", "_evaluation"):
            # What failed while it was set up has not all of it.
            if (part := getattr(self, name, None)) is not None:
                part.stop()

    # What rounds are made of.

    @property
    def timestep(self) -> int:
        """Steps sampled since the beginning."""
        return self.counters.lifetime["env_steps_sampled"]

    def sample(self, steps: int) -> dict[str, list[Rollout]]:
        """Samples at least so many steps, of all runners at once. Gives rollouts by policy."""
        found: dict[str, list[Rollout]] = {name: [] for name in self.learners}
        counted = "agent_steps" if self.config.count_steps_by == "agent_steps" else "env_steps"
        done = 0
        with self.timers.measure("env_runner_sampling_timer"):
            while done < steps:
                for sample, measured in self.env_runner_group.sample():
                    done += getattr(sample, counted)
                    self.take_up(sample, measured)
                    self.sort(sample, found)
        return found

    def sort(self, sample: Sample, into: dict[str, list[Rollout]]) -> None:
        """Adds a sample's rollouts to those of each policy. What was sampled by one that was removed since is of no use."""
        for name, rollouts in sample.rollouts.items():
            if name in into:
                into[name] += rollouts

    def take_up(self, sample: Sample, measured: RunnerMetrics) -> None:
        """Counts what a runner did, and its episodes."""
        self.counters.add("env_steps_sampled", sample.env_steps)
        self.counters.add("agent_steps_sampled", sample.agent_steps)
        self.take_up_metrics(measured)

    def take_up_metrics(self, measured: RunnerMetrics) -> None:
        """Counts a runner's episodes."""
        self._episodes.add(measured.episodes)
        self.metrics.take(measured.logged)
        self._sub_restarts += measured.restarts

    def learn(self, rollouts: dict[str, list[Rollout]], **settings: Any) -> int:
        """Lets the policies that are trained learn from their rollouts. Returns how many steps of agents those had."""
        steps = 0
        with self.timers.measure("learner_update_timer"):
            for name, learner in self.learners.items():
                if not self.config.is_trained(name) or not (rollouts.get(name) or settings.get("updates")):
                    continue
                now = self.settings_now(name) | settings
                said = learner.update(rollouts.get(name, []), now)
                steps += sum(rollout.steps for rollout in rollouts.get(name, []))
                self.learned(name, said, now)
                if self._hooks.wants("on_learn_on_batch"):
                    self._tell_learned(name, rollouts.get(name, []), said)
        return steps

    def _tell_learned(self, policy_id: str, rollouts: list[Rollout], said: dict[str, Any]) -> None:
        """Tells callbacks of a batch. What they write into the result stands beside what the learner said."""
        spaces = self._spaces[policy_id]
        batch = Batch(rollouts, self._engine.columns, spaces.observed, spaces.acted)
        result = dict(said)
        self._hooks.call("on_learn_on_batch", policy=self.get_policy(policy_id), train_batch=batch, result=result)
        own = {name: value for name, value in result.items() if name not in said}
        self._learner_results[policy_id].update(own)

    def learned(self, policy_id: str, said: dict[str, float], now: dict[str, Any]) -> None:
        """Keeps what a learner said. Stops where it is not a number any more."""
        for name, value in said.items():
            if not math.isfinite(value) and not name.startswith("_"):
                raise NotFiniteError(
                    f"{name} of {policy_id} is {value} after {self.timestep} steps, in iteration {self._iteration + 1}: "
                    f"learning stops here. {self._last_checkpoint()} A smaller learning rate or `grad_clip` may help."
                )
        self._version += 1
        result = dict(said)
        if isinstance(now.get("lr"), float):
            result.setdefault("default_optimizer_learning_rate", now["lr"])
        if "entropy_coeff" in now:
            result.setdefault("curr_entropy_coeff", now["entropy_coeff"])
        self._learner_results[policy_id] = result

    def count_trained(self, steps: int, agent_steps: int | None = None) -> None:
        """Counts steps of environments that were learned from, and of agents where those are others."""
        of_agents = steps if agent_steps is None else agent_steps
        # What only some agents did is no more than that.
        self.counters.add("env_steps_trained", min(steps, of_agents))
        self.counters.add("agent_steps_trained", of_agents)

    def settings_now(self, policy_id: str) -> dict[str, Any]:
        """What changes with the timestep, as it is now."""
        config = self.config.get_config_for_module(policy_id)
        values: dict[str, Any] = {"timestep": self.timestep}
        for name in ("lr", "entropy_coeff", "epsilon"):
            given = getattr(config, name, None)
            if given is not None:
                values[name] = self._scheduled(policy_id, name, given)
        return values

    def _scheduled(self, policy_id: str, name: str, given: Any) -> float:
        key = (policy_id, name)
        if key not in self._schedules:
            self._schedules[key] = Schedule(given, name)
        return self._schedules[key].value(self.timestep)

    def weights_now(self) -> Weights:
        """What runners act by."""
        policies = {name: learner.travelling() for name, learner in self.learners.items()}
        return Weights(policies, {name: self.exploration_of(name) for name in self.learners}, self.timestep)

    def exploration_of(self, policy_id: str) -> dict[str, float]:
        """What exploring depends on now."""
        return {}

    def sync_weights(self) -> None:
        """Hands the weights to all runners."""
        self._version += 1
        with self.timers.measure("synch_weights"):
            self.env_runner_group.sync_weights(self.weights_now())

    def _on_recreated(self, group: EnvRunnerGroup, indices: list[int]) -> None:
        self._hooks.call(
            "on_env_runners_recreated",
            algorithm=self,
            env_runner_group=group,
            env_runner_indices=indices,
            worker_ids=indices,
            worker_set=group,
            is_evaluation=bool(group.config.in_evaluation),
        )

    # What users ask.

    @property
    def workers(self) -> EnvRunnerGroup:
        """The runners: the older name."""
        return self.env_runner_group

    @property
    def learner_group(self) -> _views.LearnerGroupView:
        """The learner of each policy, as newer programs ask for them."""
        return _views.LearnerGroupView(self)

    @property
    def env_runner(self) -> Any:
        """The runner in this process; where others sample, what this process has of one: policies, no environment."""
        return self.env_runner_group.local_env_runner

    @property
    def eval_env_runner_group(self) -> EnvRunnerGroup | None:
        """The runners that evaluate, once something was evaluated."""
        return self._evaluation.group

    evaluation_workers = eval_env_runner_group

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Try the policy without learning, as `evaluation_duration` and the other settings say.

        What it found stands at the top, by the keys of both eras (`env_runners`, `episode_reward_mean`), and once more below "evaluation".
        """
        return self._evaluation.run()

    def compute_single_action(
        self,
        observation: Any = None,
        state: Any = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **_: Any,
    ) -> Any:
        """What the policy does when it sees this. With a state, or `full_fetch`, also its next state and what it was made of.

        States are `[h, c]`, and `[]` in the beginning.
        """
        view = self.get_policy(policy_id)
        is_exploring = self.config.explore if explore is None else explore
        action, next_state, more = view.compute_single_action(observation, state, explore=is_exploring)
        # Loops that begin with [] unpack three where there is a memory; without one [] says nothing.
        if full_fetch or (state is not None and view.is_recurrent()) or not _memory.is_empty(state):
            return action, next_state, more
        return action

    compute_action = compute_single_action

    def compute_actions(
        self, observations: dict[Any, Any], *, policy_id: str = DEFAULT_POLICY_ID, explore: bool | None = None, **_: Any
    ) -> dict[Any, Any]:
        """What the policy does for each of several observations by name."""
        return {
            key: self.compute_single_action(seen, policy_id=policy_id, explore=explore)
            for key, seen in observations.items()
        }

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> _views.PolicyView:
        """One policy: its weights, and what it would do."""
        if policy_id not in self.learners:
            raise KeyError(f"there is no policy {policy_id!r}; there are {sorted(self.learners)}")
        if policy_id not in self._views:
            self._views[policy_id] = _views.PolicyView(self, policy_id, self._spaces[policy_id])
        return self._views[policy_id]

    def get_module(self, module_id: str = DEFAULT_POLICY_ID) -> Any:
        """One network, as newer programs use it: the program's own module, where it has one."""
        return _views.module_of(self.get_policy(module_id))

    def acting(self, policy_id: str) -> Policy:
        """The policy as it acts in this process, with the learner's weights."""
        if policy_id not in self._policies:
            self._policies[policy_id] = self._engine.policy(self._plans[policy_id])
        policy = self._policies[policy_id]
        if self._versions.get(policy_id) != self._version:
            policy.load(self.learners[policy_id].weights(), self.exploration_of(policy_id))
            self._versions[policy_id] = self._version
        return policy

    def get_weights(self, policies: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """Weights of policies, by the names of their tensors."""
        names = list(policies) if policies is not None else list(self.learners)
        return {name: self._engine.arrays(self.learners[name].weights()) for name in names}

    def set_weights(self, weights: dict[str, dict[str, Any]]) -> None:
        """Take weights, and hand them to all runners."""
        for name, arrays in weights.items():
            self.learners[name].set_weights(self._engine.packed(arrays))
        self.sync_weights()

    def export_policy_model(self, export_dir: str, policy_id: str = DEFAULT_POLICY_ID, **_: Any) -> str:
        """Write a policy's weights and what its network looks like. Returns the folder."""
        return _checkpoints.export(self, export_dir, policy_id)

    def export_policy_checkpoint(self, export_dir: str, policy_id: str = DEFAULT_POLICY_ID, **_: Any) -> str:
        """Do what `export_policy_model` does."""
        return _checkpoints.export(self, export_dir, policy_id)

    # Checkpoints.

    def own_state(self) -> dict[str, Any]:
        """What an algorithm counts of its own, as JSON has it."""
        return {}

    def restore_own(self, state: dict[str, Any]) -> None:
        """Go on from it."""

    def save(self, checkpoint_dir: str | None = None) -> _checkpoints.Saved:
        """Write a checkpoint. What is returned is its path, and what newer programs look for in it."""
        saved = _checkpoints.Saved(super().save(checkpoint_dir).path)
        self._saved = (saved.path, self._iteration)
        return saved

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write all that is needed to go on from here."""
        _checkpoints.write(self, checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a checkpoint's folder."""
        _checkpoints.read(self, str(checkpoint))
        self.sync_weights()
        self._hooks.call("on_checkpoint_loaded", algorithm=self, metrics_logger=self.metrics)

    def save_to_path(self, path: Any = None, **_: Any) -> str:
        """Write a checkpoint. Returns its folder."""
        return str(self.save(None if path is None else str(path)).path)

    def restore_from_path(self, path: Any, **_: Any) -> None:
        """Go on from a checkpoint's folder."""
        self.restore(str(path))

    @classmethod
    def from_checkpoint(cls, checkpoint: Any, **_: Any) -> Algorithm:
        """Make the algorithm that wrote a checkpoint, as it was then."""
        folder = str(getattr(checkpoint, "path", checkpoint))
        _checkpoints.verify(folder, cls)
        made = _checkpoints.rebuild(folder)
        made.restore(folder)
        return made

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """What a checkpoint holds, in memory."""
        return _checkpoints.state_of(self)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` gave, of this algorithm or another of its kind and shape."""
        _checkpoints.take_state(self, state)
        self.sync_weights()

    # As Tune sees it.

    @classmethod
    def default_resource_request(cls, config: Any) -> Any:
        """What a trial needs: the algorithm itself, and each runner."""
        from eagleray.rllib.utils.resources import trial_bundles

        settings = config if isinstance(config, AlgorithmConfig) else cls.config_class.from_old_dict(dict(config))
        return trial_bundles(settings)

    @classmethod
    def carrying(cls, known: dict[str, Any], models: dict[str, Any] | None = None) -> type[Algorithm]:
        """This class with the environments and models that are registered here, to be sent to processes where they are not."""
        models = known_models() if models is None else models
        if not (known or models):
            return cls
        own = {"known_envs": known, "known_models": models, "__module__": cls.__module__, "__doc__": cls.__doc__}
        return type(cls.__name__, (cls,), own)

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """Its configuration with all defaults."""
        return cls.config_class()
