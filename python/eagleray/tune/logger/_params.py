"""Files with a trial's configuration, and with what ended it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from eagleray import cloudpickle


def write_params(folder: str | Path, config: dict[str, Any]) -> None:
    """Write params.json, where anything that JSON does not know is a text, and params.pkl, where it is what it was."""
    text = json.dumps(config, indent=2, sort_keys=False, default=_plain, skipkeys=False)
    _write(Path(folder) / "params.json", text.encode())
    try:
        pickled = cloudpickle.dumps(config)
    except Exception:
        # A configuration that cannot be pickled has run nevertheless; params.json has what can be told of it.
        return
    _write(Path(folder) / "params.pkl", pickled)


def write_error(folder: str | Path, error: BaseException, text: str) -> None:
    """Append to error.txt what has gone wrong now, and leave the exception itself in error.pkl."""
    when = time.strftime("%Y-%m-%d_%H-%M-%S")
    with (Path(folder) / "error.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"Failure at {when}\n{text.rstrip()}\n")
    try:
        pickled = cloudpickle.dumps(error)
        cloudpickle.loads(pickled)
    except Exception:
        # Not every exception survives it; its text is in error.txt.
        pickled = cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    _write(Path(folder) / "error.pkl", pickled)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _plain(value: Any) -> Any:
    tolist = getattr(value, "tolist", None)
    if callable(tolist) and type(value).__module__ == "numpy":
        return tolist()
    return str(value)
