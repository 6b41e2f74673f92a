"""Which known name a mistyped one probably stands for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CUTOFF = 0.6


def nearest(name: str, known: Iterable[object], *, cutoff: float = _CUTOFF) -> str | None:
    """Give the known name that looks most alike; None if none does."""
    import difflib

    return next(iter(difflib.get_close_matches(name, [str(one) for one in known], n=1, cutoff=cutoff)), None)


def hint(name: str, known: Iterable[object], *, cutoff: float = _CUTOFF) -> str:
    """Ask whether that name was meant, in words to be put behind a sentence; nothing if no name looks alike."""
    near = nearest(name, known, cutoff=cutoff)
    return f" Did you mean {near!r}?" if near is not None else ""
