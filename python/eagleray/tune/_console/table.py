"""Tables of text. Data in, lines out; who reads them is not known here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from eagleray.tune._console import text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Between two columns.
GAP = 2

#: The least that a column is squeezed to.
CELL_MIN = 6


class Mark(NamedTuple):
    """A part of a line, by character, that has a colour where there are colours."""

    start: int
    end: int
    kind: str


class Line(NamedTuple):
    """One line without its end."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column: its title, one cell for each row, and how soon it goes if there is no room: 0 never, the largest first."""

    title: str
    cells: Sequence[str]
    is_right: bool = False
    drop: int = 0
    #: The colour of each cell, if it has one.
    kinds: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Glyphs:
    """The characters that lines are made of."""

    rule: str = "─"
    ellipsis: str = text.ELLIPSIS


UNICODE = Glyphs()
ASCII = Glyphs(rule="-", ellipsis="..")


def lay_out(
    columns: Sequence[Column], width: int, *, cell_max: int = 20, glyphs: Glyphs = UNICODE
) -> tuple[list[Line], list[str]]:
    """Give the lines of a table that is at most so wide, and the titles of the columns that found no room."""
    widths = {id(column): _natural(column, cell_max) for column in columns}
    shown = list(columns)
    left_out: list[Column] = []
    while _total(shown, widths) > width:
        last = max(reversed(shown), key=lambda column: column.drop)
        if last.drop == 0:
            break
        shown.remove(last)
        left_out.append(last)
    _squeeze(shown, widths, width)
    titles = [column.title for column in columns if column in left_out]
    return _lines(shown, [widths[id(column)] for column in shown], width, glyphs), titles


def _natural(column: Column, cell_max: int) -> int:
    longest = max((text.width(cell) for cell in column.cells), default=0)
    return min(
        max(longest, text.width(column.title)), max(cell_max, text.width(column.title) if column.drop == 0 else 0)
    )


def _total(columns: Sequence[Column], widths: dict[int, int]) -> int:
    return sum(widths[id(column)] for column in columns) + GAP * (len(columns) - 1)


def _squeeze(columns: Sequence[Column], widths: dict[int, int], width: int) -> None:
    """Take room from the widest until they fit, or until none has any to give."""
    while columns and (excess := _total(columns, widths) - width) > 0:
        widest = max(columns, key=lambda column: widths[id(column)])
        if widths[id(widest)] <= CELL_MIN:
            return
        widths[id(widest)] = max(CELL_MIN, widths[id(widest)] - excess)


def _lines(columns: Sequence[Column], widths: Sequence[int], width: int, glyphs: Glyphs) -> list[Line]:
    gap = " " * GAP
    head = gap.join(
        text.pad(text.fit_end(column.title, room, ellipsis=glyphs.ellipsis), room, right=column.is_right)
        for column, room in zip(columns, widths, strict=True)
    )
    total = min(sum(widths) + GAP * (len(widths) - 1), width)
    lines = [
        Line(text.fit(head, width, ellipsis=glyphs.ellipsis).rstrip()),
        Line(glyphs.rule * total, (Mark(0, total, "dim"),)),
    ]
    for row in range(len(columns[0].cells) if columns else 0):
        parts: list[str] = []
        marks: list[Mark] = []
        start = 0
        for column, room in zip(columns, widths, strict=True):
            cell = text.pad(text.fit(column.cells[row], room, ellipsis=glyphs.ellipsis), room, right=column.is_right)
            if column.kinds and column.kinds[row]:
                marks.append(Mark(start, start + len(cell.rstrip()), column.kinds[row]))
            parts.append(cell)
            start += len(cell) + GAP
        lines.append(Line(text.fit(gap.join(parts).rstrip(), width, ellipsis=glyphs.ellipsis), tuple(marks)))
    return lines


def boxed(titles: Sequence[str], rows: Sequence[Sequence[str]], is_right: Sequence[bool]) -> list[str]:
    """Give the lines of a table in a box of ASCII, as the reporters of old print it."""
    widths = [max([text.width(title), *(text.width(row[at]) for row in rows)]) for at, title in enumerate(titles)]

    def line(cells: Sequence[str]) -> str:
        padded = (text.pad(cell, room, right=right) for cell, room, right in zip(cells, widths, is_right, strict=True))
        return "| " + " | ".join(padded) + " |"

    edge = "+" + "+".join("-" * (room + 2) for room in widths) + "+"
    under = "|" + "+".join("-" * (room + 2) for room in widths) + "|"
    return [edge, line(titles), under, *(line(row) for row in rows), edge]
