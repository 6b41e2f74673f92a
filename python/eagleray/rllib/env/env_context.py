"""What an environment is told about its place."""

from __future__ import annotations

import copy
from typing import Any


class EnvContext(dict[str, Any]):
    """The `env_config`, and beside it which runner and which of its environments this is."""

    def __init__(
        self,
        env_config: dict[str, Any] | None = None,
        worker_index: int = 0,
        vector_index: int = 0,
        remote: bool = False,  # noqa: FBT001, FBT002 - RLlib's signature
        num_workers: int | None = None,
        recreated_worker: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Keep all of it."""
        super().__init__(env_config or {})
        #: Of the runner: 0 in the main process, from 1 in others.
        self.worker_index = worker_index
        #: Of the environment in its runner.
        self.vector_index = vector_index
        #: Whether it has a process of its own.
        self.remote = remote
        #: Runners in other processes.
        self.num_workers = num_workers
        #: Whether the runner replaces one that failed.
        self.recreated_worker = recreated_worker

    def copy_with_overrides(
        self,
        env_config: dict[str, Any] | None = None,
        worker_index: int | None = None,
        vector_index: int | None = None,
        remote: bool | None = None,  # noqa: FBT001
        num_workers: int | None = None,
        recreated_worker: bool | None = None,  # noqa: FBT001
    ) -> EnvContext:
        """Give a copy with some of it otherwise."""
        return EnvContext(
            copy.deepcopy(env_config if env_config is not None else dict(self)),
            self.worker_index if worker_index is None else worker_index,
            self.vector_index if vector_index is None else vector_index,
            self.remote if remote is None else remote,
            self.num_workers if num_workers is None else num_workers,
            self.recreated_worker if recreated_worker is None else recreated_worker,
        )

    def set_defaults(self, defaults: dict[str, Any]) -> None:
        """Set what is not set yet."""
        for key, value in defaults.items():
            self.setdefault(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.worker_index, self.vector_index, self.remote, self.num_workers, self.recreated_worker)
        return (EnvContext, (dict(self), *parts))
