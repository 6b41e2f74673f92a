"""What a policy is made of, where there are several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Policy:
    """A name that programs write in their signatures; what they get is what `Algorithm.get_policy` gives."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Any, policy_ids: Any = None) -> Any:
        """A policy to act with, without its algorithm: of a policy's folder itself, of a checkpoint a dictionary by name."""
        from eagleray.rllib.algorithms import _deployed

        found = _deployed.policies(checkpoint)
        if policy_ids is None or not isinstance(found, dict):
            return found
        for name in policy_ids:
            if name not in found:
                raise KeyError(f"there is no policy {name!r} in {checkpoint}; there are {sorted(found)}")
        return {name: found[name] for name in policy_ids}


@dataclass
class PolicySpec:
    """One policy: its spaces where they differ from the environment's, and settings of its own."""

    policy_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    config: Any = None

    @classmethod
    def of(cls, given: Any) -> PolicySpec:
        """Reads the forms that programs use: a spec, a tuple of its four parts, or nothing."""
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        if isinstance(given, tuple | list) and len(given) == 4:
            spec = cls(*given)
            if hasattr(spec.config, "to_dict"):
                spec.config = spec.config.to_dict()
            return spec
        raise ValueError(f"a policy is given as PolicySpec(...), a tuple of four, or None; not as {given!r}")
