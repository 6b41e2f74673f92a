"""The pictures themselves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.plots import _axes
from eagleray.tune.plots._importance import _of_runs
from eagleray.tune.plots._runs import Run, check, number_of, parameters, runs

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: So many trials have a colour of their own; the others are grey.
_COLOURED = 6
#: In a picture of parallel coordinates.
_PARAMETERS_MAX = 12


def curves(results: Any, metric: str, mode: str = "min", x: str = "training_iteration") -> Figure:
    """Draw the metric of each trial over its iterations, or over another number that is reported, such as `time_total_s`."""
    check(mode)
    found = [run for run in runs(results, metric, x) if run.points]
    figure, axes = _axes.new(8, 5.4)
    best = _ranked(found, mode)[:_COLOURED]
    for run in found:
        if run not in best:
            _curve(axes, run, color=_axes.GREY, linewidth=0.9, alpha=0.55, zorder=2)
    for place, run in reversed(list(enumerate(best))):
        width = 2.2 if place == 0 else 1.5
        _curve(axes, run, color=_axes.COLOURS[place], linewidth=width, zorder=5 - place / 10, label=_label(run, metric))
    axes.set_xlabel(x)
    axes.set_ylabel(metric)
    _axes.choose_scale(axes, [value for run in found for _, value in run.points], mode)
    if all(float(at).is_integer() for run in found for at, _ in run.points):
        _axes.whole_numbers(axes)
    more = len(found) - len(best)
    title = f"{metric} of {len(found)} trial{'s' if len(found) > 1 else ''}"
    _axes.title(figure, title, f"the best {len(best)} in colour, the other {more} in grey" if more > 0 else "")
    handles, labels = axes.get_legend_handles_labels()
    _axes.legend(figure, handles[::-1], labels[::-1], columns=1 if _is_long(labels) else 2)
    return figure


def history(results: Any, metric: str, mode: str = "min", scope: str = "last") -> Figure:
    """Draw what each trial came to, in the order in which they were made, and the best so far."""
    check(mode, scope)
    found = sorted(runs(results, metric), key=lambda run: run.number)
    figure, axes = _axes.new(8, 4.4)
    known = [(run.number, run.value(scope, mode)) for run in found if math.isfinite(run.value(scope, mode))]
    lost = [run.number for run in found if not math.isfinite(run.value(scope, mode))]
    steps, best = [], math.nan
    for number, value in known:
        if math.isnan(best) or (value > best if mode == "max" else value < best):
            best = value
            steps.append((number, value))
    steps.append((max(run.number for run in found), best))
    numbers, values = [number for number, _ in known], [value for _, value in known]
    axes.scatter(numbers, values, s=22, color=_axes.COLOURS[0], alpha=0.55, linewidth=0, zorder=3, label="trial")
    axes.step(
        *zip(*steps, strict=True), where="post", color=_axes.COLOURS[1], linewidth=2, zorder=4, label="best so far"
    )
    axes.set_xlabel("trial")
    axes.set_ylabel(metric)
    _axes.choose_scale(axes, values, mode)
    _axes.whole_numbers(axes)
    if lost:
        # On the axis itself: they have no height.
        where = axes.get_xaxis_transform()
        label = f"no finite {metric}"
        axes.plot(
            lost, [0.015] * len(lost), "x", color=_axes.COLOURS[3], markersize=5, transform=where, label=label, zorder=5
        )
    at = next(number for number, value in known if value == best)
    _axes.title(figure, f"{metric} of {len(found)} trials", f"best: {_axes.short(best)} by trial {at}")
    _axes.legend(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure


def parallel(results: Any, metric: str, mode: str = "min", scope: str = "last") -> Figure:
    """Draw each trial as a line through its parameters, coloured by what it came to."""
    check(mode, scope)
    found = [run for run in runs(results, metric) if math.isfinite(run.value(scope, mode))]
    keys = parameters(found)[:_PARAMETERS_MAX]
    if not keys:
        raise ValueError("the trials have the same parameters: there is nothing to draw")
    ranked = _ranked(found, mode, scope)
    figure, axes = _axes.new(max(6.0, 1.5 * len(keys) + 3), 5)
    values = [run.value(scope, mode) for run in ranked]
    rulers = [_axes.Ruler(key, [run.params.get(key) for run in ranked]) for key in keys]
    rulers.append(_axes.Ruler(metric, values))
    norm, colours = _axes.metric_colours(values, mode)
    for place, run in reversed(list(enumerate(ranked))):
        heights = [ruler.height(run.params.get(key)) for ruler, key in zip(rulers, keys, strict=False)]
        heights.append(rulers[-1].height(values[place]))
        is_best = place == 0
        _axes.ribbon(
            axes,
            heights,
            color=_axes.COLOURS[1] if is_best else colours(norm(values[place])),
            linewidth=2.6 if is_best else 1.1,
            alpha=1.0 if is_best else max(0.25, min(0.8, 40 / len(ranked))),
            zorder=4 if is_best else 2,
        )
    for place, ruler in enumerate(rulers):
        ruler.draw(axes, place, is_last=place == len(rulers) - 1)
    axes.set_xlim(-0.25, len(rulers) - 0.75)
    axes.set_ylim(-0.04, 1.04)
    axes.axis("off")
    told = f"dark is good; the best, in orange, came to {_axes.short(values[0])}"
    left_out = len(parameters(found)) - len(keys)
    _axes.title(
        figure,
        f"{metric} of {len(found)} trials",
        told + (f"; {left_out} more parameters not shown" if left_out else ""),
    )
    return figure


def importance(results: Any, metric: str, mode: str = "min", scope: str = "last") -> Figure:
    """Draw how much of the metric's variation each parameter accounts for; see `importance_of`."""
    check(mode, scope)
    told = _of_runs(runs(results, metric), mode, scope)
    shown = list(told.shares.items())[:20]
    rows = [*shown, ("interactions and noise", told.together)]
    figure, axes = _axes.new(7, 1.6 + 0.36 * len(rows))
    names = [name for name, _ in rows]
    shares = [share for _, share in rows]
    colours = [_axes.COLOURS[0]] * len(shown) + [_axes.GREY]
    bars = axes.barh(range(len(rows)), shares, color=colours, height=0.66, zorder=3)
    axes.bar_label(bars, [f"{share:.0%}" for share in shares], padding=4, color=_axes.INK)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, max(*shares, 0.05) * 1.15)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel(f"share of the variance of {metric}, by rank")
    note = f"{told.trials} trials; trees predict {max(told.explained, 0):.0%} of the variance of trials not seen"
    if told.explained < 0.1:
        note += ": too little to trust this"
    _axes.title(figure, f"What mattered for {metric}", note)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a .png or .svg file."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".png", ".svg"):
        raise ValueError(f"pictures are written as .png or .svg, not {suffix or 'without a suffix'}: {path}")
    # The same trials give the same file: no date, no random names in it.
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "eagleray", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata={"Date": None} if suffix == ".svg" else None)


def _ranked(found: list[Run], mode: str, scope: str = "last") -> list[Run]:
    """Best first; those without a value last."""

    def key(run: Run) -> tuple[bool, float]:
        value = run.value(scope, mode)
        return not math.isfinite(value), -value if mode == "max" else value

    return sorted(found, key=key)


def _curve(axes: Axes, run: Run, **style: Any) -> None:
    points = [point for point in run.points if math.isfinite(point[1])]
    if not points:
        return
    # The end is marked: trials stop at different times.
    axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, markevery=[-1], **style)


def _label(run: Run, metric: str) -> str:
    params = ", ".join(
        f"{key.rpartition('/')[2]}={_axes.short(value) if number_of(value) is not None else value}"
        for key, value in list(run.params.items())[:4]
    )
    more = ", …" if len(run.params) > 4 else ""
    return f"{run.name}  {metric}={_axes.short(run.last)}" + (f"  ({params}{more})" if params else "")


def _is_long(labels: list[str]) -> bool:
    return any(len(label) > 55 for label in labels)
