"""Policies that come and go while an algorithm trains.

Which policies there are is part of the configuration, which is frozen. So a change makes another configuration, tries all that may fail with it, and
only then hands it to the runners: what is refused has changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from eagleray.rllib._engine import custom
from eagleray.rllib.algorithms import _checks
from eagleray.rllib.algorithms._interruptible import Interruptible
from eagleray.rllib.algorithms._settings import DEFAULT_POLICY_ID
from eagleray.rllib.env.env_runner import make_plan
from eagleray.rllib.policy.policy import PolicySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from eagleray.rllib.algorithms.algorithm import Algorithm
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from eagleray.rllib.core.rl_module.rl_module import RLModuleSpec


class ChangingPolicies:
    """What an algorithm has for it."""

    def add_policy(
        self,
        policy_id: str,
        policy_cls: Any = None,
        policy: Any = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        config: Any = None,
        policy_state: Mapping[str, Any] | None = None,
        policy_mapping_fn: Callable[..., str] | None = None,
        policies_to_train: Collection[str] | Callable[..., bool] | None = None,
        **_: Any,
    ) -> Any:
        """Add a policy, to the learners and to all runners. Returns it.

        Args:
            policy_id: its name.
            policy_cls: taken for RLlib's sake: all policies are of the algorithm's kind.
            policy: one whose network and weights it begins with, of `get_policy` or `Policy.from_checkpoint`.
            observation_space: what it sees, where that is not what the environment says of its agents.
            action_space: what it does, likewise.
            config: settings of its own.
            policy_state: what it begins with: what `get_state()` of a policy gave.
            policy_mapping_fn: which agent acts by which policy from the next episodes on.
            policies_to_train: which of them learn from now on.
        """
        algorithm = cast("Algorithm", self)
        if policy_id in algorithm.learners:
            raise ValueError(f"there is a policy {policy_id!r} already; there are {sorted(algorithm.learners)}")
        weights = None if policy_state is None else policy_state["weights"]
        if policy is not None:
            weights = policy.get_weights() if weights is None else weights
            config = config if config is not None else {"model_config": dict(policy.plan().model)}
        config = config.to_dict() if hasattr(config, "to_dict") else config
        spec = PolicySpec(None, observation_space, action_space, config)
        made = _with(algorithm.config, algorithm.config.policy_specs() | {policy_id: spec})
        change(algorithm, _over(made, policy_mapping_fn, policies_to_train), {policy_id: weights})
        return algorithm.get_policy(policy_id)

    def remove_policy(
        self,
        policy_id: str = DEFAULT_POLICY_ID,
        *,
        policy_mapping_fn: Callable[..., str] | None = None,
        policies_to_train: Collection[str] | Callable[..., bool] | None = None,
        **_: Any,
    ) -> None:
        """Remove a policy. Agents that act by it are asked for anew, so `policy_mapping_fn` must not name it any more."""
        algorithm = cast("Algorithm", self)
        left = algorithm.config.policy_specs()
        if left.pop(policy_id, None) is None:
            raise KeyError(f"there is no policy {policy_id!r}; there are {sorted(algorithm.learners)}")
        made = _with(algorithm.config, left)
        chosen = algorithm.config.policies_to_train
        if policies_to_train is None and chosen is not None and not callable(chosen):
            policies_to_train = [name for name in chosen if name != policy_id]
        made.algorithm_config_overrides_per_module.pop(policy_id, None)
        change(algorithm, _over(made, policy_mapping_fn, policies_to_train))

    def add_module(
        self,
        module_id: str,
        module_spec: RLModuleSpec | None = None,
        *,
        config_overrides: dict[str, Any] | None = None,
        new_agent_to_module_mapping_fn: Callable[..., str] | None = None,
        new_should_module_be_updated: Collection[str] | Callable[..., bool] | None = None,
        **_: Any,
    ) -> Any:
        """Add a policy, as newer programs say it. Returns its network."""
        algorithm = cast("Algorithm", self)
        spec = module_spec
        if spec is not None and spec.module_class is not None:
            raise ValueError("add_module takes built-in networks: name a model of your own in `policies` beforehand")
        config = dict(config_overrides or {})
        if spec is not None and spec.model_config is not None:
            config["model_config"] = spec.model_config
        self.add_policy(
            module_id,
            observation_space=None if spec is None else spec.observation_space,
            action_space=None if spec is None else spec.action_space,
            config=config,
            policy_mapping_fn=new_agent_to_module_mapping_fn,
            policies_to_train=new_should_module_be_updated,
        )
        return algorithm.get_module(module_id)

    def remove_module(
        self,
        module_id: str,
        *,
        new_agent_to_module_mapping_fn: Callable[..., str] | None = None,
        new_should_module_be_updated: Collection[str] | Callable[..., bool] | None = None,
        **_: Any,
    ) -> None:
        """Remove a policy, as newer programs say it."""
        self.remove_policy(
            module_id,
            policy_mapping_fn=new_agent_to_module_mapping_fn,
            policies_to_train=new_should_module_be_updated,
        )


def change(algorithm: Algorithm, config: AlgorithmConfig, weights: Mapping[str, Any] | None = None) -> None:
    """Lets an algorithm go on with the policies of this configuration; new ones begin with these weights, or as they come."""
    if config.ENGINE == "ES":
        raise ValueError("ES has one policy: others cannot be added or removed")
    custom.resolve(config)
    _checks.check_policies(config)
    custom.check(config)
    config.freeze()
    names = config.policy_specs()
    spaces = algorithm.env_runner_group.spaces(config)
    plans, learners = {}, {}
    for name in names:
        if name in algorithm.learners:
            continue
        plans[name] = make_plan(config, name, spaces[name], algorithm.next_seed())
        learners[name] = Interruptible(algorithm._engine.learner(plans[name]))
        if weights is not None and weights.get(name) is not None:
            learners[name].set_weights(algorithm._engine.packed(weights[name]))
    # Nothing was changed so far.
    algorithm.config = config
    algorithm.have_policies_changed = True
    algorithm._said = config.to_dict()
    for name in [name for name in algorithm.learners if name not in names]:
        for of_policies in (algorithm.learners, algorithm._plans, algorithm._spaces):
            del of_policies[name]
        for made in (algorithm._policies, algorithm._views, algorithm._versions):
            made.pop(name, None)
    algorithm._schedules.clear()
    algorithm.learners |= learners
    algorithm._plans |= plans
    algorithm._spaces |= {name: spaces[name] for name in learners}
    algorithm.env_runner_group.change_policies(config)
    algorithm._evaluation.change_policies()
    algorithm.tell_of_policies(learners)
    algorithm.sync_weights()


def _with(config: AlgorithmConfig, policies: dict[str, PolicySpec]) -> AlgorithmConfig:
    made = config.copy(copy_frozen=False)
    made.policies = policies
    return made


def _over(config: AlgorithmConfig, mapping: Any, to_train: Any) -> AlgorithmConfig:
    if mapping is not None:
        config.policy_mapping_fn = mapping
    if to_train is not None:
        config.policies_to_train = to_train
    return config


__all__ = ["ChangingPolicies", "change"]
