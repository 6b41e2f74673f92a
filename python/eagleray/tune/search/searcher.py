"""What a searcher is: something that suggests configurations and hears what became of them. Users may write their own."""

from __future__ import annotations

import pickle
import uuid
import warnings
from pathlib import Path
from typing import Any

from eagleray.tune.metrics import look_up
from eagleray.tune.search._texts import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE


class Searcher:
    """Suggests configurations.

    A subclass has at least `suggest` and `on_trial_complete`. Its answers should follow from what it was told and from
    a seed: to resume an experiment is to make it anew and to tell it the same again.

    Args:
        metric: what is optimised; a name, or a list of names for those that optimise several.
        mode: "min" or "max"; a list if `metric` is one.
    """

    FINISHED = "FINISHED"
    CKPT_FILE_TMPL = "searcher-state-{}.pkl"

    def __init__(self, metric: Any = None, mode: Any = None) -> None:
        self._metric = metric
        self._mode = mode
        if not mode or not metric:
            return
        if not isinstance(metric, type(mode)):
            raise AssertionError("metric and mode must be of the same type")
        if isinstance(mode, str):
            if mode not in ("min", "max"):
                raise AssertionError("if `mode` is a str must be 'min' or 'max'!")
        elif isinstance(mode, list):
            if len(mode) != len(metric):
                raise AssertionError("Metric and mode must be the same length")
            if not all(each in ("min", "max", "obs") for each in mode):
                raise AssertionError("All of mode must be 'min' or 'max' or 'obs'!")
        else:
            raise ValueError("Mode most either be a list or string")

    @property
    def metric(self) -> Any:
        """What is optimised."""
        return self._metric

    @property
    def mode(self) -> Any:
        """Whether "min" or "max" is better."""
        return self._mode

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Hears what is optimised and over which space. True if it makes use of that."""
        return False

    def suggest(self, trial_id: str) -> Any:
        """A configuration for a new trial; None: not now; `Searcher.FINISHED`: never again."""
        raise NotImplementedError(f"{type(self).__name__} has no suggest()")

    def trace(self) -> Any:
        """What `retrace` needs to know of the latest suggestion: the journal keeps it. None if it needs nothing, or asks again."""
        return None

    def retrace(self, trial_id: str, trace: Any) -> Any:
        """As `suggest` while an experiment is resumed. Whoever finds its answer in the trace need not think again."""
        return self.suggest(trial_id)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Hears an intermediate result, in which the metric may be missing or not a number."""

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Hears that a trial has ended, with its last result, or with an error."""
        raise NotImplementedError

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,  # noqa: FBT001, FBT002
        pruned: bool = False,  # noqa: FBT001, FBT002
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learns from a configuration that was tried elsewhere."""
        raise NotImplementedError

    def add_evaluated_trials(self, trials_or_analysis: Any, metric: str) -> None:
        """Learns from trials of another experiment: a trial, a list of trials, or an analysis."""
        trials = getattr(trials_or_analysis, "trials", trials_or_analysis)
        if not isinstance(trials, list | tuple):
            trials = [trials]
        has_any = False
        for trial in trials:
            value = look_up(trial.last_result, metric)
            if value is None:
                continue
            has_any = True
            is_done = bool(trial.last_result.get("done", False))
            self.add_evaluated_point(
                parameters=trial.config,
                value=value,
                error=trial.status == "ERROR",
                pruned=trial.status == "TERMINATED" and not is_done,
            )
        if not has_any:
            text = "No completed trial returned the specified metric. Make sure the name you have passed is correct. "
            warnings.warn(text, stacklevel=2)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Hears how many trials may be under way. True if it sees to that itself."""
        return False

    def get_state(self) -> dict[str, Any]:
        """Its state, without searchers that it holds."""
        raise NotImplementedError

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up a state."""
        raise NotImplementedError

    def save(self, checkpoint_path: str) -> None:
        """Writes its state into a file."""
        import cloudpickle

        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Takes its state up from a file."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Writes its state into a folder, whole or not at all. One that cannot be saved is passed over."""
        path = Path(checkpoint_dir) / self.CKPT_FILE_TMPL.format(session_str)
        partial = path.with_name(f".{uuid.uuid4()}-tmp-{path.name}")
        try:
            self.save(str(partial))
        except NotImplementedError:
            return
        if partial.exists():
            partial.replace(path)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Takes up the newest state in a folder."""
        files = sorted(
            Path(checkpoint_dir).glob(self.CKPT_FILE_TMPL.format("*")), key=lambda path: path.stat().st_mtime
        )
        if not files:
            raise RuntimeError(f"Unable to find checkpoint in {checkpoint_dir}.")
        self.restore(str(files[-1]))

    def _hear(self, metric: Any, mode: Any) -> None:
        """Optimises what the experiment says, as far as it says it."""
        if metric:
            self._metric = metric
        if mode:
            self._mode = mode

    def _refuse_without(self, *, space: bool = True, metric: bool = True) -> None:
        """Raises what it cannot suggest anything without: each says whether it is there."""
        name = type(self).__name__
        if not space:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=name, space="space"))
        if not metric:
            raise RuntimeError(UNDEFINED_METRIC_MODE.format(cls=name, metric=self._metric, mode=self._mode))

    def on_pause(self, trial_id: str) -> None:
        """Hears that a trial is paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Hears that a trial goes on."""


def trace_of(searcher: Any) -> Any:
    """A searcher's trace. A user's own need not know of them."""
    trace = getattr(searcher, "trace", None)
    return trace() if callable(trace) else None


def retraced(searcher: Any, trial_id: str, trace: Any) -> Any:
    """What a searcher answers to `retrace`, or, if it does not know of traces, when asked again."""
    if trace is None:
        return searcher.suggest(trial_id)
    for kind in type(searcher).__mro__:
        if "retrace" in vars(kind):
            return searcher.retrace(trial_id, trace)
        if "suggest" in vars(kind):
            # A user's own, below one that can retrace: what it does beside asking that is not known.
            break
    return searcher.suggest(trial_id)
