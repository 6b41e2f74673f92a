"""Ray's parallel iterators, which it deprecated and which are not here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["from_actors", "from_items", "from_iterators", "from_range"]

_INSTEAD = "parallel iterators are not available; use ray.util.map_unordered, ray.util.ActorPool or generators of tasks"


def from_items(*_args: Any, **_options: Any) -> NoReturn:
    """Refuse: say what to do instead."""
    raise NotImplementedError(_INSTEAD)


from_actors = from_iterators = from_range = from_items
