"""The checkpoints of one trial: which are kept, where they lie, what goes.

`fallen` decides, and touches nothing. `persist` and `Checkpoints` do what was decided.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune.metrics import look_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What half-copied folders are called: a crash leaves at most one of them, and the next checkpoint removes it.
_PART = ".part"


@dataclass(frozen=True)
class Rule:
    """How many are kept, and by what."""

    #: None keeps all.
    num_to_keep: int | None = None
    #: A metric, nested as `a/b`; without one, newer is better.
    attribute: str | None = None
    #: Whether more of it is better.
    is_max: bool = True

    @classmethod
    def of(cls, config: Any) -> Rule:
        """Read a `CheckpointConfig`, or anything with its fields. A metric that begins with `min-` is of the old API."""
        attribute = getattr(config, "checkpoint_score_attribute", None)
        is_max = (getattr(config, "checkpoint_score_order", None) or "max") == "max"
        if isinstance(attribute, str) and attribute.startswith("min-"):
            attribute, is_max = attribute.removeprefix("min-"), False
        return cls(getattr(config, "num_to_keep", None), attribute, is_max)


@dataclass(frozen=True)
class Kept:
    """One checkpoint."""

    #: Its place in the order in which they came.
    order: int
    path: str
    metrics: dict[str, Any] = field(default_factory=dict, compare=False)


def score(metrics: Mapping[str, Any], rule: Rule) -> float:
    """Say how good a checkpoint with these metrics is: more is better; one without the metric, or with nan, is the worst."""
    if rule.attribute is None:
        return 0.0
    try:
        number = float(look_up(metrics, rule.attribute))
    except (TypeError, ValueError):
        return -math.inf
    if math.isnan(number):
        return -math.inf
    return number if rule.is_max else -number


def ranked(kept: Sequence[Kept], rule: Rule) -> list[Kept]:
    """Sort them, best last; of equals the newer is better. What has no score is worse than what has the worst."""

    def key(one: Kept) -> tuple[bool, float, int]:
        number = score(one.metrics, rule)
        return number != -math.inf, number, one.order

    return sorted(kept, key=key)


def fallen(kept: Sequence[Kept], rule: Rule) -> list[Kept]:
    """Say which of them go, worst first. The latest stays: the trial goes on from it, should it fail."""
    if rule.num_to_keep is None or not kept:
        return []
    latest = max(kept, key=lambda one: one.order)
    best = ranked(kept, rule)[-max(rule.num_to_keep, 1) :]
    return [one for one in ranked(kept, rule) if one not in best and one is not latest]


def folder_name(number: int) -> str:
    """Give the name of the checkpoint of this number."""
    return f"checkpoint_{number:06d}"


def persist(source: str | os.PathLike[str], folder: str | os.PathLike[str], number: int) -> str:
    """Bring the user's folder into the trial's as its checkpoint of this number, whole or not at all. Returns where it is.

    A folder that is there already under that name is replaced: it is of a run that was cut short before it was counted.
    """
    source, target = Path(source), Path(folder) / folder_name(number)
    if not source.is_dir():
        raise ValueError(f"the checkpoint {source} is not a folder")
    if _is_same(source, target):
        return str(target)
    Path(folder).mkdir(parents=True, exist_ok=True)
    part = part_of(target)
    _remove(part)
    shutil.copytree(source, part, symlinks=True)
    put_in_place(part, target)
    return str(target)


def part_of(target: Path) -> Path:
    """Give where a checkpoint lies while it is written."""
    return target.with_name(target.name + _PART)


def put_in_place(part: Path, target: Path) -> None:
    """Give a folder that is whole its name."""
    if target.exists():
        # A folder cannot be replaced by another in one step; what is in the way goes first.
        _remove(target)
    os.rename(part, target)


class Checkpoints:
    """Keeps a trial's checkpoints by a rule, and removes the others from the disk."""

    def __init__(self, config: Any = None) -> None:
        self._rule = config if isinstance(config, Rule) else Rule.of(config)
        self._kept: list[Kept] = []
        self._added = 0
        self._held: Counter[str] = Counter()
        #: The number that the next one gets.
        self.next_number = 0

    def add(self, path: str | os.PathLike[str], metrics: dict[str, Any], *, sweep: bool = True) -> list[str]:
        """Count a checkpoint that lies in this folder, and remove what is no longer kept. Returns what was removed."""
        path = os.fspath(path)
        self.count(os.path.basename(path))
        self._kept = [one for one in self._kept if one.path != path]
        self._kept.append(Kept(self._added, path, metrics))
        self._added += 1
        return self.sweep() if sweep else []

    def hold(self, path: str | os.PathLike[str]) -> None:
        """Keep this one whatever comes, until as many `let_go` were said of it: another trial goes on from it."""
        self._held[os.fspath(path)] += 1

    def let_go(self, path: str | os.PathLike[str]) -> list[str]:
        """Take a `hold` back. Returns what was removed."""
        self._held[os.fspath(path)] -= 1
        return self.sweep()

    def sweep(self) -> list[str]:
        """Remove what is no longer kept. Returns what was removed."""
        gone = [one for one in fallen(self._kept, self._rule) if self._held[one.path] <= 0]
        for one in gone:
            self._kept.remove(one)
            _remove(Path(one.path))
        return [one.path for one in gone]

    def count(self, name: str) -> None:
        """No later checkpoint gets the number of this one, wherever it is now."""
        found = re.fullmatch(r"checkpoint_(\d+)", name)
        if found is not None:
            self.next_number = max(self.next_number, int(found[1]) + 1)

    def best(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """Give what is kept and what was reported with it, best last."""
        return [(Checkpoint(one.path), one.metrics) for one in ranked(self._kept, self._rule)]

    def best_checkpoint(self) -> Checkpoint | None:
        """Give the best of them."""
        kept = ranked(self._kept, self._rule)
        return Checkpoint(kept[-1].path) if kept else None

    def latest(self) -> Checkpoint | None:
        """Give the one that the trial goes on from."""
        return Checkpoint(self._kept[-1].path) if self._kept else None

    def metrics_of(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Give what was reported with the checkpoint in this folder."""
        path = os.fspath(path)
        return next((one.metrics for one in self._kept if one.path == path), None)


def _is_same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return False


def _remove(path: Path) -> None:
    """A folder that goes first gets another name: nobody finds half of it under its own."""
    if not path.exists():
        return
    going = path.with_name(f".{path.name}.going")
    shutil.rmtree(going, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rename(path, going)
        path = going
    shutil.rmtree(path, ignore_errors=True)
