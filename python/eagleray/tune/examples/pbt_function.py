"""A function whose best learning rate moves while it is trained: what population based training is good at."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from eagleray import tune

#: The accuracy at which the best learning rate is half way back down.
_MIDWAY, _LAST = 100.0, 200.0


def pbt_function(config: dict[str, Any]) -> None:
    """Trains until the trial is ended. The best `lr` rises with the accuracy to 0.1, and falls after half of the way."""
    accuracy, step = 0.0, 1
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = json.loads((Path(folder) / "checkpoint.json").read_text())
        accuracy, step = saved["acc"], saved["step"] + 1
    chance = random.Random(step)
    while True:
        best = 0.1 * accuracy / _MIDWAY if accuracy < _MIDWAY else 0.1 * max(_LAST - accuracy, 0.0) / _MIDWAY
        best = max(best, 0.001)
        # At most a step of one, the less the farther off the rate is, and lost where it is ten times too large or small.
        off = max(config["lr"] / best, best / config["lr"])
        accuracy += 1.0 / off if off < 10 else -chance.random()
        accuracy = max(accuracy, 0.0)
        metrics = {
            "mean_accuracy": accuracy,
            "cur_lr": config["lr"],
            "optimal_lr": best,
            "q_err": off,
            "done": accuracy > _LAST,
        }
        if step % config.get("checkpoint_interval", 1) == 0:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "checkpoint.json").write_text(json.dumps({"acc": accuracy, "step": step}))
                tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))
        else:
            tune.report(metrics)
        step += 1
