"""A runner as older programs ask for it: a worker with policies, whose environments may be elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.rllib.env._episode import POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eagleray.rllib.algorithms.algorithm import Algorithm
    from eagleray.rllib.env.env_runner import EnvRunner, Weights


class HasPolicies:
    """What older programs do with the policies of a worker."""

    config: Any
    worker_index: int = 0

    def get_policy(self, policy_id: str = POLICY) -> Any:
        """One policy: its weights, its spaces, and what it would do."""
        raise NotImplementedError

    def _policy_ids(self) -> list[str]:
        raise NotImplementedError

    @property
    def policy_map(self) -> dict[str, Any]:
        """All policies by their names."""
        return {name: self.get_policy(name) for name in self._policy_ids()}

    @property
    def policy_config(self) -> dict[str, Any]:
        """The settings: the older name."""
        said: dict[str, Any] = self.config.to_dict()
        return said

    def foreach_policy(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Calls a function with every policy and its name."""
        return [func(policy, name, **kwargs) for name, policy in self.policy_map.items()]

    def get_policies_to_train(self, batch: Any = None) -> set[str]:
        """The names of those that learn."""
        return {name for name in self._policy_ids() if self.config.is_trained(name)}

    def foreach_policy_to_train(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Calls a function with every policy that learns, and its name."""
        names = self.get_policies_to_train()
        return [func(self.get_policy(name), name, **kwargs) for name in self._policy_ids() if name in names]

    def get_weights(self, policies: Iterable[str] | None = None, **_: Any) -> dict[str, dict[str, Any]]:
        """Weights of policies, by the names of their tensors."""
        names = self._policy_ids() if policies is None else policies
        return {name: self.get_policy(name).get_weights() for name in names}


class LocalWorker(HasPolicies):
    """The algorithm's own process as a worker. Its policies are those that learn; it has environments only where it also samples."""

    #: None where other processes have the environments.
    env: Any = None

    def __init__(self, algorithm: Algorithm, runner: EnvRunner | None) -> None:
        self._algorithm, self._runner = algorithm, runner
        self.config = algorithm.config
        if runner is not None:
            self.env = runner.env

    def get_policy(self, policy_id: str = POLICY) -> Any:
        """One policy, as `Algorithm.get_policy` gives it."""
        return self._algorithm.get_policy(policy_id)

    def _policy_ids(self) -> list[str]:
        return list(self._algorithm.learners)

    @property
    def module(self) -> Any:
        """The network, as newer programs use it."""
        return self._algorithm.get_module()

    def set_weights(self, weights: dict[str, dict[str, Any]], *_: Any, **__: Any) -> None:
        """Take weights, and hand them to all runners."""
        self._algorithm.set_weights(weights)

    def weights_now(self) -> Weights:
        """What runners are to act by."""
        return self._algorithm.weights_now()

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with this worker."""
        return function(self, *args, **kwargs)

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """Calls a function with every environment of this process."""
        return [] if self._runner is None else self._runner.foreach_env(func)

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        """The same with what each was made with."""
        return [] if self._runner is None else self._runner.foreach_env_with_context(func)

    def __getattr__(self, name: str) -> Any:
        """What else a runner can do, where this process has one."""
        runner = self.__dict__.get("_runner")
        if runner is not None:
            return getattr(runner, name)
        raise AttributeError(
            f"the local worker has no {name!r}: environments and samples are in the runners; "
            "ask them with `workers.foreach_worker(..., local_worker=False)`"
        )
