"""What a trial's function uses of Ray's Train: reporting, checkpoints, and how a run is configured."""

from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune._configs import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from eagleray.tune._session import get_checkpoint, get_context, report
from eagleray.tune.result import Result

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "SyncConfig",
    "get_checkpoint",
    "get_context",
    "report",
]
