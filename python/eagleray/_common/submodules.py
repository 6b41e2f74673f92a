"""Packages whose modules are attributes without an import of their own: `ray.util.scheduling_strategies` after `import ray`."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def loader(package: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package: it imports the module of the name that was asked for."""

    def find(name: str) -> Any:
        full = f"{package}.{name}"
        # Python asks for many of these, and none is a module.
        if not (name.startswith("__") and name.endswith("__")):
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as error:
                if error.name != full:
                    raise
        from eagleray._alias.elsewhere import advice

        said = advice(full)
        because = f": {said}" if said else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{because}", name=name)

    return find
