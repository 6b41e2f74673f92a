"""What a lease gives a worker beside its work: where to import from, environment variables, GPUs, thread limits.

One worker serves leases of many kinds in turn. Each lease finds what it should see, and nothing of the one before.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from eagleray._common.amounts import PARTS
from eagleray._common.settings import is_on

#: Marks in the list of import paths that a driver sends along with its folders.
CWD = "cwd:"
ENV = "env:"
#: What the lease itself asked for, over what the driver did; the node writes it.
OWN_ENV = "own:"
#: The driver says `ray` and means eagleray.
AS_RAY = "as:ray"
#: Actors of the job that name no lifetime outlive it.
DETACHED = "actors:detached"

_UNKNOWN = re.compile(r"\$\{\w+\}")

_OMP = "OMP_NUM_THREADS"
_CUDA = "CUDA_VISIBLE_DEVICES"


def paths_of(folders: list[str], cwd: str, env_vars: dict[str, str]) -> list[str]:
    """Write down what a driver's workers should see; `Surroundings.follow` reads it."""
    install = sys.modules.get("eagleray._alias.install")
    marks = [AS_RAY] if install is not None and install.is_installed() else []
    return [*folders, CWD + cwd, *(f"{ENV}{name}={value}" for name, value in env_vars.items()), *marks]


def env_vars_of(paths: list[str]) -> dict[str, str]:
    """Find the environment variables of a job and, over them, of a lease."""
    marked = [path[len(mark) :] for mark in (ENV, OWN_ENV) for path in paths if path.startswith(mark)]
    return dict(line.split("=", 1) for line in marked)


class Surroundings:
    """What this process has been given, and what it had before."""

    def __init__(self) -> None:
        """Remember how the process started."""
        self._sys_path = list(sys.path)
        self._inherited: dict[str, str | None] = {name: os.environ.get(name) for name in (_OMP, _CUDA)}
        self._paths: tuple[str, ...] = ()
        self._env_vars: dict[str, str] = {}

    def follow(self, identity: dict[str, Any]) -> None:
        """Take over what the lease in force gives."""
        wanted = tuple(identity["paths"])
        if wanted and wanted != self._paths:
            self._paths = wanted
            if AS_RAY in wanted:
                from eagleray._alias.install import install_as_ray

                install_as_ray()
            self._follow_env([path[len(mark) :] for mark in (ENV, OWN_ENV) for path in wanted if path.startswith(mark)])
            self._follow_paths([path for path in wanted if not path.startswith((CWD, ENV, OWN_ENV, AS_RAY, DETACHED))])
            self._follow_cwd([path[len(CWD) :] for path in wanted if path.startswith(CWD)])
        self._set(_CUDA, self._devices(identity["gpus"]))
        own = self._given(_OMP)
        self._set(_OMP, own if own is not None else str(max(1, identity["resources"].get("CPU", 0) // PARTS)))

    def _follow_env(self, lines: list[str]) -> None:
        for name in self._env_vars:
            self._set(name, self._inherited[name])
        self._env_vars = {}
        for name, value in (line.split("=", 1) for line in lines):
            self._inherited.setdefault(name, os.environ.get(name))
            # `${PATH}:/more` names what was there before; a name that nobody knows stands for nothing.
            self._env_vars[name] = _UNKNOWN.sub("", os.path.expandvars(value))
            self._set(name, self._env_vars[name])

    def _follow_paths(self, folders: list[str]) -> None:
        import importlib

        known = set(folders)
        sys.path[:] = folders + [path for path in self._sys_path if path not in known]
        importlib.invalidate_caches()

    def _follow_cwd(self, folders: list[str]) -> None:
        for folder in folders:
            try:
                os.chdir(folder)
            except OSError:
                continue  # removed since: what needs it will say so

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
