"""What an experiment is told: where its files go, how often it tries, what it keeps, what it searches for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagleray.tune._checks import check_whole
from eagleray.tune.error import TuneError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from eagleray.tune.callback import Callback
    from eagleray.tune.experiment.trial import Trial
    from eagleray.tune.progress_reporter import ProgressReporter


def _check_mode(name: str, mode: str | None) -> None:
    if mode not in (None, "min", "max"):
        raise ValueError(f"{name} must be 'min' or 'max', not {mode!r}")


@dataclass
class CheckpointConfig:
    """How many checkpoints of a trial are kept, and which; how often class trainables make one."""

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int | None = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.num_to_keep is not None:
            check_whole("num_to_keep", self.num_to_keep)
        if self.num_to_keep is not None and self.num_to_keep <= 0:
            raise ValueError(
                f"Received invalid num_to_keep: {self.num_to_keep}. Must be None or an integer >= 1: "
                "to keep no checkpoint, report none."
            )
        _check_mode("checkpoint_score_order", self.checkpoint_score_order)
        if self.checkpoint_frequency is not None and self.checkpoint_frequency < 0:
            raise ValueError(f"checkpoint_frequency must be >=0, got {self.checkpoint_frequency}")


@dataclass
class FailureConfig:
    """How often a trial is tried again from its last checkpoint, and whether one failure ends all."""

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        check_whole("max_failures", self.max_failures)
        if self.fail_fast not in (True, False, "raise"):
            raise ValueError(f"fail_fast must be one of {{True, False, 'raise'}}. Got {self.fail_fast}.")
        if self.fail_fast and self.max_failures != 0:
            raise ValueError("max_failures must be 0 if fail_fast is set: a failure ends the experiment then.")


@dataclass
class SyncConfig:
    """How Ray copies an experiment's files elsewhere. Here they lie on this machine, and nothing follows from it."""

    upload_dir: str | None = None
    syncer: Any = "auto"
    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    sync_on_checkpoint: bool = True

    def __post_init__(self) -> None:
        """Refuse what would be missed later."""
        if self.upload_dir is not None:
            raise TuneError(
                f"files are not copied to {self.upload_dir!r}: set `storage_path` to a folder of this machine"
            )


@dataclass
class RunConfig:
    """How an experiment runs, whatever it searches for."""

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    sync_config: Any = None
    progress_reporter: ProgressReporter | None = None
    stop: Any = None
    callbacks: list[Callback] | None = None
    verbose: int | None = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: str | None = None

    def __post_init__(self) -> None:
        """Fill in what was given as nothing."""
        for name, default in (("failure_config", FailureConfig), ("checkpoint_config", CheckpointConfig)):
            if getattr(self, name) is None:
                setattr(self, name, default())
        if self.storage_path is None:
            self.storage_path = self.local_dir


@dataclass
class TuneConfig:
    """What an experiment searches for, and how."""

    metric: str | None = None
    mode: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | dt.timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool | str = "DEPRECATED"

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        _check_mode("mode", self.mode)
