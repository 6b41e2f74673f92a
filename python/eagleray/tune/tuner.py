"""The newer API: `Tuner(trainable, param_space=...).fit()`."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle
from eagleray.tune import _checks, _replay, _resolve, _start
from eagleray.tune._configs import RunConfig, TuneConfig
from eagleray.tune._files import JOURNAL
from eagleray.tune._make_plan import make_plan
from eagleray.tune.analysis import ExperimentAnalysis
from eagleray.tune.error import TuneError
from eagleray.tune.result_grid import ResultGrid
from eagleray.tune.search import create_searcher

if TYPE_CHECKING:
    from pathlib import Path

    from eagleray.tune._plan import Plan
    from eagleray.tune.experiment.trial import Trial

#: What a restored tuner is made of.
_SPEC = "tuner.pkl"


def _grid(plan: Plan, trials: list[Trial]) -> ResultGrid:
    return ResultGrid(ExperimentAnalysis(plan.folder, trials, plan.metric, plan.mode))


class _RestoreOfClass:
    """`Tuner.restore` is of the class: an instance has none."""

    def __get__(self, instance: Any, owner: type[Tuner]) -> Any:
        if instance is not None:
            raise AttributeError(
                "`Tuner.restore()` is a classmethod and cannot be called on an instance. Use it directly: `Tuner.restore()`"
            )
        return owner._restore


class Tuner:
    """Searches for the best configuration of a trainable.

    Args:
        trainable: a function of `config` that calls `tune.report`, a subclass of `tune.Trainable`, or a registered name.
        param_space: what is searched: values, `tune.uniform(...)` and the like, `tune.grid_search([...])`, nested as you like.
        tune_config: what is optimised, by whom, how often.
        run_config: where files go, what stops trials, what is kept.
    """

    restore = _RestoreOfClass()

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Any = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        """Keep what is to be run."""
        if trainable is None:
            raise TuneError("You need to provide a trainable to tune.")
        _checks.check_kind("tune_config", tune_config, TuneConfig, "a TuneConfig")
        _checks.check_kind("run_config", run_config, RunConfig, "a RunConfig")
        self._trainable = trainable
        self._space = param_space
        self._tune_config = tune_config or TuneConfig()
        self._run_config = copy.copy(run_config) if run_config is not None else RunConfig()
        self._resume: _replay.Resume | None = None
        self._folder: Path | None = None
        self._grid: ResultGrid | None = None

    def fit(self) -> ResultGrid:
        """Runs all trials and returns what came of them. Trials that fail do not raise here: see `.errors`."""
        # Its seed is part of what a restored tuner needs.
        if isinstance(self._tune_config.search_alg, str):
            config = self._tune_config
            searcher = create_searcher(str(config.search_alg), metric=config.metric, mode=config.mode)
            self._tune_config = dataclasses.replace(config, search_alg=searcher)
        spec = self._spec()
        plan = make_plan(self._trainable, self._space, self._tune_config, self._run_config, folder=self._folder)
        plan.spec = spec
        trials = _start.run(plan, self._resume)
        self._folder = plan.folder
        self._grid = _grid(plan, trials)
        self._resume = None
        return self._grid

    def get_results(self) -> ResultGrid:
        """What came of an experiment that has run, or that was restored."""
        if self._grid is not None:
            return self._grid
        if self._resume is None:
            raise RuntimeError(
                "Can't return results as experiment has not been run, yet. Call `Tuner.fit()` to run the experiment first."
            )
        # Searcher and scheduler are told everything: `fit` wants them as they were.
        config = copy.deepcopy(self._tune_config)
        plan = make_plan(self._trainable, self._space, config, self._run_config, folder=self._folder)
        trials = _start.look(plan, self._resume)
        return _grid(plan, trials)

    def _spec(self) -> bytes | None:
        try:
            return cloudpickle.dumps((self._space, self._tune_config, self._run_config))
        except Exception:  # it can still be resumed by passing all of it again
            return None

    @classmethod
    def _restore(
        cls,
        path: str,
        trainable: Any,
        resume_unfinished: bool = True,  # noqa: FBT001, FBT002
        resume_errored: bool = False,  # noqa: FBT001, FBT002
        restart_errored: bool = False,  # noqa: FBT001, FBT002
        param_space: Any = None,
        storage_filesystem: Any = None,
        _resume_config: Any = None,
    ) -> Tuner:
        """A tuner that goes on where another run of its experiment was; the folder may have been moved.

        Args:
            path: the experiment's folder.
            trainable: what it ran.
            resume_unfinished: whether trials that were not over go on.
            resume_errored: whether trials that had failed go on from their last checkpoint.
            restart_errored: whether trials that had failed begin from scratch.
            param_space: what is searched, if it could not be written down: with objects that cannot be pickled.
            storage_filesystem: taken for Ray's sake; files lie on this machine.
        """
        folder = _resolve.storage_of(path)
        if not folder.exists():
            raise FileNotFoundError(f"there is no experiment at {folder}")
        resume = _replay.read(folder)
        said = _replay.head(resume)
        _, name, is_class = _resolve.trainable_of(trainable)
        if is_class != said["is_class"]:
            kinds = ("function", "class")
            raise ValueError(
                f"Invalid `trainable` input to `Tuner.restore()`, with the following error message: the experiment ran a "
                f"{kinds[said['is_class']]} trainable, and {name!r} is a {kinds[is_class]} trainable"
            )
        if name != said["trainable"]:
            raise ValueError(
                f"Invalid `trainable` input to `Tuner.restore()`, with the following error message: the experiment ran "
                f"{said['trainable']!r}, and this is {name!r}"
            )
        resume.unfinished, resume.errored, resume.restart_errored = resume_unfinished, resume_errored, restart_errored
        try:
            space, tune_config, run_config = cloudpickle.loads((folder / _SPEC).read_bytes())
        except FileNotFoundError:
            space, tune_config, run_config = {}, TuneConfig(metric=said["metric"], mode=said["mode"]), RunConfig()
        except Exception as error:
            raise TuneError(
                f"{folder / _SPEC}, which has the space, searcher and scheduler of the experiment, cannot be read: {error!r}. It needs the "
                "modules that it was written with. Without that file the experiment goes on with random search and no scheduler."
            ) from error
        if tune_config.search_alg is None:
            tune_config = copy.copy(tune_config)
            tune_config.search_alg = _replay.same_search(resume, tune_config.max_concurrent_trials)
        tuner = cls(trainable, param_space=param_space or space, tune_config=tune_config, run_config=run_config)
        tuner._resume = resume
        tuner._folder = folder
        return tuner

    @classmethod
    def can_restore(cls, path: str, storage_filesystem: Any = None) -> bool:
        """Whether there is an experiment to go on with."""
        return (_resolve.storage_of(path) / JOURNAL).exists()
