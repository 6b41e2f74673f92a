"""Where packages come from: the paths and modules that programs give as `working_dir` and `py_modules`."""

from __future__ import annotations

import os
import re
import types
from pathlib import Path
from typing import Any

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def check(given: dict[str, Any]) -> None:
    """Check what kinds of things are given."""
    folder = given.get("working_dir")
    if folder is not None and not isinstance(folder, (str, Path)):
        raise TypeError(
            f"runtime_env['working_dir'] must be a str or Path, a folder or a zip package, got {type(folder)}"
        )
    modules = given.get("py_modules")
    if modules is not None and not isinstance(modules, (list, tuple)):
        raise TypeError(f"runtime_env['py_modules'] must be a list of paths and modules, got {type(modules)}")
    for module in modules or ():
        if not isinstance(module, (str, Path, types.ModuleType)):
            raise TypeError(
                f"runtime_env['py_modules'] must be a list of paths and modules, but it contains {module!r}"
            )
    excludes = given.get("excludes")
    if excludes is not None and not (
        isinstance(excludes, (list, tuple)) and all(isinstance(one, str) for one in excludes)
    ):
        raise TypeError(f"runtime_env['excludes'] must be of type List[str], got {excludes!r}")


def found(given: dict[str, Any]) -> dict[str, Any]:
    """Make absolute paths of them: the program may change its folder until they are packed. Whether they exist is seen then."""
    fields = dict(given)
    if fields.get("working_dir"):
        fields["working_dir"] = _path(fields["working_dir"], "working_dir")
    if fields.get("py_modules"):
        fields["py_modules"] = [
            _of_module(one) if isinstance(one, types.ModuleType) else _path(one, "py_modules")
            for one in fields["py_modules"]
        ]
    return fields


def _path(given: str | Path, field: str) -> str:
    uri = _URI.match(str(given))
    if uri is None:
        return os.path.abspath(os.path.expanduser(given))
    if uri[1] == "file":
        from urllib.parse import unquote, urlparse

        return os.path.abspath(unquote(urlparse(str(given)).path))
    from eagleray.runtime_env.packages import URI

    if URI.fullmatch(str(given)):
        return str(given)
    raise NotImplementedError(
        f"runtime_env[{field!r}]: {given} is not available in this version, nor are other remote URIs. Download it, and give the path "
        "of the folder or .zip file: it is sent to all nodes."
    )


def _of_module(module: types.ModuleType) -> str:
    folders = list(getattr(module, "__path__", ()))
    file = getattr(module, "__file__", None)
    if len(folders) == 1:
        return os.path.abspath(str(folders[0]))
    if not folders and file is not None:
        return os.path.abspath(str(file))
    raise ValueError(f"runtime_env['py_modules']: {module} has no single file or folder that could be sent to workers")
