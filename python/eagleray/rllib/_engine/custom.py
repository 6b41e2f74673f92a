"""Which model of a program's own a policy has, if any, and how it is called. Nothing here imports torch.

There are three ways to write one. "old": a `TorchModelV2`. "new": a `TorchRLModule`, named by an `RLModuleSpec`. "plain": any callable that is
given `(observation_space, action_space, num_outputs, **custom_model_config)` and returns an `nn.Module`, which gives for a batch of observations
what actions are chosen from, and with it what each observation is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from eagleray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from eagleray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from eagleray.rllib.models import catalog
from eagleray.rllib.models.modelv2 import ModelV2
from eagleray.rllib.utils.error import CustomModelError
from eagleray.rllib.utils.framework import torch_needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagleray.rllib._engine.protocol import Acted, Observed
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

#: Algorithms that learn with models of a program's own.
ALGORITHMS = ("PPO", "A2C", "IMPALA", "DQN")
_FRAMEWORKS = ("torch", None)


@dataclass(frozen=True)
class Custom:
    """A model of a program's own."""

    style: Literal["old", "new", "plain"]
    source: Any
    #: Old: all of `model={...}`. New: `model_config`. Plain: `custom_model_config`.
    config: Any
    #: What it is told it sees, and what rows of observations are made of.
    observation_space: Any = None
    original_space: Any = None
    action_space: Any = None
    more: dict[str, Any] = field(default_factory=dict)


def resolve(config: AlgorithmConfig) -> None:
    """Puts models in the place of names that were registered in this process: others, where runners are, do not know them."""
    for model in _models(config):
        name = model.get("custom_model")
        if isinstance(name, str):
            model["custom_model"] = catalog.model_of(name)


def _models(config: AlgorithmConfig) -> Iterator[dict[str, Any]]:
    yield config.model
    own = [spec.config for spec in config.policy_specs().values()]
    for settings in [*own, *config.algorithm_config_overrides_per_module.values()]:
        if isinstance(settings, dict) and isinstance(settings.get("model"), dict):
            yield settings["model"]


def policies_with_own(config: AlgorithmConfig) -> list[str]:
    """The policies that have a model of the program's own."""
    names = config.policy_specs()
    return [name for name in names if _given(config.get_config_for_module(name), name) is not None]


def check(config: AlgorithmConfig) -> bool:
    """Refuses a model that cannot be used. Says whether any policy has one of its own."""
    found = policies_with_own(config)
    for name in config.policy_specs():
        network = config.get_config_for_module(name).network
        for key in ("custom_action_dist", "custom_preprocessor"):
            if network.get(key):
                raise CustomModelError(f"`{key}` is not available: actions and observations are as their spaces say")
        if name in found and network.get("use_lstm"):
            raise CustomModelError(
                "`use_lstm` is for built-in networks: a model of your own cannot be wrapped in a memory"
            )
    if not found:
        return False
    if config.framework_str not in _FRAMEWORKS:
        raise CustomModelError(f"models of your own are torch's: framework={config.framework_str!r} does not run them")
    if config.ENGINE not in ALGORITHMS:
        raise CustomModelError(
            f"{config.ENGINE} learns with built-in networks only; those that take a model of your own are {', '.join(ALGORITHMS)}"
        )
    torch_needed("framework='torch' with a custom model")
    return True


def _given(config: AlgorithmConfig, policy_id: str) -> Any:
    """What a policy was given: a spec, a class, a function, a registered name, or None."""
    spec = config.rl_module_spec
    if isinstance(spec, MultiRLModuleSpec):
        spec = spec.rl_module_specs.get(policy_id)
    if isinstance(spec, type) or (spec is not None and not isinstance(spec, RLModuleSpec)):
        raise CustomModelError(f"`rl_module_spec` is RLModuleSpec(...) or MultiRLModuleSpec(...), not {spec!r}")
    if spec is not None and spec.module_class is not None:
        return spec
    return config.network.get("custom_model") or None


