"""A policy that acts without the algorithm that trained it: no runners, no learner, no environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle
from eagleray.rllib._engine import _filters, engine
from eagleray.rllib.algorithms import _checkpoints, _views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagleray.rllib._engine.protocol import Plan, Policy
    from eagleray.rllib.env.env_runner import PolicySpaces


@dataclass(frozen=True)
class Deployable:
    """What is needed beside the weights. Checkpoints keep it beside them."""

    plan: Plan
    spaces: PolicySpaces
    normalize_actions: bool
    clip_actions: bool
    exploration: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Settings:
    """As much of a configuration as acting needs."""

    normalize_actions: bool
    clip_actions: bool
    settings: dict[str, Any]

    def get_config_for_module(self, _: str) -> _Settings:
        return self

    def to_dict(self) -> dict[str, Any]:
        return dict(self.settings)


class Deployed:
    """Stands where an algorithm would: it holds one policy, and its weights."""

    def __init__(self, policy_id: str, made: Deployable, weights: bytes) -> None:
        self._made, self._weights, self._engine = made, weights, engine()
        self._plans, self._spaces = {policy_id: made.plan}, {policy_id: made.spaces}
        self.config = _Settings(made.normalize_actions, made.clip_actions, dict(made.plan.settings))
        self.learners = {policy_id: self}
        self._policy = self._engine.policy(made.plan)
        self._policy.load(weights, made.exploration)

    def acting(self, _: str) -> Policy:
        """The policy."""
        return self._policy

    def weights(self) -> bytes:
        """Its weights, as they are written."""
        return self._weights

    def exploration_of(self, _: str) -> dict[str, float]:
        """What exploring depended on when it was written."""
        return self._made.exploration

    def get_weights(self, policies: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """Its weights by the names of their tensors."""
        return {name: self._engine.arrays(self._weights) for name in policies or self._plans}

    def set_weights(self, weights: dict[str, dict[str, Any]]) -> None:
        """Take weights."""
        for arrays in weights.values():
            # What observations are brought to scale by is no weight, and stays.
            moments, _ = _filters.parted(self._weights)
            self._weights = _filters.joined(moments, self._engine.packed(arrays))
            self._policy.load(self._weights, self._made.exploration)

    def export_policy_model(self, export_dir: str, policy_id: str) -> str:
        """Write it to another folder."""
        return _checkpoints.export(self, export_dir, policy_id)


def policies(checkpoint: Any) -> _views.PolicyView | dict[str, _views.PolicyView]:
    """The policy of a policy's folder, or those of a checkpoint or of its `rl_module` folder by their names."""
    root = Path(str(getattr(checkpoint, "path", checkpoint)))
    if (root / _checkpoints.MODULES).is_dir():
        _checkpoints.verify(str(root))
        root = root / _checkpoints.MODULES
    if (root / _checkpoints.WEIGHTS).is_file():
        return _read(root)
    found = {inner.name: _read(inner) for inner in sorted(root.glob("*")) if (inner / _checkpoints.WEIGHTS).is_file()}
    if not found:
        raise _checkpoints.CheckpointError(
            f"{root} holds no policy: give the folder of a checkpoint, {_checkpoints.MODULES}/POLICY in it, or what export_policy_model wrote"
        )
    return found


def _read(folder: Path) -> _views.PolicyView:
    try:
        made: Deployable = cloudpickle.loads((folder / _checkpoints.CONSTRUCTOR).read_bytes())
    except FileNotFoundError:
        raise _checkpoints.CheckpointError(
            f"{folder} has no {_checkpoints.CONSTRUCTOR}, as older versions wrote it: use Algorithm.from_checkpoint, or eagleray.rllib.export"
        ) from None
    except (ImportError, AttributeError) as error:
        raise _checkpoints.CheckpointError(f"{folder} needs what is not here: {error}; import or install it") from error
    deployed = Deployed(folder.name, made, (folder / _checkpoints.WEIGHTS).read_bytes())
    return _views.PolicyView(deployed, folder.name, made.spaces)
