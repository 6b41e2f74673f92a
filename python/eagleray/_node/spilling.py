"""Where values go that the object store has no room for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from eagleray import _native
from eagleray._common.settings import from_env

# The part of a file system that is filled at most.
_FULL_AT = 0.95

# What Ray's setting may be, and where it names its folders or URLs.
_PARAMS = {"filesystem": "directory_path", "smart_open": "uri"}


def setting(config: dict[str, Any], name: str) -> Any:
    """Find a setting: in the environment, then in what was given to init()."""
    value = from_env(name)
    return config.get(name) if value is None else value


def checked_folders(given: Any, config: dict[str, Any]) -> list[Path | str] | None:
    """Find the folders and URLs that the user wants; None: a folder of the session's own. Raises ValueError if they make no sense."""
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
        raise ValueError(f"a folder for spilled objects must be a path, a URL or a list of them, got {wanted!r}")
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


def make_folders(wanted: list[Path | str] | None, session_dir: Path) -> list[str]:
    """Make a folder for this session in each; what lies outside the session's own is listed there, so that it goes with it."""
    if wanted is None:
        wanted, name = [session_dir], "spill"
    else:
        name = f"eagleray-{session_dir.name}"
    # Machines that share a bucket may start sessions in the same second, with the same process id.
    urls = {at: f"{url}/{name}-{os.urandom(4).hex()}" for at, url in enumerate(wanted) if isinstance(url, str)}
    for url in urls.values():
        _native.check_object_store(url)
    made = []
    for at, folder in enumerate(wanted):
        if isinstance(folder, str):
            (session_dir / "spill" / str(at)).mkdir(mode=0o700, parents=True)
            made.append(urls[at])
            continue
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
    if kind not in _PARAMS:
        raise ValueError(f"object_spilling_config: {kind!r} is not known here; 'filesystem' and 'smart_open' are")
    name = _PARAMS[kind]
    if not isinstance(params, dict) or not params.get(name):
        raise ValueError(f"object_spilling_config: params must have a {name}")
    return params[name]


def _checked(folder: Any) -> Path | str:
    if not isinstance(folder, (str, os.PathLike)) or not str(folder):
        raise ValueError(f"a folder for spilled objects must be a path, got {folder!r}")
    if "://" in str(folder):
        return _checked_url(str(folder))
    path = Path(folder)
    if not path.is_absolute():
        raise ValueError(f"a folder for spilled objects must be an absolute path, got {str(folder)!r}")
    if "\n" in str(path):
        raise ValueError("a folder for spilled objects must not have a line end in its name")
    return path


def _checked_url(url: str) -> Path | str:
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"cannot spill objects to a URL that is none: {error}") from error
    if "@" in parts.netloc:
        raise ValueError("a URL to spill objects to must not hold credentials: they come from the variables AWS_...")
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return _checked(unquote(parts.path) or "/")
    if parts.scheme not in ("s3", "s3a"):
        raise ValueError(f"cannot spill objects to {url!r}: s3:// and file:// are known here")
    if not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"cannot spill objects to {url!r}: it must be like s3://bucket/prefix")
    if any(part in (".", "..") or not part.isprintable() for part in parts.path.split("/")) or "//" in parts.path:
        raise ValueError(f"cannot spill objects to {url!r}: its path must be of plain names")
    return url.rstrip("/")
