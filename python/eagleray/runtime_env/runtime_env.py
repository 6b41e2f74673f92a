"""What the processes of a job should find: `RuntimeEnv` is a dict whose values are checked when it is made.

Of its fields, `env_vars`, `working_dir` and `py_modules` are put to work today, of a whole job and of single tasks and actors. The others
are refused where they are used: a program that runs without what it asked for fails later, and nobody knows why.
"""

from __future__ import annotations

from typing import Any

from eagleray.runtime_env import sources

#: Fields that programs may give.
FIELDS = (
    "py_modules",
    "py_executable",
    "working_dir",
    "excludes",
    "pip",
    "uv",
    "conda",
    "container",
    "image_uri",
    "env_vars",
    "worker_process_setup_hook",
    "nsight",
    "config",
)

#: Fields that would change something and cannot yet: what to do instead.
_NOT_YET = {
    "py_executable": "workers use the interpreter that the node was started with",
    "pip": "install the packages into the environment that the node was started from",
    "uv": "install the packages into the environment that the node was started from",
    "conda": "start the node from inside that environment",
    "container": "start the node inside that container",
    "image_uri": "start the node inside that image",
    "worker_process_setup_hook": "call the hook at the beginning of the task, or in the actor's constructor",
    "nsight": "start the program under the profiler yourself",
}

_SETUP_SECONDS_MAX = 600


class RuntimeEnvConfig(dict[str, Any]):
    """How an environment is set up: how long that may take, and whether it starts before anyone asks."""

    def __init__(
        self,
        setup_timeout_seconds: Any = _SETUP_SECONDS_MAX,
        eager_install: Any = True,  # noqa: FBT002
        log_files: list[str] | None = None,
    ) -> None:
        """Check the values."""
        if not isinstance(setup_timeout_seconds, int) or isinstance(setup_timeout_seconds, bool):
            raise TypeError(f"setup_timeout_seconds must be an int, got {type(setup_timeout_seconds)}")
        if setup_timeout_seconds < -1 or setup_timeout_seconds == 0:
            raise ValueError(f"setup_timeout_seconds must be positive, or -1 for no limit, got {setup_timeout_seconds}")
        if not isinstance(eager_install, bool):
            raise TypeError(f"eager_install must be a bool, got {type(eager_install)}")
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds, eager_install=eager_install, log_files=log_files or []
        )


class RuntimeEnv(dict[str, Any]):
    """The environment of a job, as keywords or as the dict that `init` takes."""

    def __init__(self, **fields: Any) -> None:
        """Check the fields; those that are None count as not given."""
        given = {name: value for name, value in fields.items() if value is not None}
        unknown = sorted(name for name in given if name not in FIELDS and not name.startswith("_"))
        if unknown:
            raise ValueError(f"Unknown fields of a runtime_env: {', '.join(unknown)}. Valid ones are {list(FIELDS)}.")
        if "env_vars" in given:
            given["env_vars"] = checked_env_vars(given["env_vars"])
        sources.check(given)
        config = given.get("config")
        if config is not None and not isinstance(config, RuntimeEnvConfig):
            given["config"] = RuntimeEnvConfig(**config)
        super().__init__(given)

    def to_dict(self) -> dict[str, Any]:
        """Give a plain dict."""
        return dict(self)

    def env_vars(self) -> dict[str, str]:
        """Give the environment variables."""
        return dict(self.get("env_vars", {}))

    def working_dir(self) -> str | None:
        """Give the folder to work in."""
        given = self.get("working_dir")
        return None if given is None else str(given)

    def py_modules(self) -> list[Any] | None:
        """Give what is to be imported from elsewhere."""
        given = self.get("py_modules")
        return None if given is None else list(given)


def checked_env_vars(given: Any) -> dict[str, str]:
    """Check that environment variables are texts by name."""
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env['env_vars'] must be of type Dict[str, str], got {type(given)}")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(
                f"runtime_env['env_vars'] must be of type Dict[str, str], but it contains {name!r}: {value!r}"
            )
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} cannot be the name of an environment variable")
    return dict(given)


def usable(given: Any) -> RuntimeEnv:
    """Check what a job, task or actor gives, and refuse what nothing here would follow."""
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env must be a dict or a RuntimeEnv, got {type(given)}")
    checked = RuntimeEnv(**given)
    for name, advice in _NOT_YET.items():
        # An empty container is one, an empty list of packages is none.
        if checked.get(name) or checked.get(name) == {}:
            raise NotImplementedError(f"runtime_env[{name!r}] is not available in this version; {advice}.")
    return RuntimeEnv(**sources.found(checked))


def of_job(*given: Any) -> RuntimeEnv:
    """Merge what `init` and its job configuration say: the last wins, except that env_vars are merged by name."""
    merged: dict[str, Any] = {}
    for one in given:
        if one is None:
            continue
        if not isinstance(one, dict):
            raise TypeError(f"runtime_env must be a dict or a RuntimeEnv, got {type(one)}")
        env_vars = {**merged.get("env_vars", {}), **checked_env_vars(one.get("env_vars") or {})}
        merged = {**merged, **one, **({"env_vars": env_vars} if env_vars else {})}
    return usable(merged)
