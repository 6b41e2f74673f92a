"""What a user reads when a worker cannot import what the driver could."""

from __future__ import annotations


def failed_import(kind: str, name: str, error: BaseException) -> RuntimeError:
    """Explain why a function's or class's body could not be loaded here."""
    what = (
        "The remote function failed to import" if kind == "function" else f"The actor with name {name} failed to import"
    )
    return RuntimeError(
        f"{what} on the worker ({name}). This may be because needed library dependencies are not installed there: "
        f"{type(error).__name__}: {error}"
    )
