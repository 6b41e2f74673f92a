"""Names of Ray's AIR that programs still import."""

from eagleray.tune._session import (
    get_checkpoint,
    get_trial_dir,
    get_trial_id,
    get_trial_name,
    get_trial_resources,
    report,
)

__all__ = ["get_checkpoint", "get_trial_dir", "get_trial_id", "get_trial_name", "get_trial_resources", "report"]
