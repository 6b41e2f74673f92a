"""Lets workers say `import ray` whose driver took that name after it had joined.

What a job's workers find is told when its driver joins. A driver that becomes Ray later leaves a file in the folder of its session, and its
workers look for that when they are about to import `ray`: a program without that import pays nothing.
"""

from __future__ import annotations

import os
import sys

from eagleray import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def _path() -> str:
    identity = _native.identity()
    return os.path.join(identity["session_dir"], f"job-{identity['job_id']}-is-ray")


def tell_workers() -> None:
    """Tell the workers of this driver, those that run already among them; without a session there is nobody to be told."""
    if _native.is_driver():
        with open(_path(), "w"):
            pass


def listen() -> None:
    """Let this worker hear of it. Repeating it changes nothing."""
    if Listening not in sys.meta_path:
        # Before what would find a Ray that is installed too.
        sys.meta_path.insert(0, Listening)


class Listening:
    """Finds `ray` once the driver of the job has taken that name."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Take the name too if the driver has."""
        # A process that the user's code forked is no worker, but knows what it has loaded.
        if fullname != "ray" or not _native.is_joined() or not os.path.exists(_path()):
            return None
        from eagleray._alias.install import Finder, install_as_ray

        install_as_ray()
        # The import that asks will put it there again; finding it there already, it would load eagleray once more.
        del sys.modules[fullname]
        return Finder().find_spec(fullname)
