"""What is known of a trial's past from its folder: results, configuration, checkpoints. Nothing here needs pandas but `frame`."""

from __future__ import annotations

import csv
import json
import math
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from eagleray.tune.trainable.trainable import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd

    from eagleray.tune._checkpoint import Checkpoint

#: The metric by which a result says which checkpoint came with it.
CHECKPOINT_DIR_NAME = "checkpoint_dir_name"


def pandas(what: str) -> Any:
    """Import pandas for `what`, or say how to get it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install 'eagleray[tune]', or pip install pandas") from error
    return pd


def is_number(value: object) -> TypeGuard[float]:
    """Whether a reported value can be compared: an int, a float or one of numpy's, but no bool."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool)
    return (
        hasattr(value, "__float__")
        and not hasattr(value, "__len__")
        and getattr(value, "ndim", 0) == 0
        and hasattr(value, "dtype")
    )


def flatten(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give `{"a/b": 1}` for `{"a": {"b": 1}}`. An empty dict stays, so that no key is lost."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{name}/"))
        else:
            flat[name] = value
    return flat


def analyse(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Sum up the numbers among results: for each metric max, min, avg, last and the means of the last 5 and 10."""
    series: dict[str, list[float]] = {}
    for row in rows:
        for key, value in flatten(row).items():
            if is_number(value) and not key.startswith("config/"):
                series.setdefault(key, []).append(float(value))
    return {key: _summary(values) for key, values in series.items()}


def _summary(values: list[float]) -> dict[str, float]:
    known = [value for value in values if not math.isnan(value)] or values
    return {
        "max": max(known),
        "min": min(known),
        "avg": mean(values),
        "last": values[-1],
        "last-5-avg": mean(values[-5:]),
        "last-10-avg": mean(values[-10:]),
    }


def mean(values: list[float]) -> float:
    """Give the mean; of infinities of both signs it is not a number."""
    return sum(values) / len(values)


class History:
    """The record of one trial: its folder, or functions that give its results and the checkpoints that it kept."""

    def __init__(
        self,
        folder: Path | str | None,
        results: Callable[[], list[dict[str, Any]]] | None = None,
        kept: Callable[[], list[tuple[Checkpoint, dict[str, Any]]]] | None = None,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self._results = results
        self._kept = kept

    def is_recorded(self) -> bool:
        """Whether there is a record at all, be it empty."""
        if self._results is not None:
            return True
        return self.folder is not None and any(
            (self.folder / name).exists() for name in ("result.json", "progress.csv")
        )

    def rows(self, file_type: str | None = None) -> list[dict[str, Any]]:
        """Give every result, oldest first. `file_type` ("json", "csv") says which file to read; by default the first that is there."""
        if self._results is not None:
            return self._results()
        if self.folder is None:
            return []
        if file_type in (None, "json"):
            try:
                text = (self.folder / "result.json").read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            rows = parse_json_lines(text)
            if rows or file_type == "json":
                return rows
        try:
            with (self.folder / "progress.csv").open(newline="", encoding="utf-8", errors="replace") as file:
                return [{key: _typed(cell) for key, cell in row.items() if key} for row in csv.DictReader(file)]
        except OSError:
            return []

    def frame(self, file_type: str | None = None) -> pd.DataFrame:
        """Give every result as a data frame; nested metrics become columns `a/b`."""
        return pandas("a data frame of results").DataFrame([flatten(row) for row in self.rows(file_type)])

    def config(self) -> dict[str, Any] | None:
        """Give the configuration as params.json has it."""
        if self.folder is None:
            return None
        try:
            found = json.loads((self.folder / "params.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """Give the checkpoints that are still there, oldest first, each with the result that it came with ({} if there is none)."""
        if self._kept is not None:
            return self._kept()
        folders = self._checkpoint_folders()
        if not folders:
            return []
        from eagleray.tune._checkpoint import Checkpoint

        rows = self.rows()
        named = {row[CHECKPOINT_DIR_NAME]: row for row in rows if row.get(CHECKPOINT_DIR_NAME)}
        numbered = {row.get("training_iteration"): row for row in rows}
        return [
            (Checkpoint(str(folder)), dict(named.get(folder.name) or numbered.get(_saved_at(folder)) or {}))
            for folder in folders
        ]

    def _checkpoint_folders(self) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        found = [path for path in self.folder.glob("checkpoint_*") if path.is_dir() and path.name[11:].isdecimal()]
        return sorted(found, key=lambda path: int(path.name[11:]))


def _saved_at(folder: Path) -> int:
    """The iteration that a class was saved after; -1 for a function's checkpoint, which came with a result."""
    try:
        counters = json.loads((folder / COUNTERS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return -1
    found = counters.get("iteration") if isinstance(counters, dict) else None
    return found if isinstance(found, int) else -1


def read_error(folder: Path) -> BaseException | None:
    """Give what ended the trial of this folder, if it failed: the error itself where it was kept, else one with its text."""
    try:
        kept = (folder / "error.pkl").read_bytes()
    except OSError:
        kept = b""
    if kept:
        # What a user's error needs may not be importable here; its text is still there.
        try:
            error = pickle.loads(kept)
        except Exception:
            error = None
        if isinstance(error, BaseException):
            return error
    try:
        text = (folder / "error.txt").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return RuntimeError(text)


def parse_json_lines(text: str) -> list[dict[str, Any]]:
    """Read one object per line. A line that is torn, as the last one of a killed program may be, is passed over."""
    rows = []
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _typed(cell: str | None) -> Any:
    if cell is None or cell == "":
        return None
    if cell in ("True", "False"):
        return cell == "True"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
