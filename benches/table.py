"""Text tables: figures to three places, plain or Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from outcome import Outcome


def figure(value: float | None) -> str:
    """Three significant places, thousands grouped; '-' for nothing."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}"
    return f"{value:.3g}"


def cell(outcome: Outcome | None) -> str:
    """An outcome in one cell."""
    if outcome is None or outcome.absent:
        return "-"
    return "error" if outcome.value is None else figure(outcome.value)


def times(ratio: float | None) -> str:
    """A ratio in one cell."""
    return "-" if ratio is None else f"{figure(ratio)} x"


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first is flush left."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(
            word.ljust(width) if i == 0 else word.rjust(width)
            for i, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [heads, *rows]
    )


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is flush left."""
    rule = ["---", *["--:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows])
