"""What the processes of a job should find: see `runtime_env.runtime_env`."""

from __future__ import annotations

from eagleray.runtime_env.runtime_env import (
    FIELDS,
    RuntimeEnv,
    RuntimeEnvConfig,
    checked_env_vars,
    of_job,
    usable,
)

__all__ = ["FIELDS", "RuntimeEnv", "RuntimeEnvConfig", "checked_env_vars", "of_job", "usable"]
