"""Tours through the code: numbered markers on the functions that a call passes, in order.

A marker is a line of a doc comment or docstring such as ``tour(task) 4: the owner records lineage``; the rest of its
paragraph belongs to it. The pages under docs/ are written from the markers, so they cannot name a place that is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARKER = re.compile(r"\btour\((?P<tour>\w+)\) (?P<number>\d+): (?P<text>.+)")
_RUST_COMMENT = re.compile(r"\s*//[/!]? ?(?P<prose>.*)")
_PYTHON_COMMENT = re.compile(r"\s*# ?(?P<prose>.*)")
_DOCSTRING = re.compile(r"(?P<prose>.*)")
_ITEM = re.compile(
    r"\s*(?:pub(?:\([^)]*\))? |async |const |unsafe |extern \S+ )*(?:fn|def|struct|enum|trait|class) (?P<name>\w+)"
)


@dataclass(frozen=True)
class Stop:
    """One marker: where a call passes, and what happens to it there."""

    number: int
    path: str
    line: int
    name: str
    text: str


def collect(sources: Iterable[tuple[str, str]]) -> dict[str, list[Stop]]:
    """All tours by name, their stops in order. `sources` are paths with their texts."""
    found: dict[str, list[Stop]] = {}
    for path, text in sources:
        for name, stop in _stops(path, text.splitlines()):
            found.setdefault(name, []).append(stop)
    return {name: sorted(stops, key=lambda stop: stop.number) for name, stops in sorted(found.items())}


def faults(name: str, stops: list[Stop]) -> Iterator[tuple[Stop, str]]:
    """Where a tour's numbers repeat or leave a gap."""
    seen: dict[int, Stop] = {}
    for stop in stops:
        if stop.number in seen:
            first = seen[stop.number]
            yield stop, f"tour({name}) {stop.number} is also at {first.path}:{first.line}"
        seen[stop.number] = stop
    for number in range(1, max(seen)):
        if number not in seen:
            yield stops[-1], f"tour({name}) has no stop {number}"


def page_path(name: str) -> str:
    """Where a tour's page lies."""
    return f"docs/life-of-{_article(name)}-{name}.md"


def page_text(name: str, stops: list[Stop]) -> str:
    """A tour as a page. It names functions, not line numbers, so that only a change of the way makes it stale."""
    head = f"# The life of {_article(name)} {name}"
    origin = "Written from the markers in the code by `python scripts/tidy.py --write-tour`."
    entries = [f"{stop.number}. [{stop.path}](../{stop.path}) `{stop.name}`: {stop.text}" for stop in stops]
    return "\n".join([head, "", origin, "", *entries, ""])


def _stops(path: str, lines: list[str]) -> Iterator[tuple[str, Stop]]:
    for index, line in enumerate(lines):
        style = _comment_style(path, line)
        comment = style.match(line) if style else None
        marker = _MARKER.search(comment["prose"]) if comment else None
        if style and marker:
            inside = style is _DOCSTRING
            text = _paragraph(marker["text"], lines[index + 1 :], style)
            name = _item(lines[index::-1] if inside else lines[index + 1 :])
            yield marker["tour"], Stop(int(marker["number"]), path, index + 1, name, text)


def _comment_style(path: str, line: str) -> re.Pattern[str] | None:
    if path.endswith(".rs"):
        return _RUST_COMMENT
    if path.endswith(".py"):
        return _PYTHON_COMMENT if line.lstrip().startswith("#") else _DOCSTRING
    return None


def _paragraph(first: str, rest: list[str], style: re.Pattern[str]) -> str:
    """The marker's text with the lines that continue it."""
    parts = [first]
    for line in rest:
        comment = style.match(line)
        prose = comment["prose"].strip() if comment else ""
        if not prose or '"""' in parts[-1] or _MARKER.search(prose):
            break
        parts.append(prose)
    return " ".join(parts).split('"""')[0].strip()


def _item(lines: list[str]) -> str:
    """The first function or type named in these lines."""
    for line in lines:
        item = _ITEM.match(line)
        if item:
            return item["name"]
    return "the module"


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"
