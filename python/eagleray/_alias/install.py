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
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType

_ALIAS = "ray"
_REAL = "eagleray"

#: What shells and compilers answer to a file that is not there.
_EXIT_NO_FILE = 2
#: What shells say of a program that Ctrl-C ended.
_EXIT_INTERRUPTED = 130

_earlier_mains: list[ModuleType] = []


#: What a Python process finds `ray` in by itself: a package, the facts of a distribution, and `bin/ray`.
STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")


def install_as_ray() -> None:
    """Makes `ray` another name of this package, from now on: here, in workers, and in Python processes that this one starts.

    `ray.__version__` is then the version of Ray whose API this is, since libraries compare it; so is what `importlib.metadata` says of `ray`.
    Repeating it changes nothing. Called after `init()`, it reaches a worker when that imports `ray`.
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
        sys.meta_path.insert(0, Finder())
        _tell_libraries()
        _tell_children()
        from eagleray._alias import late

        late.tell_workers()
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
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def run_script(path: str, argv: Sequence[str] = ()) -> None:
    """Runs a file as `python path *argv` would, with `import ray` meaning eagleray. `-` is what stands at standard input.

    Returns when the script has ended. Raises SystemExit with the script's exit code, 1 after an exception, which is
    printed as Python prints it, 130 after Ctrl-C, and 2 if there is no such file.
    """
    from importlib.machinery import SourceFileLoader
    from pathlib import Path

    if path == "-":
        return _run(sys.stdin.buffer.read(), "<stdin>", ["-", *argv], "", {})
    is_folder = Path(path).is_dir()
    file = os.path.abspath(os.path.join(path, "__main__.py") if is_folder else path)
    try:
        source = Path(file).read_bytes()
    except OSError as error:
        sys.stderr.write(f"eagleray run: can't open file '{path if not is_folder else file}': {error.strerror}\n")
        raise SystemExit(_EXIT_NO_FILE) from None
    folder = str(Path(path).resolve() if is_folder else Path(path).resolve().parent)
    return _run(
        source, file, [path, *argv], folder, {"__file__": file, "__loader__": SourceFileLoader("__main__", file)}
    )


def run_module(name: str, argv: Sequence[str] = ()) -> None:
    """As `python -m name *argv`."""
    # Before the module is looked for: a package is imported for that, and may import ray.
    install_as_ray()
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    wanted = name
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            wanted = f"{name}.__main__"
            spec = importlib.util.find_spec(wanted)
        code: CodeType | None = None
        if spec is not None and spec.loader is not None:
            code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    except (ImportError, AttributeError) as error:
        sys.stderr.write(f"eagleray run: cannot run module {name!r}: {error}\n")
        raise SystemExit(1) from None
    if spec is None or code is None:
        why = "no module of that name" if wanted == name else f"a package cannot be run without {wanted}"
        sys.stderr.write(f"eagleray run: cannot run module {name!r}: {why}\n")
        raise SystemExit(1)
    facts = {"__file__": spec.origin, "__loader__": spec.loader, "__package__": spec.parent, "__spec__": spec}
    return _run(code, spec.origin or name, [spec.origin or name, *argv], sys.path[0], facts)


def run_command(source: str, argv: Sequence[str] = ()) -> None:
    """As `python -c source *argv`."""
    return _run(source, "<string>", ["-c", *argv], "", {})


def _run(source: str | bytes | CodeType, name: str, argv: list[str], folder: str, facts: Mapping[str, object]) -> None:
    import builtins
    from types import ModuleType

    install_as_ray()
    sys.argv = argv
    if not sys.flags.safe_path:
        sys.path[0] = folder
    # A module of its own under the name `__main__`: what the script defines is pickled by value, as in any script. It
    # stays there, because exit handlers and threads may need it after the last line; so does the one before it.
    _earlier_mains.append(sys.modules["__main__"])
    main = ModuleType("__main__")
    main.__dict__.update(__cached__=None, __builtins__=builtins, **facts)
    sys.modules["__main__"] = main
    _execute(source, name, main)


def _execute(source: str | bytes | CodeType, name: str, main: ModuleType) -> None:
    try:
        code = compile(source, name, "exec", dont_inherit=True) if isinstance(source, str | bytes) else source
        exec(code, main.__dict__)
    except (Exception, KeyboardInterrupt) as error:
        # The first entry is this very function, which the user did not write.
        trace = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(_EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1) from None


def _is_importing() -> bool:
    """Whether a finder was asked by an import. Python asks it in the same way for `find_spec`; who has asked is told by the stack alone."""
    asker = sys._getframe(2).f_back
    return asker is not None and asker.f_code.co_name == "_find_and_load_unlocked"


class Finder:
    """Finds `ray.x.y` where `eagleray.x.y` is."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        real = _REAL + fullname.removeprefix(_ALIAS)
        found = importlib.util.find_spec(real)
        # Who only asks whether there is such a module gets a plain no; who imports it, a word.
        if found is None and not _is_importing():
            return None
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

    def get_code(self, fullname: str) -> CodeType | None:
        """For `python -m ray.x`."""
        found = importlib.util.find_spec(self._real)
        return found.loader.get_code(self._real) if found and found.loader else None  # type: ignore[attr-defined]

    def exec_module(self, module: ModuleType) -> None:
        # It has run already. The import system has just labelled it with its second name: back to the first.
        module.__spec__ = self._spec
