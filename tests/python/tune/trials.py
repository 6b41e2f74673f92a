"""What trials of the tests do, and what they left in their files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from eagleray import tune


def rows_of(result):
    """What the trial's result.json has."""
    file = Path(result.path) / "result.json"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def iterations(result):
    return [row["training_iteration"] for row in rows_of(result)]


def save_number(number):
    """A checkpoint with one number in it."""
    folder = Path(os.getcwd()) / "made"
    folder.mkdir(exist_ok=True)
    (folder / "number").write_text(str(number))
    return tune.Checkpoint.from_directory(folder)


def number_of(checkpoint):
    return int((Path(checkpoint.path) / "number").read_text())


def start_of():
    """Where a function goes on: 0, or behind its checkpoint."""
    checkpoint = tune.get_checkpoint()
    return 0 if checkpoint is None else number_of(checkpoint)
