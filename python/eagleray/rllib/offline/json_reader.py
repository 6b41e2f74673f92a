"""Batches of steps from lines of JSON: files, folders of them, patterns."""

from __future__ import annotations

import glob
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.rllib.offline.io_context import InputReader

if TYPE_CHECKING:
    from collections.abc import Iterator


class JsonReader(InputReader):
    """Reads over and over, in another order of files each time."""

    def __init__(self, inputs: str | Path | list[str | Path], ioctx: Any = None, *, seed: int | None = None) -> None:
        """Find the files."""
        self._files = _files(inputs)
        self._chance = random.Random(seed)
        self._lines = self._cycle()

    def next(self) -> dict[str, Any]:
        """The next batch."""
        return next(self._lines)

    def _cycle(self) -> Iterator[dict[str, Any]]:
        while True:
            self._chance.shuffle(self._files)
            is_empty = True
            for file in self._files:
                with file.open() as lines:
                    for number, line in enumerate(lines, 1):
                        if line.strip():
                            is_empty = False
                            yield _read(line, f"{file}, line {number}")
            if is_empty:
                raise ValueError(f"there is no batch in {', '.join(map(str, self._files))}")


def _read(line: str, where: str) -> dict[str, Any]:
    try:
        batch = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: no JSON, or cut off: {error}") from None
    if not isinstance(batch, dict):
        raise ValueError(f"{where}: must be an object with columns, not {type(batch).__name__}")
    if batch.get("type") == "MultiAgentBatch":
        raise ValueError(f"{where}: batches of several agents cannot be read; write those of one policy")
    return batch | {"__where__": where}


def _files(inputs: str | Path | list[str | Path]) -> list[Path]:
    found: list[Path] = []
    for one in inputs if isinstance(inputs, list | tuple) else [inputs]:
        path = Path(one).expanduser()
        if path.is_dir():
            here = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
        elif path.is_file():
            here = [path]
        else:
            here = sorted(map(Path, glob.glob(str(path))))
        if not here:
            raise ValueError(f"`input_` names {str(one)!r}, where there are no files with batches (*.json)")
        found += here
    return found
