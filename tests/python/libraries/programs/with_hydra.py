"""A sweep whose jobs are tasks."""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import hydra
import ray
from hydra.core.config_store import ConfigStore


@dataclass
class Settings:
    number: int = 1
    folder: str = ""


ConfigStore.instance().store(name="settings", node=Settings)


@hydra.main(version_base=None, config_name="settings")
def job(settings):
    Path(settings.folder, str(settings.number)).write_text(str(os.getpid()))


if __name__ == "__main__":
    folder = tempfile.mkdtemp()
    sys.argv[1:] = ["-m", "hydra/launcher=ray", "number=1,2,3", f"folder={folder}", f"hydra.sweep.dir={folder}/sweep"]
    job()
    pids = {Path(folder, name).read_text() for name in ("1", "2", "3")}
    assert str(os.getpid()) not in pids
    print("hydra ran on eagleray", ray.__name__, len(pids))
