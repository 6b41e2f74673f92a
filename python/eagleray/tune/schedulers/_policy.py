"""The files that tell how parameters changed while trials ran: written by PBT, read to replay one of its trials."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial


def write(trial: Trial, donor: Trial, line: list[Any]) -> None:
    """Notes an exploit: in the experiment's file, and in the trial's, which goes on from the donor's."""
    if trial.path is None:
        return
    folder = Path(trial.path).parent
    own, others = folder / f"pbt_policy_{trial.trial_id}.txt", folder / f"pbt_policy_{donor.trial_id}.txt"
    text = json.dumps(line, default=_plain) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "pbt_global.txt").open("a", encoding="utf-8") as file:
        file.write(text)
    if others.exists():
        shutil.copyfile(others, own)
    with own.open("a", encoding="utf-8") as file:
        file.write(text)


def _plain(value: Any) -> Any:
    """What JSON does not know: numbers of numpy as numbers, everything else as its text."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return item()
        except (TypeError, ValueError):
            pass
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else str(value)


def read(path: Path) -> tuple[dict[str, Any] | None, list[tuple[int, dict[str, Any]]]]:
    """The configuration that a trial's story begins with, and at which iteration it became which other."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            parsed = json.loads(line)
            _, _, _, _, _, _ = parsed
        except (TypeError, ValueError):
            raise ValueError(f"Could not read PBT policy file: {path.as_posix()}.") from None
        lines.append(parsed)
    story: list[tuple[int, dict[str, Any]]] = []
    heir = first = None
    # From the end: what the trial became, from whom, and so on back. A line of somebody else tells of what was overwritten.
    for owner, donor, _, step, old, new in reversed(lines):
        if heir is not None and owner != heir:
            break
        heir, first = donor, old
        story.append((step, new))
    return first, story[::-1]
