"""Learning curves as pictures. They need matplotlib (`pip install 'eagleray[plots]'`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.tune.metrics import look_up
from eagleray.tune.plots import _axes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

STEPS = "num_env_steps_sampled_lifetime"
RETURN = "env_runners/episode_return_mean"


def learning_curve(
    runs: Mapping[str, Sequence[dict[str, Any]]],
    metric: str = RETURN,
    x: str = STEPS,
    title: str = "",
    *,
    goal: float | None = None,
) -> Figure:
    """Draw a metric over the steps of environments: a line for each run, which is the list of what its `train()` gave."""
    figure, axes = _axes.new(8, 4.6)
    for place, (name, results) in enumerate(runs.items()):
        points = [(look_up(result, x), look_up(result, metric)) for result in results]
        known = [(float(at), float(value)) for at, value in points if at is not None and value is not None]
        colour = _axes.COLOURS[place % len(_axes.COLOURS)]
        axes.plot([at for at, _ in known], [value for _, value in known], color=colour, linewidth=2.0, label=name)
    if goal is not None:
        axes.axhline(goal, color=_axes.GREY, linewidth=1.0, linestyle="--")
    axes.set_xlabel("steps of environments" if x == STEPS else x)
    axes.set_ylabel("mean return of the last episodes" if metric == RETURN else metric)
    _axes.title(figure, title or metric, "")
    if len(runs) > 1:
        handles, labels = axes.get_legend_handles_labels()
        _axes.legend(figure, handles, labels, columns=2)
    return figure
