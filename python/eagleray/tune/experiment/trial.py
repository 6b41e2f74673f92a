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
        #: Metric to {"max", "min", "avg", "last"}; numbers only, nested ones as `a/b`.
        self.metric_analysis: dict[str, dict[str, float]] = {}
        #: The latest checkpoint; what the trial starts from when it starts again.
        self.checkpoint: Checkpoint | None = None
        #: What is kept of its checkpoints, best last.
        self.best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = []
        #: The counters of a checkpoint that another trial made, if it goes on from one.
        self.restored_at: dict[str, Any] = {}
        #: What the user's `trial_name_creator` calls it.
        self.custom_name: str | None = None
        self.num_failures = 0
        self.error: BaseException | None = None
        self.start_time: float | None = None

    def __repr__(self) -> str:
        return self.custom_name or f"{self.trainable_name}_{self.trial_id}"

    __str__ = __repr__

    def is_finished(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status in (Trial.TERMINATED, Trial.ERROR)

    @property
    def local_path(self) -> str | None:
        """Its folder."""
        return None if self.path is None else str(self.path)

    logdir = local_path
