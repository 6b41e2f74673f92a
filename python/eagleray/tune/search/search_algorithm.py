"""What the engine asks for configurations: a searcher with bookkeeping around it, or the plain grid and random search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagleray.tune.experiment.trial import Trial


@dataclass
class Suggestion:
    """The configuration of one trial, what was chosen in it (by `a/b/c`), and a tag that names that."""

    config: dict[str, Any]
    evaluated_params: dict[str, Any] = field(default_factory=dict)
    experiment_tag: str = ""
    #: What makes it quick to `retrace`.
    trace: Any = None


class SearchAlgorithm:
    """Gives configurations one after the other and hears what became of them.

    It must be a function of what it is told: the engine resumes an experiment by making it anew and telling it the
    same again.
    """

    _finished = False
    _metric: str | None = None
    _spec: dict[str, Any] | None = None
    _made = 0

    @property
    def metric(self) -> str | None:
        """What is optimised."""
        return self._metric

    @property
    def total_samples(self) -> int:
        """How many trials there will be; -1 if nobody knows."""
        return 0

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Hears what is optimised, and over which space. False if it was told another metric before."""
        if self._metric and metric:
            return False
        if metric:
            self._metric = metric
        return True

    def set_space(self, param_space: dict[str, Any], *, num_samples: int = 1) -> None:
        """Hears the space and how many samples of it are wanted; -1 for no end."""
        raise NotImplementedError

    def add_configurations(self, experiments: Any) -> None:
        """Hears of one experiment: a dict (or an object's `spec`) with `run`, `config` and `num_samples`."""
        spec = as_spec(experiments)
        self._spec = spec
        self.set_space(spec.get("config") or {}, num_samples=int(spec.get("num_samples", 1)))

    def next_config(self, trial_id: str | None = None) -> Suggestion | None:
        """The next configuration. None: not now, or, if it `is_finished()`, never again."""
        raise NotImplementedError

    def retrace(self, trial_id: str, trace: Any) -> None:
        """Moves on as by a `next_config` of an earlier run, whose answer and trace are known."""
        self.next_config(trial_id)

    def next_trial(self) -> Trial | None:
        """The next configuration as a trial."""
        from eagleray.tune.experiment.trial import Trial

        trial_id = f"{self._made:05d}"
        suggestion = self.next_config(trial_id)
        if suggestion is None:
            return None
        self._made += 1
        return Trial(
            str((self._spec or {}).get("run", "")),
            number=self._made - 1,
            trial_id=trial_id,
            config=suggestion.config,
            evaluated_params=suggestion.evaluated_params,
            experiment_tag=suggestion.experiment_tag,
        )

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Hears an intermediate result."""

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Hears that a trial has ended."""

    def is_finished(self) -> bool:
        """Whether no more configurations come."""
        return self._finished

    def set_finished(self) -> None:
        """No more configurations are wanted."""
        self._finished = True

    def has_checkpoint(self, dirpath: str) -> bool:
        """Whether `restore_from_dir` would find something."""
        return False

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Writes its state into a folder."""

    def restore_from_dir(self, dirpath: str) -> None:
        """Takes its state up from a folder."""


def as_spec(experiments: Any) -> dict[str, Any]:
    """The one experiment that is meant: a spec, an object with one, or a dict or list with one of them in it."""
    if isinstance(experiments, list | tuple):
        if len(experiments) != 1:
            raise ValueError("SearchAlgorithms can only support 1 experiment at a time.")
        return as_spec(experiments[0])
    spec: Mapping[str, Any] = getattr(experiments, "spec", experiments)
    if "run" not in spec and len(spec) == 1:
        [inner] = spec.values()
        if isinstance(inner, dict) and "run" in inner:
            return inner
    if "run" not in spec:
        raise ValueError(f"Must specify `run` in {spec}")
    return dict(spec)
