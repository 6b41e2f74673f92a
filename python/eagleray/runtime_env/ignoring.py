"""Patterns of what stays out of a package, as `.gitignore` files have them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Patterns:
    """The patterns of one file, or of one list. Paths are relative to the folder that they are meant for, with `/` between."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Compile them. The last one that matches a path decides, and a `!` before it takes the path in again."""
        rules = [rule for line in lines if (rule := _rule(line)) is not None]
        self._rules = [(re.compile(text, re.DOTALL), is_in) for text, is_in in rules]
        self._takes_in = any(is_in for _, is_in in self._rules)

    def match(self, path: str) -> bool:
        """Tell whether a file stays out, or a folder with all that is in it."""
        for rule, is_in in reversed(self._rules):
            if rule.fullmatch(path):
                return not is_in
        return False

    def match_folder(self, path: str) -> bool:
        """Tell whether nothing in a folder can be wanted, so that nobody needs to look."""
        # Of a pattern with a `/` behind it all files in the folder stay out, except for those that another one takes in again.
        return self.match(path) or (not self._takes_in and self.match(path + "/"))


def _rule(line: str) -> tuple[str, bool] | None:
    """Make a regular expression of a pattern, and say whether it takes in; None if the line says nothing."""
    line = line.rstrip("\n").rstrip("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    is_in = line.startswith("!")
    line = line.removeprefix("!")
    is_folder = line.endswith("/")
    parts = line.strip("/").split("/")
    if parts == [""]:
        return None
    text = "" if line.startswith("/") or len(parts) > 1 else "(?:.*/)?"
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        if part != "**":
            text += _part(part) + ("" if is_last else "/")
        elif is_last:
            text += ".+"
        else:
            text += "(?:.*/)?"
    return text + ("/.*" if is_folder else "(?:/.*)?"), is_in


_CLASS = re.compile(r"\[(!|\^)?(\]?[^\]]*)\]")


def _part(part: str) -> str:
    """Make a regular expression of what stands between two slashes."""
    text, at = "", 0
    while at < len(part):
        sign = part[at]
        found = _CLASS.match(part, at) if sign == "[" else None
        if found is not None:
            inner = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("&&", "&\\&")
            text += f"(?!/)[{'^' if found[1] else ''}{inner}]"
            at = found.end()
            continue
        if sign == "\\" and at + 1 < len(part):
            at += 1
            text += re.escape(part[at])
        else:
            text += {"*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign)
        at += 1
    return text
