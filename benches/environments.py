"""Where each system's interpreter lives: the project's own .venv, or one environment per peer under build/peers/."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PEERS_FOLDER = REPOSITORY / "build" / "peers"


@dataclass(frozen=True)
class Environment:
    """What to install for one system, and which distribution is the system itself."""

    distribution: str | None
    requirements: tuple[str, ...]


# Monarch's wheel does not require torch, and its actors work without it, so the 3 GB of CUDA torch stay away.
PEERS: dict[str, Environment] = {
    "ray": Environment("ray", ("ray==2.60.0", "numpy")),
    "dask": Environment("distributed", ("dask[distributed]==2026.8.0", "numpy")),
    "monarch": Environment("torchmonarch", ("torchmonarch==0.7.0", "numpy")),
    "multiprocessing": Environment(None, ("numpy",)),
    "processpool": Environment(None, ("numpy",)),
}
# For `tune.py`: the data frames and event files that Ray's loggers need come with the extra.
PEERS["ray_tune"] = Environment("ray", ("ray[tune]==2.60.0", "numpy"))
# For `tune.py` and `tune_quality.py`. Its Gaussian process needs torch, of which there is none without CUDA to be had here: 5 GB.
PEERS["optuna"] = Environment("optuna", ("optuna==5.0.0", "cmaes", "scipy", "numpy", "torch"))
# For `rl.py`.
PEERS["rllib"] = Environment("ray", ("ray[rllib]==2.60.0", "torch", "gymnasium", "numpy"))
PEERS["sb3"] = Environment("stable_baselines3", ("stable-baselines3==2.9.2", "torch", "gymnasium", "numpy"))
# For `make test-torch`: no peer, but as large.
_TESTS = ("cloudpickle", "pytest", "pytest-asyncio", "pytest-timeout")
PEERS["torch"] = Environment("torch", ("torch", "gymnasium", "numpy", *_TESTS))
EAGLERAY = Environment("eagleray", ())


def describe(system: str) -> Environment:
    """The environment of a system, be it eagleray or a peer."""
    return EAGLERAY if system == "eagleray" else PEERS[system]


def interpreter(system: str) -> Path:
    """The Python that runs this system; it need not exist yet. EAGLERAY_BENCH_PYTHON names another one for eagleray."""
    if system == "eagleray":
        return Path(os.environ.get("EAGLERAY_BENCH_PYTHON", REPOSITORY / ".venv" / "bin" / "python"))
    folder = "multiprocessing" if system == "processpool" else system
    return PEERS_FOLDER / folder / "bin" / "python"


def prepare(system: str) -> Path:
    """Make a peer's environment unless it is there with these very requirements; returns its interpreter."""
    python = interpreter(system)
    if system == "eagleray":
        if not python.exists():
            raise FileNotFoundError(f"{python} is missing: build eagleray into .venv first")
        return python
    requirements = "\n".join(PEERS[system].requirements)
    marker = python.parent.parent / "requirements-installed.txt"
    if marker.exists() and marker.read_text() == requirements:
        return python
    print(
        f"installing {', '.join(PEERS[system].requirements)} into {python.parent.parent}", file=sys.stderr, flush=True
    )
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(python.parent.parent)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PEERS[system].requirements], check=True)
    marker.write_text(requirements)
    return python


if __name__ == "__main__":
    for name in sys.argv[1:] or PEERS:
        print(prepare(name))
