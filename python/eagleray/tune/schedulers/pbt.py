"""Population based training, and replaying what one of its trials went through."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.tune.error import TuneError
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers import _mutations, _policy
from eagleray.tune.schedulers._brained import BrainedScheduler, found, missing, number, of_reward, require
from eagleray.tune.schedulers._native import Pbt
from eagleray.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eagleray.tune.schedulers._native import Step
    from eagleray.tune.schedulers.trial_scheduler import Controller

logger = logging.getLogger(__name__)

_ITERATION = "training_iteration"


class PopulationBasedTraining(BrainedScheduler):
    """Lets bad trials go on from the checkpoints of good ones, with changed parameters.

    Trials that find no place take turns. Every exploit is noted in the experiment's folder: in `pbt_global.txt`, and in `pbt_policy_<trial id>.txt`,
    from which `PopulationBasedTrainingReplay` repeats what a trial went through.

    Args:
        time_attr: what counts as time in results; it only has to rise.
        metric: what is compared.
        mode: "min" or "max".
        perturbation_interval: a trial is looked at after each of these.
        burn_in_period: nobody is looked at before this time.
        hyperparam_mutations: parameters that may change. A list moves to a neighbour, numbers of a domain (`tune.uniform(...)`) or of a function are
            multiplied; either may be drawn afresh. Dicts nest. What a trial's configuration lacks is drawn when it is added.
        quantile_fraction: which share goes on from which share; at most 0.5.
        resample_probability: how often a parameter is drawn afresh.
        perturbation_factors: what numbers are multiplied with, one of these.
        custom_explore_fn: changes the new configuration further, and returns it.
        log_config: whether exploits are noted.
        require_attrs: whether a result without time or metric is an error.
        synch: whether all trials wait for each other at each interval.
        seed: chance comes from here, by default from the first trial's id.
        reward_attr: the older name of a metric that is to be large.
    """

    _brains: ClassVar[dict[str, Any]] = {"_brain": Pbt}

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: dict[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: Sequence[float] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        log_config: bool = True,  # noqa: FBT001, FBT002
        require_attrs: bool = True,  # noqa: FBT001, FBT002
        synch: bool = False,  # noqa: FBT001, FBT002
        *,
        seed: int | None = None,
        reward_attr: str | None = None,
    ) -> None:
        mutations = hyperparam_mutations or {}
        _mutations.check(mutations)
        if not mutations and not custom_explore_fn:
            raise TuneError(
                "You must specify at least one of `hyperparam_mutations` or `custom_explore_fn` to use PBT."
            )
        if not 0 <= quantile_fraction <= 0.5:
            raise ValueError(
                f"You must set `quantile_fraction` to a value between 0 and0.5. Current value: '{quantile_fraction}'"
            )
        if perturbation_interval <= 0:
            raise ValueError(
                f"perturbation_interval must be a positive number greater than 0. Current value: '{perturbation_interval}'"
            )
        metric, mode = of_reward(reward_attr, metric, mode)
        require(not mode or mode in ("min", "max"), "`mode` must be 'min' or 'max'.")
        super().__init__(metric=metric, mode=mode, time_attr=time_attr, seed=seed)
        self._perturbation_interval = perturbation_interval
        self._burn_in_period = burn_in_period
        self._hyperparam_mutations = mutations
        self._leaves = list(_mutations.leaves(mutations))
        self._quantile_fraction = quantile_fraction
        self._resample_probability = resample_probability
        self._perturbation_factors = perturbation_factors
        self._custom_explore_fn = custom_explore_fn
        self._log_config = log_config
        self._require_attrs = require_attrs
        self._synch = synch
        #: By the brain's number: the tag that a trial had at first, and the iteration at which it was looked at last.
        self._tags: list[str] = []
        self._iterations: list[int] = []
        self._warned: set[str] = set()
        self._num_checkpoints = 0
        self._num_perturbations = 0

    def _make_brain(self, mode: str, seed: int) -> Pbt:
        return Pbt(
            mode=mode,
            perturbation_interval=float(self._perturbation_interval),
            burn_in_period=float(self._burn_in_period),
            quantile_fraction=float(self._quantile_fraction),
            resample_probability=float(self._resample_probability),
            perturbation_factors=[float(factor) for factor in self._perturbation_factors],
            synch=self._synch,
            seed=seed,
        )

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """Draws what its configuration lacks of the parameters that may change."""
        search = getattr(controller, "search_alg", None)
        if any(kind.__name__ == "SearchGenerator" for kind in type(search).__mro__):
            raise ValueError(
                f"Search algorithms cannot be used with {type(self).__name__} schedulers. Please remove {search}."
            )
        super().on_trial_add(controller, trial)
        self._tags.append(trial.experiment_tag)
        self._iterations.append(0)
        born = self._brain.birth(self._numbers[trial.trial_id])
        self._fill(trial, born)

    def needs_together(self, population: int | None, together: int) -> str | None:
        """Trials that are not under way together learn nothing from each other."""
        if population is not None and population <= together:
            return None
        whole = "all trials" if population is None else f"the {population} trials"
        advice = "leave it out" if population is None else f"set it to {population} or leave it out"
        reach = "nobody" if together == 1 else f"one of {together}"
        return (
            f"{type(self).__name__} compares trials that are under way together, and max_concurrent_trials={together} makes a new one only "
            f"when another has ended: of {whole}, each can take over from {reach}. To have one population, {advice}: where there is "
            "not room for all at a time, they take turns."
        )

    def _fill(self, trial: Trial, seed: int) -> None:
        trial.evaluated_params.update(_mutations.fill(trial.config, self._hyperparam_mutations, seed))

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """At each interval: saves it if it is one of the best, lets it go on from one of these if it is one of the worst."""
        self._check_attributes(result)
        known, observed = self._number(trial), self._observed(result)
        if known is None or observed is None:
            return TrialScheduler.CONTINUE
        word, steps = self._brain.result(known, *observed)
        if word == "CONTINUE":
            return TrialScheduler.CONTINUE
        self._iterations[known] = int(result.get(_ITERATION, 0) or 0)
        self._on_look(known, *observed)
        exploited = self._take(controller, steps)
        if known in exploited:
            return TrialScheduler.NOOP
        if self._synch:
            return TrialScheduler.PAUSE
        others_wait = any(other.status in (Trial.PENDING, Trial.PAUSED) for other in controller.get_live_trials())
        return TrialScheduler.PAUSE if others_wait else TrialScheduler.CONTINUE

    def _on_look(self, known: int, time: float, value: float) -> None:
        """A trial has reached its interval."""

    def _take(self, controller: Controller, steps: list[Step]) -> set[int]:
        """Saves and exploits. Returns who goes on from another."""
        exploited = set()
        for known, save, exploit in steps:
            trial = self._trials[known]
            if save:
                # A paused one was saved when it was paused.
                if trial.status == Trial.RUNNING:
                    controller.save_trial(trial)
                self._num_checkpoints += 1
            if exploit is not None and self._exploit(controller, known, *exploit):
                exploited.add(known)
        return exploited

    def _exploit(self, controller: Controller, known: int, giver: int, draw: int) -> bool:
        trial, donor = self._trials[known], self._trials[giver]
        if donor.checkpoint is None:
            logger.info("[pbt]: no checkpoint for trial %s. Skip exploit for Trial %s", donor, trial)
            return False
        config, operations = self._explored(known, giver, draw)
        name = type(self).__name__
        logger.info(
            "\n\n[%s] [Exploit] Cloning trial %s (score = %4f) into trial %s (score = %4f)\n",
            name,
            donor.trial_id,
            self._brain.score(giver),
            trial.trial_id,
            self._brain.score(known),
        )
        old, new = (_mutations.only(one, self._changing()) for one in (donor.config, config))
        told = _mutations.summary(old, new, operations) or "No hyperparameters mutated."
        logger.info(
            "\n\n[%s] [Explore] Perturbed the hyperparameter config of trial%s:\n%s", name, trial.trial_id, told
        )
        # What is replayed was noted when it happened.
        if self._log_config and not getattr(controller, "is_replaying", False):
            line = [self._tags[known], self._tags[giver], self._iterations[known], self._iterations[giver]]
            _policy.write(trial, donor, [*line, donor.config, config])
        trial.experiment_tag = _mutations.tag(self._tags[known], config, self._leaves)
        controller.exploit(trial, config, donor)
        self._brain.exploited(known, giver)
        self._iterations[known] = self._iterations[giver]
        self._num_perturbations += 1
        return True

    def _changing(self) -> dict[str, Any]:
        return self._hyperparam_mutations

    def _explored(self, known: int, giver: int, draw: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The configuration that a trial goes on with, and what was done to the donor's."""
        base = self._trials[giver].config
        changes = self._brain.explore(draw, _mutations.genes(base, self._leaves))
        config, operations = _mutations.apply(base, self._leaves, changes)
        return self._custom(config), operations

    def _custom(self, config: dict[str, Any]) -> dict[str, Any]:
        if self._custom_explore_fn is None:
            return config
        changed = self._custom_explore_fn(config)
        require(changed is not None, "Custom explore fn failed to return new config")
        return changed

    def _check_attributes(self, result: dict[str, Any]) -> None:
        for what, name in (("time_attr", self._time_attr), ("metric", str(self._metric))):
            if not missing(found(result, name)):
                continue
            text = f"Cannot find {what} {name} in trial result {result}. Make sure that this attribute is returned in the results of your Trainable."
            if self._require_attrs:
                raise RuntimeError(
                    f"{text}If this error is expected, you can change this to a warning message by setting PBT(require_attrs=False)"
                )
            if what not in self._warned:
                self._warned.add(what)
                logger.warning(text)

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Nobody goes on from it, or waits for it, any more."""
        self._end(controller, trial)

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """Nobody goes on from it, or waits for it, any more."""
        self._end(controller, trial)

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """Nobody goes on from it, or waits for it, any more."""
        self._end(controller, trial)

    def _end(self, controller: Controller, trial: Trial) -> None:
        known = self._numbers.pop(trial.trial_id, None)
        if known is not None:
            self._take(controller, self._brain.end(known))

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """Whoever has come least far, so that all get their turn."""
        candidates: list[tuple[float, int, Trial]] = []
        for place, trial in enumerate(controller.get_live_trials()):
            known = self._number(trial)
            if known is None or trial.status not in (Trial.PENDING, Trial.PAUSED):
                continue
            come = self._brain.turn(known)
            if come is not None:
                candidates.append((come, place, trial))
        return min(candidates, key=lambda one: one[:2])[2] if candidates else None

    def reset_stats(self) -> None:
        """Counts from 0 again."""
        self._num_checkpoints = self._num_perturbations = 0

    def last_scores(self, trials: Sequence[Trial]) -> list[float]:
        """What live trials had when they were looked at last; more is better."""
        scores = []
        for trial in trials:
            known = self._number(trial)
            score = None if known is None or trial.is_finished() else self._brain.score(known)
            if score is not None:
                scores.append(score)
        return scores

    def debug_string(self) -> str:
        """How much was saved and changed."""
        return f"PopulationBasedTraining: {self._num_checkpoints} checkpoints, {self._num_perturbations} perturbs"


class PopulationBasedTrainingReplay(FIFOScheduler):
    """Trains one trial through the configurations that a trial of PBT went through.

    Args:
        policy_file: `pbt_policy_<trial id>.txt` in the folder of an experiment that ran with `log_config=True`.
    """

    def __init__(self, policy_file: str) -> None:
        path = Path(policy_file).expanduser()
        if not path.exists():
            raise ValueError(f"Policy file not found: {path.as_posix()}")
        self.policy_file = path.as_posix()
        first, self._policy = _policy.read(path)
        self.experiment_tag = f"replay_{path.name}"
        self.config = first
        self.current_config = first
        self._trial: Trial | None = None
        self._current_step = 0
        self._num_perturbations = 0

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """Gives it the configuration that the story begins with."""
        if self._trial is not None and self._trial.trial_id != trial.trial_id:
            raise ValueError(
                "More than one trial added to PBT replay run. This means the same schedule will be trained multiple times. "
                "Do you want to set `n_samples=1`?"
            )
        self._trial = trial
        if trial.config and self._policy:
            logger.warning(
                "Trial was initialized with a config, which was overwritten. Did you start the PBT replay with a `config` parameter?"
            )
        elif trial.config:
            self.config = trial.config
        elif not self._policy:
            raise ValueError(
                "No replay policy found and trial initialized without a valid config. Either pass a `config` argument to `tune.Tuner()`"
                "or consider not using PBT replay for this run."
            )
        trial.config = copy.deepcopy(self.config or {})
        self.current_config = self.config

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """Changes the configuration when the story does: the trial goes on from its own checkpoint."""
        if self._num_perturbations >= len(self._policy) or _ITERATION not in result:
            return TrialScheduler.CONTINUE
        step = int(number(result[_ITERATION], _ITERATION))
        self._current_step = step
        change_at, config = self._policy[self._num_perturbations]
        if step < change_at:
            return TrialScheduler.CONTINUE
        logger.info(
            "Population Based Training replay is now at step %s. Configuration will be changed to %s.", step, config
        )
        controller.save_trial(trial)
        self.current_config = config
        self._num_perturbations += 1
        controller.exploit(trial, copy.deepcopy(config), trial)
        return TrialScheduler.NOOP

    def debug_string(self) -> str:
        """How far the story is told."""
        return f"PopulationBasedTraining replay: Step {self._current_step}, perturb {self._num_perturbations}"
