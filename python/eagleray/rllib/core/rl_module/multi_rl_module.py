"""Which modules, where there are several policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray.rllib.core.rl_module.rl_module import RLModuleSpec


@dataclass
class MultiRLModuleSpec:
    """A spec for each policy by its name. Policies that are not named have built-in networks."""

    multi_rl_module_class: Any = None
    rl_module_specs: dict[str, RLModuleSpec] = field(default_factory=dict)


__all__ = ["MultiRLModuleSpec"]
