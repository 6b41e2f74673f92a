"""A trial as a class: set up once, stepped until it is told to stop, saved and restored in between."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

#: Where a class trainable's own counters lie in a checkpoint.
COUNTERS = ".tune_metadata"
#: What a `save_checkpoint` that returns a dictionary has said.
_DICT = "_dict_checkpoint.pkl"


class Trainable:
    """Subclass it: `setup(config)`, `step()` returning a dictionary, `save_checkpoint(dir)`, `load_checkpoint(dir)`.

    The names of older programs (`_setup`, `_train`, `_save`, `_restore`, `_stop`) work as well.
    """

    def __init__(self, config: dict[str, Any] | None = None, logger_creator: Any = None, storage: Any = None) -> None:
        """Set the trainable up with its configuration."""
        self.config: dict[str, Any] = config or {}
        self.trial_id = str(self.config.pop("__trial_id__", "")) or "default"
        self.trial_name = str(self.config.pop("__trial_name__", "")) or self.trial_id
        self._logdir: str | None = self.config.pop("__trial_dir__", None)
        self._iteration = 0
        self._time_total = 0.0
        self._timesteps_total: int | None = None
        self._episodes_total: int | None = None
        self._iterations_since_restore = 0
        self._time_since_restore = 0.0
        self._is_stopped = False
        self.setup(self.config)

    # What subclasses write.

    def setup(self, config: dict[str, Any]) -> None:
        """Build what the trial needs. Called once, before the first step."""
        old = getattr(self, "_setup", None)
        if old is not None:
            old(config)

    def step(self) -> dict[str, Any]:
        """Do one iteration and return its metrics."""
        old = getattr(self, "_train", None)
        if old is None:
            raise NotImplementedError(f"{type(self).__name__} has no step()")
        result: dict[str, Any] = old()
        return result

    def save_checkpoint(self, checkpoint_dir: str) -> str | dict[str, Any] | None:
        """Write what is needed to go on from here into a folder, or return it as a dictionary."""
        old = getattr(self, "_save", None)
        if old is None:
            raise NotImplementedError(f"{type(self).__name__} has no save_checkpoint()")
        said: str | dict[str, Any] | None = old(checkpoint_dir)
        return said

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from what `save_checkpoint` wrote: its folder, or the dictionary that it returned."""
        old = getattr(self, "_restore", None)
        if old is None:
            raise NotImplementedError(f"{type(self).__name__} has no load_checkpoint()")
        old(checkpoint)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another configuration without being built anew. Return whether that was possible."""
        old = getattr(self, "_reset_config", None)
        return bool(old(new_config)) if old is not None else False

    def cleanup(self) -> None:
        """Let go of what `setup` took."""
        old = getattr(self, "_stop", None)
        if old is not None:
            old()

    def log_result(self, result: dict[str, Any]) -> None:
        """Called with each result."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """What a trial of this class needs, if it is not said otherwise."""
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """How to ask for what it needs."""
        return ""

    # What the engine and users call.

    def train(self) -> dict[str, Any]:
        """Do one iteration. Returns its metrics with counters and times."""
        start = time.time()
        result = self.step()
        if not isinstance(result, dict):
            raise TypeError(f"step() must return a dictionary, not {result!r}")
        result = dict(result)
        took = time.time() - start
        self._iteration += 1
        self._iterations_since_restore += 1
        self._time_total += took
        self._time_since_restore += took
        count_up(self, result)
        result.setdefault("done", False)
        result.setdefault("training_iteration", self._iteration)
        result.setdefault("time_this_iter_s", took)
        result.setdefault("time_total_s", self._time_total)
        result.setdefault("time_since_restore", self._time_since_restore)
        result.setdefault("iterations_since_restore", self._iterations_since_restore)
        result["timestamp"] = int(time.time())
        self.log_result(result)
        return result

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Write a checkpoint. Returns it."""
        from eagleray.tune._checkpoint import Checkpoint

        folder = checkpoint_dir or os.path.join(self.logdir, f"checkpoint_{self._iteration:06d}")
        os.makedirs(folder, exist_ok=True)
        said = self.save_checkpoint(folder)
        form = "folder"
        if isinstance(said, dict):
            from eagleray import cloudpickle

            Path(folder, _DICT).write_bytes(cloudpickle.dumps(said))
            form = "dict"
        elif said is not None and os.path.abspath(said) != os.path.abspath(folder):
            # The older API: the path that `_save` gave goes to `_restore`.
            form = os.path.relpath(os.path.abspath(said), os.path.abspath(folder))
        counters = {
            "iteration": self._iteration,
            "time_total": self._time_total,
            "timesteps_total": self._timesteps_total,
            "episodes_total": self._episodes_total,
            "form": form,
        }
        Path(folder, COUNTERS).write_text(json.dumps(counters))
        return Checkpoint.from_directory(folder)

    def restore(self, checkpoint: Any) -> None:
        """Go on from a checkpoint, or from its folder."""
        folder = str(getattr(checkpoint, "path", checkpoint))
        try:
            counters = json.loads(Path(folder, COUNTERS).read_text())
        except FileNotFoundError:
            counters = {}
        form = counters.get("form", "folder")
        if form == "dict":
            from eagleray import cloudpickle

            self.load_checkpoint(cloudpickle.loads(Path(folder, _DICT).read_bytes()))
        else:
            self.load_checkpoint(folder if form == "folder" else os.path.join(folder, form))
        self._iteration = counters.get("iteration", 0)
        self._time_total = counters.get("time_total", 0.0)
        self._timesteps_total = counters.get("timesteps_total")
        self._episodes_total = counters.get("episodes_total")
        self._iterations_since_restore = 0
        self._time_since_restore = 0.0

    def reset(self, new_config: dict[str, Any], logger_creator: Any = None, storage: Any = None) -> bool:
        """Begin again with another configuration. Returns whether `reset_config` could."""
        self.config = new_config
        self._iteration = self._iterations_since_restore = 0
        self._time_total = self._time_since_restore = 0.0
        self._timesteps_total = self._episodes_total = None
        return bool(self.reset_config(new_config))

    def stop(self) -> None:
        """End the trainable; it is not used after this."""
        if not self._is_stopped:
            self._is_stopped = True
            self.cleanup()

    @property
    def logdir(self) -> str:
        """Its folder. One that is made by hand gets its own as soon as it asks."""
        if self._logdir is None:
            self._logdir = tempfile.mkdtemp(prefix="eagleray-trial-")
        return self._logdir

    @property
    def iteration(self) -> int:
        """How many iterations were done, over all restarts."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """How many iterations were done, over all restarts."""
        return self._iteration

    def get_config(self) -> dict[str, Any]:
        """The configuration."""
        return self.config

    def get_auto_filled_metrics(self, **_: Any) -> dict[str, Any]:
        """The counters that each result carries."""
        return {"training_iteration": self._iteration, "time_total_s": self._time_total}


def count_up(counters: Any, result: dict[str, Any]) -> None:
    """Sums up steps and episodes, where the trial says how many one iteration had."""
    for name in ("timesteps", "episodes"):
        now = result.get(f"{name}_this_iter")
        total = getattr(counters, f"_{name}_total")
        if now is not None:
            total = (total or 0) + now
            setattr(counters, f"_{name}_total", total)
        if total is not None:
            result.setdefault(f"{name}_total", total)
