"""Resources that change while a node runs, which Ray gave up too."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["set_resource"]


def set_resource(resource_name: str, capacity: float, node_id: Any = None) -> NoReturn:
    """Refuse: a node's resources are those that it was started with."""
    del capacity, node_id
    raise NotImplementedError(
        f"a node's resources do not change while it runs; give init(resources={{{resource_name!r}: ...}}), or set some "
        "aside with ray.util.placement_group"
    )
