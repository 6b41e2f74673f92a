"""An experiment as the engine takes it, whichever of the two APIs it came by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagleray.tune._configs import CheckpointConfig, FailureConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from eagleray.tune.execution.placement_groups import PlacementGroupFactory
    from eagleray.tune.experiment.trial import Trial


@dataclass
class Plan:
    """What is run, what is searched for, what stops it, where its files go."""

    trainable: Any
    trainable_name: str
    is_class: bool
    search_alg: Any
    scheduler: Any
    #: Its folder.
    folder: Path
    resources: Callable[[dict[str, Any]], PlacementGroupFactory]
    #: Whether the user chose its name. Another one is taken in place of ours where that is in use.
    is_named: bool = True
    param_space: dict[str, Any] = field(default_factory=dict)
    num_samples: int = 1
    metric: str | None = None
    mode: str | None = None
    stopper: Any = None
    callbacks: list[Any] = field(default_factory=list)
    reporter: Any = None
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    failure: FailureConfig = field(default_factory=FailureConfig)
    max_concurrent: int | None = None
    time_budget_s: float | None = None
    reuse: bool = True
    verbose: int = 1
    log_to_file: tuple[str, str] | None = None
    trial_name: Callable[[Trial], str] | None = None
    trial_dirname: Callable[[Trial], str] | None = None
    #: Where all trials begin from.
    restore_from: str | None = None
    #: What can be made again from a restored experiment's folder.
    spec: bytes | None = None

    @property
    def name(self) -> str:
        """The experiment's."""
        return self.folder.name
