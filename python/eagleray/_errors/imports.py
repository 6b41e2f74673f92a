"""What a user reads when a worker cannot import what the driver could."""

from __future__ import annotations


def failed_import(kind: str, name: str, error: BaseException) -> RuntimeError:
    """Explain why a function's or class's body could not be loaded here."""
    what = (
        "The remote function failed to import" if kind == "function" else f"The actor with name {name} failed to import"
    )
    return RuntimeError(
        f"{what} on the worker ({name}). This may be because needed library dependencies are not installed there: "
        f"{type(error).__name__}: {error}" + (f". {more}" if (more := advice(error)) else "")
    )


def advise(error: BaseException) -> None:
    """Add to an error what `advice` says of it."""
    if more := advice(error):
        error.add_note(more)


def advice(error: BaseException) -> str:
    """Say what to do about a module that this worker lacks, if that is what the error is about."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    from eagleray import _native

    top = error.name.partition(".")[0]
    if _native.is_driver() or not _native.is_joined() or _is_here(top):
        return ""
    return (
        f"The module {top!r} is not installed on node {here()}. If it is the program's own, ray.init(runtime_env={{'working_dir': '.'}}) "
        f"sends the program's folder there, and {{'py_modules': ['path/of/{top}']}} the module alone; if it is a library, install it there."
    )


def here() -> str:
    """Say which node this process belongs to: its address, machine and id."""
    import os

    from eagleray import _native
    from eagleray._node import facts

    identity = _native.identity()
    return f"{facts.ip_of(identity['session_dir'])} ({os.uname().nodename}, {identity['node_id'][:12]})"


def _is_here(name: str) -> bool:
    import importlib.util
    import sys

    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except Exception:
        return False
