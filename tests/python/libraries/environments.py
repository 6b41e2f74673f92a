"""Environments of libraries that use Ray, below build/libraries/, each made when a test first needs it.

python tests/python/libraries/environments.py [NAME ...]     makes them, or those that are named
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "build" / "libraries"
#: What eagleray itself needs.
_OURS = ("cloudpickle>=3",)


@dataclass(frozen=True)
class Library:
    """What to install, and whether that is too much for every run of the tests."""

    requirements: tuple[str, ...]
    #: Installed without what they require: that would be Ray itself.
    alone: tuple[str, ...] = ()
    is_large: bool = True
    #: Where it is installed, if several share a place.
    environment: str | None = None


#: torch alone is 5 GB, so those that need it share an environment.
_TORCH = Library(("tianshou==2.0.1", "pandas<3", "readchar", "torch"), alone=("evotorch==0.6.1",), environment="torch")
_SEARCHERS = (
    "hyperopt==0.3.0",
    "setuptools",
    "nevergrad==1.0.12",
    "bayesian-optimization",
    "optuna==5.0.0",
    "zoopt==0.4.2",
    "scikit-optimize==0.10.2",
)

LIBRARIES = {
    "deap": Library(("deap==1.4.4", "numpy==2.4.6"), is_large=False),
    "emcee": Library(("emcee==3.1.6", "numpy==2.4.6"), is_large=False),
    "flaml_tune": Library(("FLAML==2.7.0", "numpy==2.4.6"), is_large=False),
    "hamilton": Library(("sf-hamilton==1.90.0",), is_large=False),
    "pymoo": Library(("pymoo==0.6.2",)),
    "sklearn": Library(("scikit-learn==1.9.1", "joblib==1.6.0")),
    "modin": Library(("modin==0.37.1", "pandas==2.3.3")),
    "flaml_automl": Library(("FLAML[automl,blendsearch]==2.7.0",)),
    "sktime": Library(("sktime==1.2.0",)),
    "xgboost_ray": Library(
        ("xgboost==1.7.6", "scikit-learn", "pandas<3", "wrapt", "packaging"), alone=("xgboost_ray==0.1.19",)
    ),
    "lightgbm_ray": Library(
        ("lightgbm<4.7", "xgboost<2.1", "scikit-learn<1.6", "pandas<3", "wrapt", "packaging"),
        alone=("xgboost_ray==0.1.19", "lightgbm_ray==0.1.9"),
    ),
    "tune_sklearn": Library(("scikit-learn<1.6", "pandas<3"), alone=("tune-sklearn==0.5.0",)),
    "hydra": Library(("hydra-core==1.3.8",), alone=("hydra-ray-launcher==1.2.2",)),
    "tianshou": _TORCH,
    "evotorch": _TORCH,
    "searchers": Library((*_SEARCHERS, "pandas")),
}


class NotToBeHadError(Exception):
    """The packages cannot be installed here."""


def prepare(name: str) -> Path:
    """The interpreter of a library's environment, made unless it is there with these very requirements."""
    library = LIBRARIES[name]
    steps = [(*library.requirements, *_OURS)] + [("--no-deps", *library.alone)] * bool(library.alone)
    requirements = "\n".join(" ".join(step) for step in steps)
    folder = FOLDER / (library.environment or name)
    python = folder / "bin" / "python"
    marker = folder / "requirements-installed.txt"
    if marker.exists() and marker.read_text() == requirements:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    for step in steps:
        done = subprocess.run([*pip, *step], check=False, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["pip said nothing"]
            raise NotToBeHadError(f"{' '.join(step)} cannot be installed: {lines[-1]}")
    marker.write_text(requirements)
    return python


def run(name: str, program: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Runs a program in a library's environment, in which `import ray` is eagleray."""
    python = prepare(name)
    env = os.environ | {"PYTHONPATH": str(REPOSITORY / "python")}
    command = [str(python), "-m", "eagleray", "run", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or LIBRARIES:
        try:
            print(prepare(wanted))
        except NotToBeHadError as error:
            print(error)
