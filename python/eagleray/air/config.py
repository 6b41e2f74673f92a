"""Names of Ray's AIR that programs still import."""

from eagleray.tune._configs import CheckpointConfig, FailureConfig, RunConfig

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig"]
