"""How pictures look: colours, scales, axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eagleray.tune.plots._runs import number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#2b2f36"
GREY = "#a3abb8"
_PALE = "#e6e9ee"
#: Told apart by most people who see colours differently (Okabe and Ito's, in another order).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc3d5c", "#cc79a7", "#e69f00")


def new(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure with one set of axes. It belongs to nobody but the caller: no window, no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'eagleray[plots]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9, length=3, color=GREY)
    axes.grid(visible=True, color=_PALE, linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    return figure, axes


def title(figure: Figure, text: str, below: str) -> None:
    """Say what is seen, and below it in small what else is to be known."""
    axes = figure.axes[0]
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", color=INK, pad=22 if below else 8)
    if below:
        axes.annotate(
            below, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", fontsize=9, color="#5d6573"
        )


def short(value: Any) -> str:
    """Write a number in few characters."""
    number = number_of(value)
    if number is None:
        return str(value)
    return f"{number:.4g}"


def is_log(numbers: Sequence[float]) -> bool:
    """Whether powers of ten are the better ruler: all above zero, far apart, and with them the middle one is nearer to the middle."""
    known = sorted(number for number in numbers if math.isfinite(number))
    if not known or known[0] <= 0 or known[-1] / known[0] <= 20:
        return False
    low, middle, high = known[0], known[len(known) // 2], known[-1]
    plain = (middle - low) / (high - low)
    powers = math.log(middle / low) / math.log(high / low)
    return abs(powers - 0.5) < abs(plain - 0.5)


def choose_scale(axes: Axes, numbers: Sequence[float], mode: str) -> None:
    """Powers of ten where they fit; else a few that are far off on the bad side do not squeeze all others together."""
    known = sorted(number for number in numbers if math.isfinite(number))
    if is_log(known):
        axes.set_yscale("log")
        _plain_powers(axes)
        return
    low, high = known[0], known[-1]
    near, far = known[len(known) // 20], known[-1 - len(known) // 20]
    middle = max(known[3 * len(known) // 4] - known[len(known) // 4], 1e-300)
    if mode == "min" and high - far > 10 * middle and far > low:
        axes.set_ylim(low - 0.05 * (far - low), far + 0.15 * (far - low))
    elif mode == "max" and near - low > 10 * middle and high > near:
        axes.set_ylim(near - 0.15 * (high - near), high + 0.05 * (high - near))


def _plain_powers(axes: Axes) -> None:
    """0.1 rather than a ten with a minus in the air; over few powers, some of what is between them too."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axes.get_ylim()
    subs = (1.0,) if math.log10(high / low) > 3 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: short(value))


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], *, columns: int) -> None:
    """Below the picture, where it hides nothing."""
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        borderaxespad=0.8,
    )


def whole_numbers(axes: Axes) -> None:
    """There is no half an iteration."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))


def metric_colours(values: Sequence[float], mode: str) -> tuple[Any, Any]:
    """Colours for values, dark for good ones; the worst tenth may be far off and is cut."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    known = sorted(values)
    low, high = known[0], known[-1]
    if mode == "min":
        high = known[int(0.9 * (len(known) - 1))]
    else:
        low = known[math.ceil(0.1 * (len(known) - 1))]
    if high <= low:
        low, high = known[0], max(known[-1], known[0] + 1e-12)
    norm = LogNorm(low, high, clip=True) if is_log(known) else Normalize(low, high, clip=True)
    return norm, colormaps["viridis" if mode == "min" else "viridis_r"]


class Ruler:
    """One axis of parallel coordinates: numbers on a scale that fits them, anything else as evenly spaced choices."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        numbers = [number_of(value) for value in values if value is not None]
        self._choices: list[str] | None = None
        if not all(number is not None for number in numbers):
            self._choices = sorted({_choice(value) for value in values if value is not None})
            return
        known = [number for number in numbers if number is not None and math.isfinite(number)]
        self._is_log = is_log(known)
        self._is_whole = all(isinstance(value, int) for value in values if value is not None)
        self._low, self._high = min(known, default=0.0), max(known, default=1.0)
        if self._high <= self._low:
            self._low, self._high = self._low - 0.5, self._high + 0.5

    def height(self, value: Any) -> float | None:
        """Say where on the axis it is, 0 to 1; None if it is nowhere."""
        if value is None:
            return None
        if self._choices is not None:
            place = self._choices.index(_choice(value))
            return 0.5 if len(self._choices) == 1 else place / (len(self._choices) - 1)
        number = number_of(value)
        return None if number is None or not math.isfinite(number) else self._height(number)

    def _height(self, number: float) -> float:
        if self._is_log:
            return math.log(number / self._low) / math.log(self._high / self._low)
        return (number - self._low) / (self._high - self._low)

    def draw(self, axes: Axes, place: int, *, is_last: bool) -> None:
        """Draw the line, its ticks and its name."""
        axes.plot([place, place], [0, 1], color=INK, linewidth=1.2, zorder=6, solid_capstyle="round")
        weight = "bold" if is_last else "normal"
        name = self.name if len(self.name) <= 18 else "…" + self.name[-17:]
        axes.annotate(
            name,
            (place, 0),
            (0, -14),
            textcoords="offset points",
            ha="center",
            va="top",
            color=INK,
            fontsize=10,
            weight=weight,
        )
        # The last one has its numbers outside, where no line runs.
        side, align = (1, "left") if is_last else (-1, "right")
        for at, text in self._ticks():
            axes.plot([place, place + side * 0.018], [at, at], color=INK, linewidth=1, zorder=6)
            axes.annotate(
                text,
                (place + side * 0.03, at),
                ha=align,
                va="center",
                fontsize=8,
                color=INK,
                zorder=7,
                bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8},
            )

    def _ticks(self) -> list[tuple[float, str]]:
        from matplotlib.ticker import LogLocator, MaxNLocator

        if self._choices is not None:
            count = len(self._choices)
            step = max(1, math.ceil(count / 12))
            return [
                (0.5 if count == 1 else place / (count - 1), name[:16])
                for place, name in enumerate(self._choices)
                if place % step == 0
            ]
        if self._is_log:
            many = math.log10(self._high / self._low)
            locator: Any = LogLocator(subs=(1.0,) if many > 2.5 else (1.0, 2.0, 5.0), numticks=8)
        else:
            locator = MaxNLocator(nbins=5, integer=self._is_whole)
        ticks = [float(tick) for tick in locator.tick_values(self._low, self._high)]
        inside = [(self._height(tick), short(tick)) for tick in ticks if self._low <= tick <= self._high]
        return inside or [(0.0, short(self._low)), (1.0, short(self._high))]


def _choice(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def ribbon(axes: Axes, heights: Sequence[float | None], **style: Any) -> None:
    """Draw a smooth line through the axes; it stops where the trial has no such parameter."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points: list[tuple[float, float]] = []
    codes: list[Any] = []
    before: tuple[float, float] | None = None
    for place, height in enumerate(heights):
        if height is None:
            before = None
            continue
        here = (float(place), height)
        if before is None:
            points.append(here)
            codes.append(Path.MOVETO)
        else:
            bend = 0.45 * (here[0] - before[0])
            points += [(before[0] + bend, before[1]), (here[0] - bend, here[1]), here]
            codes += [Path.CURVE4] * 3
        before = here
    color = style.pop("color")
    axes.add_patch(PathPatch(Path(points, codes), facecolor="none", edgecolor=color, capstyle="round", **style))
