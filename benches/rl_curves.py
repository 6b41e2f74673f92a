"""Training curves of several systems as one SVG: a panel per case, a line for the median seed, a band for the middle half."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from rl_reward_cases import CASES

COLOURS = ("#c2410c", "#1d4ed8", "#15803d")
COLUMNS = 3
WIDTH, HEIGHT = 300, 200
LEFT, TOP, RIGHT, BOTTOM = 52, 26, 12, 26
GRID = 50
#: The part of a budget that may lie behind the last episode that ended.
SLACK = 0.05

Point = tuple[float, float]


def draw(systems: Mapping[str, dict[str, Any]]) -> str:
    """The whole picture."""
    shown = [name for name in CASES if any(curves(results, name) for results in systems.values())]
    rows = -(-len(shown) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="10">'
    ]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for index, (name, colour) in enumerate(zip(systems, COLOURS, strict=False)):
        at = 12 + 150 * index
        parts.append(f'<rect x="{at}" y="10" width="18" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{at + 24}" y="16">{name}</text>')
    for index, name in enumerate(shown):
        place = (index % COLUMNS * WIDTH, 30 + index // COLUMNS * HEIGHT)
        parts += panel(name, place, [curves(results, name) for results in systems.values()])
    return "\n".join([*parts, "</svg>", ""])


def curves(results: dict[str, Any], case: str) -> list[list[Point]]:
    """Of each seed, as far as it came."""
    return [job["curve"] for job in results["jobs"] if job["case"] == case and job["curve"]]


def panel(name: str, place: tuple[int, int], systems: Sequence[list[list[Point]]]) -> list[str]:
    values = [value for found in systems for curve in found for _, value in curve]
    steps = max(step for found in systems for curve in found for step, _ in curve)
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or 1.0
    low, high = low - room, high + room
    left, top = place[0] + LEFT, place[1] + TOP
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(point: Point) -> str:
        return f"{left + point[0] / steps * wide:.1f},{top + (high - point[1]) / (high - low) * tall:.1f}"

    case = CASES[name]
    parts = [f'<rect x="{left}" y="{top}" width="{wide}" height="{tall}" fill="none" stroke="#bbb"/>']
    parts.append(f'<text x="{left}" y="{top - 8}" font-size="12">{case.algorithm}, {case.environment}</text>')
    for value in (low + room, (low + high) / 2.0, high - room):
        y = top + (high - value) / (high - low) * tall
        parts.append(f'<text x="{left - 5}" y="{y + 3:.1f}" text-anchor="end">{value:.0f}</text>')
    parts.append(f'<text x="{left + wide}" y="{top + tall + 14}" text-anchor="end">{steps:,} steps</text>')
    for found, colour in zip(systems, COLOURS, strict=False):
        bands = quartiles(found, steps)
        if not bands:
            continue
        around = [(step, below) for step, below, _, _ in bands] + [(step, above) for step, _, _, above in bands[::-1]]
        parts.append(f'<polygon points="{" ".join(map(at, around))}" fill="{colour}" opacity="0.15"/>')
        line = " ".join(at((step, middle)) for step, _, middle, _ in bands)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts


def quartiles(found: Sequence[Sequence[Point]], steps: float) -> list[tuple[float, float, float, float]]:
    """Step, lower quartile, median and upper quartile over seeds, where all seeds have a value and none was cut off."""
    bands = []
    last = min((curve[-1][0] for curve in found), default=0.0)
    for index in range(1, GRID + 1):
        step = steps * index / GRID
        # The last episode may have ended somewhat before the budget did.
        if step > last + SLACK * steps:
            break
        values = sorted(value for curve in found if (value := before(curve, step)) is not None)
        if values and len(values) == len(found):
            bands.append((step, within(values, 0.25), within(values, 0.5), within(values, 0.75)))
    return bands


def before(curve: Sequence[Point], step: float) -> float | None:
    """What a curve said last by this step."""
    index = bisect.bisect_right([at for at, _ in curve], step)
    return curve[index - 1][1] if index else None


def within(ordered: Sequence[float], share: float) -> float:
    """The value at a share of ordered values, linear between two."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
