"""One trial: a configuration, what it reported, where its files are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from eagleray.tune._checkpoint import Checkpoint


class Trial:
    """What schedulers, searchers, callbacks and results see of one trial. The engine alone changes its status."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    #: A callback wants a checkpoint of where the trial stands.
    _is_checkpoint_wanted = False

    def __init__(
        self,
        trainable_name: str,
        *,
        number: int,
        trial_id: str,
        config: dict[str, Any],
        evaluated_params: dict[str, Any] | None = None,
        experiment_tag: str = "",
        resources: dict[str, float] | None = None,
        path: Path | None = None,
    ) -> None:
        self.trainable_name = trainable_name
        self.number = number
        self.trial_id = trial_id
        self.config = config
        #: What was chosen for it: `a/b` to value, without what is the same for all.
        self.evaluated_params = evaluated_params or {}
        self.experiment_tag = experiment_tag
        self.resources = resources or {"CPU": 1.0}
        #: Its folder, if the experiment has one.
        self.path = path
        self.status = Trial.PENDING
        self.last_result: dict[str, Any] = {}
        self._summary: Any = None
        self._analysis: dict[str, dict[str, float]] = {}
        #: The latest checkpoint; what the trial starts from when it starts again.
        self.checkpoint: Checkpoint | None = None
        #: What is kept of its checkpoints, best last.
        self.best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = []
        #: What the user's `trial_name_creator` calls it.
        self.custom_name: str | None = None
        self.num_failures = 0
        self.error: BaseException | None = None
        self.start_time: float | None = None

    def __repr__(self) -> str:
        return self.custom_name or f"{self.trainable_name}_{self.trial_id}"

    __str__ = __repr__

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Metric to {"max", "min", "avg", "last"}; numbers only, nested ones as `a/b`."""
        return self._analysis if self._summary is None else self._summary.all()

    @metric_analysis.setter
    def metric_analysis(self, analysis: dict[str, dict[str, float]]) -> None:
        self._analysis, self._summary = analysis, None

    def note_metrics(self, metrics: dict[str, Any]) -> None:
        """It has reported these."""
        if self._summary is None:
            from eagleray._native import tune as native

            self._summary = native.Summary()
        self._summary.note(metrics)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_analysis": self.metric_analysis, "_summary": None}

    def checkpoint_now(self) -> None:
        """For callbacks: a class is saved as soon as the result that is being told is dealt with. Functions report checkpoints themselves."""
        self._is_checkpoint_wanted = True

    def take_checkpoint_wish(self) -> bool:
        """Whether `checkpoint_now` was called since this was asked."""
        is_wanted, self._is_checkpoint_wanted = self._is_checkpoint_wanted, False
        return is_wanted

    def is_finished(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status in (Trial.TERMINATED, Trial.ERROR)

    @property
    def local_path(self) -> str | None:
        """Its folder."""
        return None if self.path is None else str(self.path)

    logdir = local_path
