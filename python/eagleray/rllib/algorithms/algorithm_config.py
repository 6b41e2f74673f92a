"""What an algorithm is told: `PPOConfig().environment("CartPole-v1").training(lr=1e-3).build_algo()`.

Settings are plain attributes, made of the tables in `_settings.py` and of each algorithm's own. Names of all eras are taken, for
attributes, items and dictionaries alike; `_names.py` knows them.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray._common.near import hint
from eagleray.rllib.algorithms import _checks, _names, _settings
from eagleray.rllib.callbacks._hooks import checked
from eagleray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from eagleray.rllib.policy.policy import PolicySpec

if TYPE_CHECKING:
    from collections.abc import ItemsView, KeysView, ValuesView
    from typing import Self

    from eagleray.rllib._engine.protocol import Bounded
    from eagleray.rllib.algorithms.algorithm import Algorithm

#: Settings that are dictionaries, of which a program says only what it wants otherwise.
_MERGED = {"model", "env_config", "replay_buffer_config", "exploration_config", "optimizer"}
_PRIVATE = {"_algo_class", "_is_frozen"}


class AlgorithmConfig:
    """All settings of an algorithm; each method sets some of them and returns the object itself."""

    #: By method: the settings that an algorithm adds, or whose defaults it changes. Subclasses fill it.
    OWN: ClassVar[dict[str, dict[str, Any]]] = {}
    #: What the engine calls the algorithm.
    ENGINE: ClassVar[str] = ""
    #: Defaults of the time before there were `AlgorithmConfig`s. They hold where a plain dictionary configures an algorithm
    #: (`tune.run("DQN", config={...})`, `DQNTrainer(config={...})`) and does not say otherwise.
    OLD_DEFAULTS: ClassVar[dict[str, Any]] = {}

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        """Set every default."""
        object.__setattr__(self, "_is_frozen", False)
        object.__setattr__(self, "_algo_class", algo_class)
        for settings in self._tables().values():
            for name, default in settings.items():
                object.__setattr__(self, name, copy.deepcopy(default))

    @classmethod
    def default_algo_class(cls) -> type[Algorithm] | None:
        """The algorithm that this configures."""
        return None

    @property
    def algo_class(self) -> type[Algorithm] | None:
        """The algorithm that `build_algo` makes."""
        return self.__dict__["_algo_class"] or self.default_algo_class()

    @classmethod
    def _tables(cls) -> dict[str, dict[str, Any]]:
        tables = {group: dict(settings) for group, settings in _settings.COMMON.items()}
        for parent in reversed(cls.__mro__):
            own: dict[str, dict[str, Any]] = parent.__dict__.get("OWN", {})
            for group, settings in own.items():
                for name, default in settings.items():
                    if name == "model":
                        default = tables["training"]["model"] | default
                    home = next((key for key, known in tables.items() if name in known), group)
                    tables[home][name] = default
        return tables

    @classmethod
    def overrides(cls, **settings: Any) -> dict[str, Any]:
        """Settings to lay over others, checked for their names: for `evaluation_config` and for single modules."""
        known = cls()
        for name in settings:
            if _names.today(name) not in known:
                raise KeyError(f"{name!r} is not a setting of {cls.__name__}.{known._hint(name)}")
        return settings

    # The methods that set something. Older versions had `rollouts` and `exploration` beside them.

    def environment(self, env: Any = None, **settings: Any) -> Self:
        """Say which environment, and how it is made: `env`, `env_config`, spaces, clipping."""
        return self._set("environment", ({"env": env} if env is not None else {}) | settings)

    def env_runners(self, **settings: Any) -> Self:
        """Say who samples: how many runners with how many environments each, how much at a time, how it explores."""
        return self._set("env_runners", settings)

    def rollouts(self, **settings: Any) -> Self:
        """Do what `env_runners` does, under its older name."""
        return self._set("env_runners", settings)

    def exploration(self, **settings: Any) -> Self:
        """Set `explore` and `exploration_config`, as older programs do."""
        return self._set("env_runners", settings)

    def learners(self, **settings: Any) -> Self:
        """Say where it learns."""
        return self._set("learners", settings)

    def training(self, **settings: Any) -> Self:
        """Say how it learns: learning rate, discount, batches, and what the algorithm has of its own."""
        return self._set("training", settings)

    def rl_module(self, **settings: Any) -> Self:
        """Say what the network looks like, and what single modules have otherwise."""
        return self._set("rl_module", settings)

    def evaluation(self, **settings: Any) -> Self:
        """Say when and how long the policy is tried without learning."""
        return self._set("evaluation", settings)

    def offline_data(self, **settings: Any) -> Self:
        """Say where samples are read from and written to."""
        return self._set("offline_data", settings)

    def multi_agent(self, **settings: Any) -> Self:
        """Say which policies there are, and which agent acts by which."""
        return self._set("multi_agent", settings)

    def reporting(self, **settings: Any) -> Self:
        """Say how much is done between two results, and over how many episodes means are taken."""
        return self._set("reporting", settings)

    def checkpointing(self, **settings: Any) -> Self:
        """Say what a checkpoint holds."""
        return self._set("checkpointing", settings)

    def debugging(self, **settings: Any) -> Self:
        """Set the seed and how much is logged."""
        return self._set("debugging", settings)

    def fault_tolerance(self, **settings: Any) -> Self:
        """Say what happens when runners or environments fail."""
        return self._set("fault_tolerance", settings)

    def callbacks(self, callbacks_class: Any = None, **settings: Any) -> Self:
        """Set who is told of what happens: a class or several, or functions as `on_episode_end=...`, one or a list of them each."""
        if callbacks_class is not None:
            settings["callbacks_class"] = callbacks_class
        named = {}
        for name, value in settings.items():
            if name.startswith("on_") and value is not None:
                checked(name, value)
            named[f"callbacks_{name}" if name.startswith("on_") else name] = value
        return self._set("callbacks", named)

    def framework(self, framework: str | None = None, **settings: Any) -> Self:
        """Set `framework`: which of them is named makes no difference for the networks that are built in."""
        return self._set("framework", ({"framework_str": framework} if framework is not None else {}) | settings)

    def api_stack(self, **settings: Any) -> Self:
        """Take the switches between RLlib's stacks. There is one engine here, so that they change nothing."""
        return self._set("api_stack", settings)

    def resources(self, **settings: Any) -> Self:
        """Say what the main process needs."""
        return self._set("resources", settings)

    def experimental(self, **settings: Any) -> Self:
        """Set what is called experimental."""
        return self._set("experimental", settings)

    def python_environment(self, **_: Any) -> Self:
        """Take environment variables for Ray's sake; `runtime_env` of `init` sets them."""
        return self

    def _set(self, group: str, given: dict[str, Any]) -> Self:
        if self._is_frozen:
            self._refuse(next(iter(given), group))
        tables = self._tables()
        known = set(tables[group]) | _settings.MOVED.get(group, set())
        for name, value in given.items():
            for now in _names.modern({name: value}):
                # What a user's own subclass added to itself may be set by any method.
                is_users = now in vars(self) and not any(now in table for table in tables.values())
                if now in known or is_users:
                    continue
                home = next((key for key, table in tables.items() if now in table), None)
                where = f" It belongs to .{home}()." if home else hint(name, known | set(_names.RENAMED))
                raise TypeError(f"{group}() got an unexpected keyword argument {name!r}.{where}")
        self._apply(_names.modern(given))
        return self

    def _apply(self, settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            if name == "model_config" and isinstance(value, DefaultModelConfig):
                value = dataclasses.asdict(value)
            if name == "model" and isinstance(value, dict) and not _is_search(value):
                _checks.known_keys(value, _settings.MODEL_DEFAULTS, "model")
            if name == "exploration_config" and "epsilon" in vars(self) and "epsilon" not in settings:
                setattr(self, "epsilon", _names.epsilon_of(value) or vars(self)["epsilon"])  # noqa: B010 - only some have it
            if name in _MERGED and isinstance(value, dict) and not _is_search(value):
                value = {**(getattr(self, name, None) or {}), **value}
            setattr(self, name, value)

    # From and to dictionaries.

    def update_from_dict(self, config_dict: dict[str, Any]) -> Self:
        """Set what a dictionary of any era says. Refuses keys that nobody knows."""
        settings = _names.modern(dict(config_dict))
        for name in settings:
            if name not in self and not name.startswith("__"):
                raise ValueError(f"unknown setting {name!r} of {self._title()}.{self._hint(name)}")
        self._apply({name: value for name, value in settings.items() if not name.startswith("__")})
        return self

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any]) -> Self:
        """Make a configuration of a dictionary, with this class's defaults."""
        return cls().update_from_dict(config_dict)

    @classmethod
    def from_old_dict(cls, config_dict: dict[str, Any]) -> Self:
        """Make a configuration of what `tune.run` and trainers are given, with the defaults of that time."""
        return cls().update_from_dict(cls.OLD_DEFAULTS | _names.modern(config_dict))

    def to_dict(self) -> dict[str, Any]:
        """All settings, with today's names and a few of the old ones that programs read."""
        settings = {
            # Every result holds them all: only what can change is copied.
            name: copy.copy(value) if isinstance(value, dict | list | set) else value
            for name, value in vars(self).items()
            if name not in _PRIVATE
        }
        settings["framework"] = settings.pop("framework_str")
        settings["callbacks"] = settings.pop("callbacks_class")
        settings["input"] = settings.pop("input_")
        if "lambda_" in settings:
            settings["lambda"] = settings.pop("lambda_")
        return settings

    def copy(self, copy_frozen: bool | None = None) -> Self:  # noqa: FBT001 - RLlib's signature
        """A deep copy: frozen, open, or by default as this one is."""
        made = copy.deepcopy(self)
        object.__setattr__(made, "_is_frozen", self._is_frozen if copy_frozen is None else bool(copy_frozen))
        return made

    def freeze(self) -> None:
        """Allow no changes from now on."""
        object.__setattr__(self, "_is_frozen", True)

    @property
    def is_frozen(self) -> bool:
        """Whether it can be changed no more."""
        return self._is_frozen

    _is_frozen: bool

    # Attributes and items, by any name.

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            now = _names.today(name)
            if now != name and now in self.__dict__:
                return self.__dict__[now]
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_frozen:
            self._refuse(name)
        now = _names.today(name)
        object.__setattr__(self, now if now in self.__dict__ else name, value)

    def _refuse(self, name: str) -> None:
        raise AttributeError(f"Cannot set attribute ({name}) of an already frozen AlgorithmConfig!")

    def __getitem__(self, name: str) -> Any:
        if name == "multiagent":
            return {key: getattr(self, key) for key in _settings.COMMON["multi_agent"]}
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if self._is_frozen:
            self._refuse(name)
        self.update_from_dict({name: value})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name not in _PRIVATE and _names.today(name) in self.__dict__

    def get(self, name: str, default: Any = None) -> Any:
        """The setting of this name, or the default where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def keys(self) -> KeysView[str]:
        """The names of all settings."""
        return self.to_dict().keys()

    def values(self) -> ValuesView[Any]:
        """The values of all settings."""
        return self.to_dict().values()

    def items(self) -> ItemsView[str, Any]:
        """All settings."""
        return self.to_dict().items()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(made, name, _deep(value, memo))
        return made

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _title(self) -> str:
        return type(self).__name__

    def _hint(self, name: str) -> str:
        return hint(name, set(vars(self)) - _PRIVATE | set(_names.RENAMED))

    # What is worked out of several settings.

    @property
    def total_train_batch_size(self) -> int:
        """Steps of one training batch, over all learners."""
        return int(self.batch_size_per_learner * (self.num_learners or 1))

    @property
    def batch_size_per_learner(self) -> int:
        """Steps that one learner trains on at a time: of the two names the newer counts, where it is set."""
        return int(self.train_batch_size_per_learner or self.train_batch_size)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Steps that each environment of this runner makes for one batch.

        With "auto" the batch is shared out over all environments; where that leaves a rest, the first runners make one step more.
        """
        length: int | str = self.rollout_fragment_length
        if length != "auto":
            return int(length)
        environments = self.num_envs_per_env_runner * (self.num_env_runners or 1)
        whole = self.total_train_batch_size // environments
        rest = self.total_train_batch_size - whole * environments
        has_more = rest > 0 and (worker_index - 1) * self.num_envs_per_env_runner < rest
        return int(whole + has_more)

    @property
    def is_multi_agent(self) -> bool:
        """Whether there are other policies than the default one."""
        return set(self.policies) != {_settings.DEFAULT_POLICY_ID}

    @property
    def network(self) -> dict[str, Any]:
        """What the network looks like: `model`, and over it what `rl_module(model_config=...)` says."""
        return {**self.model, **(self.model_config or {})}

    @property
    def bounded(self) -> Bounded:
        """How numbers become actions of built-in environments."""
        if self.normalize_actions:
            return "spread"
        return "clipped" if self.clip_actions else "free"

    def policy_specs(self) -> dict[str, PolicySpec]:
        """All policies by name. Programs say them as a set, a list or a dictionary of specs, tuples or None."""
        given = self.policies
        if not isinstance(given, dict):
            return {str(name): PolicySpec() for name in sorted(given)}
        return {str(name): PolicySpec.of(spec) for name, spec in given.items()}

    def policy_of(self, agent_id: Any, episode: Any) -> str:
        """Which policy an agent acts by. Mapping functions of all versions are called with what they take."""
        return str(_checks.call_mapping(self.policy_mapping_fn, agent_id, episode))

    def is_trained(self, policy_id: str) -> bool:
        """Whether this policy learns."""
        chosen: Any = self.policies_to_train
        if chosen is None:
            return True
        return bool(chosen(policy_id)) if callable(chosen) else policy_id in chosen

    def get_config_for_module(self, module_id: str) -> AlgorithmConfig:
        """The configuration of one module: this one, with what is said for that module over it."""
        spec = self.policy_specs().get(module_id)
        over = dict(spec.config or {}) if spec is not None else {}
        over |= dict(self.algorithm_config_overrides_per_module.get(module_id, {}))
        if not over:
            return self
        return self.copy(copy_frozen=False).update_from_dict(over)

    def get_evaluation_config_object(self) -> AlgorithmConfig:
        """The configuration of the runners that evaluate."""
        made = self.copy(copy_frozen=False)
        over = self.evaluation_config
        if isinstance(over, AlgorithmConfig):
            over = over.to_dict()
        made.update_from_dict(dict(over or {}))
        made.in_evaluation = True
        # A policy is tried in an environment, and what it does there is not what is to be kept.
        made.input_, made.output = "sampler", None
        made.num_env_runners = self.evaluation_num_env_runners
        return made

    def validate(self) -> None:
        """Refuse settings that contradict each other. Building does this first."""
        if self._validate_config:
            _checks.check(self)

    def build_algo(self, env: Any = None, logger_creator: Any = None, use_copy: bool = True) -> Algorithm:  # noqa: FBT001, FBT002
        """Make the algorithm."""
        if self.algo_class is None:
            raise ValueError(f"{type(self).__name__} is of no algorithm; take PPOConfig, DQNConfig or another one")
        config = self.copy(copy_frozen=False) if use_copy else self
        if env is not None:
            config.env = env
        return self.algo_class(config=config, logger_creator=logger_creator)

    build = build_algo


def _is_search(value: dict[str, Any]) -> bool:
    """Whether a dictionary is Tune's way to say "one of these"."""
    return value.keys() == {"grid_search"}


def _deep(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a lock, a handle, an environment: shared by all copies
        return value


__all__ = ["AlgorithmConfig"]
