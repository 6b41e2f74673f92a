"""What a lease gives a worker beside its work: packages, where to import from, environment variables, GPUs, thread limits.

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
    """Write down what this driver's workers should find; `Followed.follow` takes it over there.

    Packages stand among `env_vars`: see `eagleray.runtime_env.packages`.
    """
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


def _unpacked(packages: dict[str, str]) -> tuple[str | None, list[str]]:
    """Give the folder to work in, if that is a package, and those of packages to import from."""
    if not packages:
        return None, []
    from eagleray.runtime_env import unpacking

    return unpacking.folders(packages)


class Followed:
    """What this process has been given, and what it had before."""

    def __init__(self) -> None:
        """Remember how the process started."""
        self._sys_path = list(sys.path)
        self._inherited: dict[str, str | None] = {name: os.environ.get(name) for name in (_OMP, _CUDA)}
        self._job: _native.Surroundings | None = None
        self._own: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._env_vars: dict[str, str] = {}

    def follow(self, identity: dict[str, Any]) -> None:
        """Take over what the lease in force gives."""
        job, own = identity["surroundings"], (identity["env_vars"], identity["packages"])
        if (job, own) != (self._job, self._own):
            cwd, packed = _unpacked({**job.packages, **identity["packages"]})
            if job.is_ray:
                from eagleray._alias.install import install_as_ray

                install_as_ray()
            else:
                from eagleray._alias import late

                late.listen()
            self._follow_env([*job.env_vars.items(), *identity["env_vars"].items()])
            self._follow_packages(packed)
            self._follow_folders(list(dict.fromkeys([*packed, *job.folders])))
            self._follow_cwd(cwd or job.cwd)
            # Only now: what could not be followed is tried again by the next call.
            self._job, self._own = job, own
        self._set(_CUDA, self._devices(identity["gpus"]))
        given = self._given(_OMP)
        self._set(_OMP, given if given is not None else str(max(1, identity["resources"].get("CPU", 0) // PARTS)))

    def _follow_env(self, env_vars: list[tuple[str, str]]) -> None:
        for name in self._env_vars:
            self._set(name, self._inherited[name])
        self._env_vars = {}
        for name, value in env_vars:
            # `${PATH}:/more` names what was there before; a name that nobody knows stands for nothing.
            self._give(name, _UNKNOWN.sub("", os.path.expandvars(value)))

    def _give(self, name: str, value: str) -> None:
        self._inherited.setdefault(name, os.environ.get(name))
        self._env_vars[name] = value
        self._set(name, value)

    def _follow_packages(self, folders: list[str]) -> None:
        """Let Python processes that the worker starts import what it does."""
        if folders:
            before = os.environ.get("PYTHONPATH")
            self._give("PYTHONPATH", os.pathsep.join([*folders, before] if before else folders))

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
