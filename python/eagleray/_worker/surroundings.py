"""What a lease gives a worker beside its work: where to import from, environment variables, GPUs, thread limits.

One worker serves leases of many kinds in turn. Each lease finds what it should see, and nothing of the one before.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from eagleray import _native
from eagleray._common.amounts import PARTS
from eagleray._common.settings import is_on

_UNKNOWN = re.compile(r"\$\{\w+\}")

_OMP = "OMP_NUM_THREADS"
_CUDA = "CUDA_VISIBLE_DEVICES"


def of_driver(folders: list[str], env_vars: dict[str, str], *, detaches_actors: bool) -> _native.Surroundings:
    """Write down what this driver's workers should find; `Followed.follow` takes it over there."""
    install = sys.modules.get("eagleray._alias.install")
    return _native.Surroundings(
        folders=folders,
        cwd=os.getcwd(),
        env_vars=env_vars,
        is_ray=install is not None and install.is_installed(),
        detaches_actors=detaches_actors,
    )


def of_job() -> _native.Surroundings:
    """Say what the job of this process finds, in its driver and in its workers."""
    if _native.is_driver():
        from eagleray._driver.session import SESSION

        assert SESSION.surroundings is not None, "a driver has said what its workers find before it joined"
        return SESSION.surroundings
    return _native.identity()["surroundings"]  # type: ignore[no-any-return]


class Followed:
    """What this process has been given, and what it had before."""

    def __init__(self) -> None:
        """Remember how the process started."""
        self._sys_path = list(sys.path)
        self._inherited: dict[str, str | None] = {name: os.environ.get(name) for name in (_OMP, _CUDA)}
        self._job: _native.Surroundings | None = None
        self._own: dict[str, str] = {}
        self._env_vars: dict[str, str] = {}

    def follow(self, identity: dict[str, Any]) -> None:
        """Take over what the lease in force gives."""
        job, own = identity["surroundings"], identity["env_vars"]
        if (job, own) != (self._job, self._own):
            self._job, self._own = job, own
            if job.is_ray:
                from eagleray._alias.install import install_as_ray

                install_as_ray()
            else:
                from eagleray._alias import late

                late.listen()
            self._follow_env([*job.env_vars.items(), *own.items()])
            self._follow_folders(job.folders)
            self._follow_cwd(job.cwd)
        self._set(_CUDA, self._devices(identity["gpus"]))
        given = self._given(_OMP)
        self._set(_OMP, given if given is not None else str(max(1, identity["resources"].get("CPU", 0) // PARTS)))

    def _follow_env(self, env_vars: list[tuple[str, str]]) -> None:
        for name in self._env_vars:
            self._set(name, self._inherited[name])
        self._env_vars = {}
        for name, value in env_vars:
            self._inherited.setdefault(name, os.environ.get(name))
            # `${PATH}:/more` names what was there before; a name that nobody knows stands for nothing.
            self._env_vars[name] = _UNKNOWN.sub("", os.path.expandvars(value))
            self._set(name, self._env_vars[name])

    def _follow_folders(self, folders: list[str]) -> None:
        import importlib

        known = set(folders)
        sys.path[:] = folders + [path for path in self._sys_path if path not in known]
        importlib.invalidate_caches()

    def _follow_cwd(self, folder: str) -> None:
        import contextlib

        # Removed since: what needs it will say so.
        with contextlib.suppress(OSError):
            os.chdir(folder)

    def _devices(self, gpus: list[str]) -> str | None:
        if gpus:
            return ",".join(gpus)
        if is_on("ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", default=False):
            return ""
        return self._given(_CUDA)

    def _given(self, name: str) -> str | None:
        return self._env_vars.get(name, self._inherited[name])

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value
