"""Modules that pickles of earlier versions name: experiments, checkpoints and what programs keep on disk still load.

Whoever moves a module whose classes or functions users can pickle adds its old name here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

#: From what a module was called to what it is called, both below `eagleray.`.
MOVED = {
    "_actor_meta": "_calls.actor_meta",
    "_causes": "_errors.causes",
    "_cluster": "_driver.cluster",
    "_elsewhere": "_alias.elsewhere",
    "_generators": "_values.generators",
    "_ids": "_values.ids",
    "_install": "_alias.install",
    "_names": "_calls.actor_names",
    "_pickle": "_values.pickling",
    "_placement_groups": "_calls.placement_groups",
    "_serialization_trace": "_errors.serialization_trace",
    "_session": "_driver.session",
    "_signature": "_calls.signature",
    "_tasks": "_calls.cancelling",
}


class OldNames:
    """Finds a module under an old name. It stands last in line, so that only what nobody else finds comes here."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Answer the import system."""
        package, _, name = fullname.partition(".")
        if package != "eagleray" or name not in MOVED:
            return None
        from importlib.machinery import ModuleSpec

        from eagleray._alias.install import Loader

        return ModuleSpec(fullname, Loader(f"eagleray.{MOVED[name]}"))  # type: ignore[arg-type]
