"""What functions that make an input are told, and what they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig


@dataclass
class IOContext:
    """Which runner an input is for: `offline_data(input_=lambda ioctx: ...)`."""

    config: AlgorithmConfig
    worker_index: int = 0
    worker: Any = None
    log_dir: str | None = None

    @property
    def num_workers(self) -> int:
        """Runners in other processes."""
        return int(self.config.num_env_runners)


class InputReader:
    """Subclass it: `next` gives batches of steps as columns, `{"obs": ..., "actions": ..., "rewards": ..., "new_obs": ..., "dones": ...}`."""

    def next(self) -> dict[str, Any]:
        """The next batch. There is always one more."""
        raise NotImplementedError
