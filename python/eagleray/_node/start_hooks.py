"""Finds out which hook of an environment starts threads when Python starts: a `.pth` file, `sitecustomize` or `usercustomize`.

The worker launcher asks this if it finds threads in its process before it has done anything. The answer comes from another Python, which
runs the hooks once more, one by one: hence nothing of eagleray is imported here.
"""

from __future__ import annotations

import os
import site
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def guilty() -> list[str]:
    """Name the hooks that start threads, each by its file."""
    import subprocess

    # Without `site`, which is run there step by step, and without this file's folder among the paths.
    command = [sys.executable, "-S", "-P", *(["-E"] if sys.flags.ignore_environment else []), __file__]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.decode(errors="replace").splitlines()
    # A file that two folders of packages lead to, or that `site` reads twice, is still one.
    return list(dict.fromkeys(os.path.realpath(line.removeprefix(_MARK)) for line in lines if line.startswith(_MARK)))


#: Hooks print, too.
_MARK = "eagleray-hook: "


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _watched(step: Callable[..., Any], name_of: Callable[..., str]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        before = _threads()
        try:
            return step(*args)
        finally:
            if _threads() > before:
                sys.stdout.write(f"{_MARK}{name_of(*args)}\n")
                sys.stdout.flush()

    return run


def _file_of(module: str) -> Callable[[], str]:
    return lambda: str(getattr(sys.modules.get(module), "__file__", None) or module)


def main() -> None:
    """Run the hooks of this environment, and print those that start threads."""
    steps: Any = site
    steps.addpackage = _watched(steps.addpackage, lambda folder, name, _known=None: os.path.join(folder, name))
    steps.execsitecustomize = _watched(steps.execsitecustomize, _file_of("sitecustomize"))
    steps.execusercustomize = _watched(steps.execusercustomize, _file_of("usercustomize"))
    site.main()
    # A thread of a hook's must not hold the end up.
    os._exit(0)


if __name__ == "__main__":
    main()
