"""How values become text, and how much room that takes on a terminal."""

from __future__ import annotations

import math
import reprlib
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ELLIPSIS = "…"

#: Bounded in every direction, so that a value of a million parts costs no more than a small one.
_repr = reprlib.Repr()
_repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxarray = _repr.maxdeque = 8
_repr.maxdict = 8
_repr.maxlevel = 3
_repr.maxstring = _repr.maxother = _repr.maxlong = 200

#: A text longer than this is cut before anything looks at each of its characters.
_TEXT_MAX = 2000


def width(text: str) -> int:
    """Give the columns that a text takes: wide characters take two, marks that sit on others none."""
    if text.isascii():
        return len(text)
    return sum(_width_of(character) for character in text)


def _width_of(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clean(text: str) -> str:
    """Make a text fit for one line: no control character reaches the terminal, since it might move the cursor."""
    text = text[:_TEXT_MAX]
    if text.isprintable():
        return text
    # Surrogates cannot be written at all.
    return "".join(
        character if character.isprintable() else " " if character in "\n\r\t" else "?" for character in text
    ).strip()


def fit(text: str, columns: int, *, ellipsis: str = ELLIPSIS) -> str:
    """Cut a text to so many columns; what was cut is told by an ellipsis."""
    if width(text) <= columns:
        return text
    return _cut(text, max(columns - width(ellipsis), 0)) + ellipsis[:columns]


def fit_end(text: str, columns: int, *, ellipsis: str = ELLIPSIS) -> str:
    """Do the same but keep the end, which is what tells paths and nested names apart."""
    if width(text) <= columns:
        return text
    kept = _cut(text[::-1], max(columns - width(ellipsis), 0))[::-1]
    return ellipsis[:columns] + kept


def _cut(text: str, columns: int) -> str:
    taken = 0
    for place, character in enumerate(text):
        taken += _width_of(character)
        if taken > columns:
            return text[:place]
    return text


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Fill a text up to so many columns."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def is_plain_number(value: object) -> bool:
    """Whether a value is shown as a number, to the right."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def value(value: Any) -> str:
    """Give the text of a parameter or a metric."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int):
        return str(value) if -(10**15) < value < 10**15 else number_of_long(value)
    if isinstance(value, str):
        return clean(value)
    if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        # One number of numpy's.
        try:
            return number(float(value))
        except (TypeError, ValueError):
            pass
    try:
        return clean(_repr.repr(value))
    except Exception:
        # A user's own class may fail at this; the table must not.
        return f"<{type(value).__name__}>"


def param(chosen: Any) -> str:
    """Give the text of a parameter: None is a choice like any other."""
    return "None" if chosen is None else value(chosen)


def literal(value: Any, depth: int = 3) -> str:
    """Give a value as Python writes it, in bounded time; unlike reprlib's, dicts keep their order."""
    if isinstance(value, dict) and depth:
        items = [f"{literal(key)}: {literal(one, depth - 1)}" for key, one in list(value.items())[:50]]
        return "{" + ", ".join(items + ["..."] * (len(value) > len(items))) + "}"
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return (
            clean(repr(value))
            if not isinstance(value, int)
            else str(value)
            if abs(value) < 10**15
            else number_of_long(value)
        )
    try:
        return clean(_repr.repr(value))
    except Exception:
        return f"<{type(value).__name__}>"


def number_of_long(value: int) -> str:
    """Give the text of an int that may be longer than the table is wide."""
    try:
        return f"{value:.6g}"
    except OverflowError:
        return "-inf" if value < 0 else "inf"


def number(value: float) -> str:
    """Give the text of a float: six digits say enough."""
    if math.isnan(value):
        return "nan"
    return f"{value:.6g}"


def seconds(spent: float) -> str:
    """Give the text of a time that was spent: `0.25 s`, `12.5 s`, `3 min 5 s`, `2 h 3 min`, `4 d 2 h`."""
    if not math.isfinite(spent) or spent < 0:
        return "?"
    if spent < 1:
        return f"{spent:.2f} s"
    if spent < 60:
        return f"{spent:.1f} s"
    whole = int(spent)
    for size, name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // small} {small_name}"
    raise AssertionError(whole)


def about(left: float) -> str:
    """Give the text of a time that is only guessed: no more digits than it deserves."""
    if left < 10:
        return "a few seconds"
    if left < 60:
        return f"{round(left / 10) * 10} s"
    if left < 3600:
        return f"{round(left / 60)} min"
    if left < 86400:
        return f"{left / 3600:.1f} h"
    return f"{left / 86400:.1f} d"


def resources(used: Mapping[str, float], total: Mapping[str, float]) -> str:
    """Give the text of what is used of what there is: `3/8 CPU, 0.5/1 GPU`. What Ray adds for its own use is left out."""
    names = [name for name in total if not name.startswith(("node:", "memory", "object_store_memory"))]
    return ", ".join(f"{used.get(name, 0):g}/{total[name]:g} {name}" for name in names)
