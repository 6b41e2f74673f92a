"""Lets a program that says `import ray` run on eagleray.

After `install_as_ray()`, `ray` and `ray.x.y` are second names of `eagleray` and `eagleray.x.y`: the very same module
objects, so that there is one `RayTaskError` and not two, whichever name a module, a pickle or a test uses.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

from eagleray._common.version import RAY_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_ALIAS = "ray"
_REAL = "eagleray"

#: What shells and compilers answer to a file that is not there.
_EXIT_NO_FILE = 2

_earlier_mains: list[ModuleType] = []


#: What a Python process finds `ray` in by itself: a package, the facts of a distribution, and `bin/ray`.
STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")


def install_as_ray() -> None:
    """Makes `ray` another name of this package, from now on: here, in workers, and in Python processes that this one starts.

    `ray.__version__` is then the version of Ray whose API this is, since libraries compare it; so is what `importlib.metadata` says of `ray`.
    Repeating it changes nothing.
    """
    loaded = sys.modules.get(_ALIAS)
    real = importlib.import_module(_REAL)
    if loaded is not None and loaded is not real:
        where = getattr(loaded, "__file__", None)
        text = (
            f"eagleray cannot take the name 'ray': another package of that name is already imported from {where}. "
            "Call eagleray.install_as_ray() before the first `import ray`."
        )
        raise RuntimeError(text)
    if not is_installed():
        # First in line, before what would find a Ray that is installed too.
        sys.meta_path.insert(0, _Finder())
        _tell_libraries()
        _tell_children()
    sys.modules[_ALIAS] = real
    real.__version__ = RAY_VERSION  # type: ignore[attr-defined]


def _tell_libraries() -> None:
    """Lets `importlib.metadata` find a distribution `ray`, before one that is installed too; behind the folder of the script."""
    if STAND_IN not in sys.path:
        sys.path.insert(min(1, len(sys.path)), STAND_IN)


def _tell_children() -> None:
    """Lets processes find `ray` that this one starts: as a module if they are of the same environment, and as a command."""
    environ = os.environ
    environ["EAGLERAY_RAY_PREFIX"] = sys.prefix
    environ["EAGLERAY_RAY_PYTHON"] = sys.executable
    for name, folder in (("PYTHONPATH", STAND_IN), ("PATH", os.path.join(STAND_IN, "bin"))):
        before = environ.get(name) or (os.defpath if name == "PATH" else "")
        if folder not in before.split(os.pathsep):
            environ[name] = f"{folder}{os.pathsep}{before}" if before else folder


def is_installed() -> bool:
    """Whether `ray` is another name of eagleray in this process. Workers need it exactly if their driver has it."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def run_script(path: str, argv: Sequence[str] = ()) -> None:
    """Runs a file as `python path *argv` would, with `import ray` meaning eagleray.

    Returns when the script has ended. Raises SystemExit with the script's exit code, 1 after an exception, which is
    printed as Python prints it, and 2 if there is no such file.
    """
    from pathlib import Path
    from types import ModuleType

    try:
        source = Path(path).read_bytes()
    except OSError as error:
        sys.stderr.write(f"eagleray run: can't open file '{path}': {error.strerror}\n")
        raise SystemExit(_EXIT_NO_FILE) from None

    install_as_ray()
    sys.argv = [path, *argv]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(path).resolve().parent)
    # A module of its own under the name `__main__`: what the script defines is pickled by value, as in any script. It
    # stays there, because exit handlers and threads may need it after the last line; so does the one before it.
    _earlier_mains.append(sys.modules["__main__"])
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    _execute(source, path, main)


def _execute(source: bytes, path: str, main: ModuleType) -> None:
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    except Exception as error:
        # The first entry is this very function, which the user did not write.
        trace = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


class _Finder:
    """Finds `ray.x.y` where `eagleray.x.y` is."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        real = _REAL + fullname.removeprefix(_ALIAS)
        found = importlib.util.find_spec(real)
        if found is None:
            from eagleray._alias.elsewhere import advice

            said = advice(real)
            because = f"; {said}" if said else ""
            text = (
                f"No module named {fullname!r}: eagleray stands in for ray here, and does not provide {real!r}{because}"
            )
            raise ModuleNotFoundError(text, name=fullname)
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, Loader(real), origin=found.origin, is_package=is_package)  # type: ignore[arg-type]


class Loader:
    """Hands out the module that exists under its real name, loading it first if nobody has."""

    def __init__(self, real: str) -> None:
        self._real = real
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It has run already. The import system has just labelled it with its second name: back to the first.
        module.__spec__ = self._spec