def of(
    config: AlgorithmConfig, policy_id: str, observed: Observed, acted: Acted, spaces: tuple[Any, Any]
) -> Custom | None:
    """The model of a policy. `spaces` are the environment's, which has none where it is built in."""
    given = _given(config, policy_id)
    if given is None:
        return None
    if acted.kind == "mixed":
        raise CustomModelError(
            "a model of your own chooses among choices or draws numbers: an action_space of both needs a built-in network"
        )
    if isinstance(given, str):
        given = catalog.model_of(given)
    torch_needed("framework='torch' with a custom model")
    seen, original = seen_space(observed, spaces[0])
    action_space = spaces[1] if spaces[1] is not None else acted_space(acted)
    if isinstance(given, RLModuleSpec):
        own = given.model_config if given.model_config is not None else dict(config.model_config or {})
        space, chosen = given.observation_space or seen, given.action_space or action_space
        return Custom("new", given.module_class, own, space, original, chosen)
    own = dict(config.network.get("custom_model_config") or {})
    if isinstance(given, type) and issubclass(given, RLModule):
        return Custom("new", given, own or dict(config.model_config or {}), seen, original, action_space)
    if isinstance(given, type) and issubclass(given, ModelV2):
        flat = seen if not _is_nested(original) else flat_space(observed, original)
        return Custom("old", given, dict(config.network), flat, original, action_space, own)
    return Custom("plain", given, own, seen, original, action_space)


def seen_space(observed: Observed, space: Any) -> tuple[Any, Any]:
    """What a model is told it sees, and the space that rows are cut up by: None where a row is all there is."""
    from eagleray.rllib.env.spaces import kind_of

    if space is None:
        return flat_space(observed, None), None
    if kind_of(space) == "Box":
        import numpy as np

        if np.dtype(space.dtype) == np.float32:
            return space, space
        shaped = _box(space.shape, *((0.0, 1.0) if _is_picture(space) else (space.low, space.high)))
        shaped.original_space = space
        return shaped, space
    return (space, space) if _is_nested(space) else (flat_space(observed, space), None)


def flat_space(observed: Observed, original: Any) -> Any:
    """Rows of numbers without bounds, or pictures."""
    made = _box(observed.shape, -float("inf"), float("inf"))
    made.original_space = made if original is None else original
    return made


def acted_space(acted: Acted) -> Any:
    """The space of a built-in environment's actions."""
    spaces = _gymnasium()
    if acted.kind == "box":
        import numpy as np

        return spaces.Box(np.asarray(acted.low, np.float32), np.asarray(acted.high, np.float32))
    return spaces.Discrete(acted.sizes[0]) if len(acted.sizes) == 1 else spaces.MultiDiscrete(list(acted.sizes))


def outputs_of(acted: Acted) -> int:
    """Numbers that actions are chosen from: a score for each choice, or a mean and a deviation's logarithm for each number."""
    return sum(acted.sizes) if acted.kind == "discrete" else 2 * acted.size


def _is_nested(space: Any) -> bool:
    from eagleray.rllib.env.spaces import kind_of

    return space is not None and kind_of(space) in ("Dict", "Tuple")


def _is_picture(space: Any) -> bool:
    import numpy as np

    return np.dtype(space.dtype) == np.uint8 and len(space.shape) == 3


def _box(shape: tuple[int, ...], low: Any, high: Any) -> Any:
    import numpy as np

    low, high = (np.broadcast_to(np.asarray(bound, np.float32), shape).copy() for bound in (low, high))
    return _gymnasium().Box(low, high, shape, np.float32)


def _gymnasium() -> Any:
    try:
        from gymnasium import spaces
    except ImportError as error:
        from eagleray.rllib.utils.error import MissingPackageError

        raise MissingPackageError(
            "models of your own are told spaces of gymnasium: pip install 'eagleray[torch]'"
        ) from error
    return spaces
