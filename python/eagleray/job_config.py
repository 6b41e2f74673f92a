"""What a driver says about its whole job."""

from __future__ import annotations

from typing import Any

from eagleray._common.logging_config import LoggingConfig

__all__ = ["JobConfig", "LoggingConfig"]

_LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """The configuration of a job, for `init(job_config=...)`.

    Attributes:
        code_search_path: folders from which workers import, before their own.
        ray_namespace: the namespace of actors' names.
        default_actor_lifetime: the lifetime of actors that name none.
        metadata: texts by name, for people.
        runtime_env: see `eagleray.runtime_env`.
    """

    def __init__(
        self,
        code_search_path: list[str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        metadata: dict[str, str] | None = None,
        runtime_env: dict[str, Any] | None = None,
        jvm_options: list[str] | None = None,
        **_private: Any,
    ) -> None:
        """Check the values. There is no Java, so that its options mean nothing."""
        del jvm_options
        unknown = [name for name in _private if not name.startswith("_")]
        if unknown:
            raise TypeError(f"JobConfig() got an unexpected keyword argument {unknown[0]!r}")
        if isinstance(code_search_path, str):
            raise TypeError("code_search_path must be a list of folders, not one string")
        self.code_search_path = list(code_search_path or [])
        self.ray_namespace = ray_namespace
        self.metadata = dict(metadata or {})
        self.set_default_actor_lifetime(default_actor_lifetime)
        self.set_runtime_env(runtime_env)

    def set_metadata(self, key: str, value: str) -> None:
        """Note something about the job."""
        self.metadata[key] = value

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Choose the namespace of actors' names."""
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Choose how long actors live that do not say."""
        if default_actor_lifetime not in _LIFETIMES:
            raise ValueError(f"default_actor_lifetime must be one of {_LIFETIMES}, not {default_actor_lifetime!r}")
        self.default_actor_lifetime = default_actor_lifetime

    def set_runtime_env(self, runtime_env: dict[str, Any] | None, validate: bool = False) -> None:  # noqa: FBT001, FBT002
        """Choose the environment of the job's processes."""
        from eagleray.runtime_env import RuntimeEnv

        del validate  # it is checked in any case
        self.runtime_env = RuntimeEnv(**runtime_env) if runtime_env is not None else RuntimeEnv()
