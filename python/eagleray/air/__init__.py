"""Names of Ray's AIR that programs still import."""

from eagleray.air import config, session
from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune._configs import CheckpointConfig, FailureConfig, RunConfig
from eagleray.tune.result import Result

__all__ = ["Checkpoint", "CheckpointConfig", "FailureConfig", "Result", "RunConfig", "config", "session"]
