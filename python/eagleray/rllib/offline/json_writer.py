"""Batches of steps as lines of JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import IO, Any

#: A file that is larger than this is closed, and the next batch begins another.
FILE_BYTES_MAX = 64 * 1024 * 1024


class JsonWriter:
    """Writes to files of its own in a folder; runners share the folder."""

    def __init__(self, path: str, *, max_file_size: int = FILE_BYTES_MAX, worker_index: int = 0) -> None:
        """Make the folder. The first file is made with the first batch."""
        self._folder = Path(path).expanduser().absolute()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"`output` must be a folder that can be written to: {path}: {error.strerror}") from None
        self._bytes_max = max_file_size
        self._worker = worker_index
        self._file: IO[str] | None = None
        self._count = 0

    def write(self, batch: dict[str, Any]) -> None:
        """Writes one batch: a line, whole once this returns."""
        if self._file is None:
            stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
            # A time may come twice; the number and the process's clock tell two files apart.
            name = f"output-{stamp}_worker-{self._worker}_{self._count}-{time.time_ns() % 10**9}.json"
            self._file = (self._folder / name).open("x")
            self._count += 1
        self._file.write(json.dumps(batch) + "\n")
        self._file.flush()
        if self._file.tell() >= self._bytes_max:
            self.close()

    def close(self) -> None:
        """Ends the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
