"""Where values go that the object store has no room for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from eagleray._settings import from_env

# The part of a file system that is filled at most.
_FULL_AT = 0.95


def setting(config: dict[str, Any], name: str) -> Any:
    """Find a setting: in the environment, then in what was given to init()."""
    value = from_env(name)
    return config.get(name) if value is None else value


def checked_folders(given: Any, config: dict[str, Any]) -> list[Path] | None:
    """Find the folders that the user wants; None: one of the session's own. Raises ValueError if they make no sense."""
    if str(setting(config, "automatic_object_spilling_enabled")).lower() in ("0", "false"):
        return []
    wanted = given
    if wanted is None:
        wanted = setting(config, "object_spilling_directory")
    if wanted is None:
        wanted = _from_json(setting(config, "object_spilling_config"))
    if wanted is None:
        return None
    folders = [wanted] if isinstance(wanted, (str, os.PathLike)) else wanted
    if not isinstance(folders, list) or not folders:
        raise ValueError(f"a folder for spilled objects must be a path or a list of paths, got {wanted!r}")
    return [_checked(folder) for folder in folders]


def checked_limit(config: dict[str, Any]) -> int:
    """Say to how many thousandths a file system may be filled."""
    limit = setting(config, "local_fs_capacity_threshold")
    try:
        part = _FULL_AT if limit is None else float(limit)
    except ValueError:
        part = -1.0
    if not 0.0 <= part <= 1.0:
        raise ValueError(f"local_fs_capacity_threshold must be a number from 0 to 1, got {limit!r}")
    return round(part * 1000)


def make_folders(wanted: list[Path] | None, session_dir: Path) -> list[str]:
    """Make a folder for this session in each; what lies outside the session's own is listed there, so that it goes with it."""
    if wanted is None:
        wanted, name = [session_dir], "spill"
    else:
        name = f"eagleray-{session_dir.name}"
    made = []
    for folder in wanted:
        try:
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cannot spill objects to {str(folder)!r}: {error}") from error
        made.append(str(folder / name))
    (session_dir / "folders").write_text("".join(f"{folder}\n" for folder in made))
    return made


def _from_json(text: Any) -> Any:
    if not text:
        return None
    import json

    try:
        config = json.loads(text) if isinstance(text, str) else text
        kind, params = config["type"], config.get("params", {})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"object_spilling_config must be JSON with a type and params, got {text!r}") from error
    if kind != "filesystem":
        raise ValueError(f"object_spilling_config: {kind!r} is not known here; 'filesystem' is")
    if not params.get("directory_path"):
        raise ValueError("object_spilling_config: params must have a directory_path")
    return params["directory_path"]


def _checked(folder: Any) -> Path:
    if not isinstance(folder, (str, os.PathLike)) or not str(folder):
        raise ValueError(f"a folder for spilled objects must be a path, got {folder!r}")
    path = Path(folder)
    if "://" in str(folder):
        raise ValueError(f"cannot spill objects to {str(folder)!r}: only folders of this machine are known here")
    if not path.is_absolute():
        raise ValueError(f"a folder for spilled objects must be an absolute path, got {str(folder)!r}")
    if "\n" in str(path):
        raise ValueError("a folder for spilled objects must not have a line end in its name")
    return path
