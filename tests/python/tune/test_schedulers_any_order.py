"""Whatever the order of results, ends and failures, and however few places there are: every experiment comes to its end."""

import random

import pytest
from tests.python.tune.stage import Stage

from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers import (
    PB2,
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    TrialScheduler,
)

AGE_MAX = 15
MEASURED = {"metric": "score", "mode": "max"}
TIMED = {**MEASURED, "time_attr": "training_iteration"}
KINDS = {
    "fifo": FIFOScheduler,
    "asha": lambda: ASHAScheduler(**MEASURED, max_t=9, reduction_factor=3, brackets=2),
    "hyperband": lambda: HyperBandScheduler(**MEASURED, max_t=9),
    "endless hyperband": lambda: HyperBandScheduler(**MEASURED, max_t=9, stop_last_trials=False),
    "bohb": lambda: HyperBandForBOHB(**MEASURED, max_t=9),
    "median": lambda: MedianStoppingRule(**TIMED, grace_period=2, min_samples_required=2),
    "soft median": lambda: MedianStoppingRule(**TIMED, grace_period=2, min_samples_required=2, hard_stop=False),
    "pbt": lambda: PopulationBasedTraining(**TIMED, perturbation_interval=3, hyperparam_mutations={"lr": [1, 2, 3]}),
    "pbt in step": lambda: PopulationBasedTraining(
        **TIMED, perturbation_interval=3, hyperparam_mutations={"lr": [1, 2, 3]}, synch=True
    ),
    "pb2": lambda: PB2(**TIMED, perturbation_interval=3, hyperparam_bounds={"lr": [0.0, 1.0]}),
    "pb2 in step": lambda: PB2(**TIMED, perturbation_interval=3, hyperparam_bounds={"lr": [0.0, 1.0]}, synch=True),
}


def _fill_places(stage, wanted):
    """Adds trials one at a time, as an engine with a searcher does, and starts what the scheduler chooses."""
    while True:
        if len(stage.trials) < wanted and not any(trial.status == Trial.PENDING for trial in stage.trials):
            stage.add({})
        if sum(trial.status == Trial.RUNNING for trial in stage.trials) >= stage.places:
            return
        chosen = stage.scheduler.choose_trial_to_run(stage)
        if chosen is None:
            return
        assert stage.scheduler.choose_trial_to_run(stage) is chosen
        assert chosen.status in (Trial.PENDING, Trial.PAUSED)
        chosen.status = Trial.RUNNING


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_every_experiment_comes_to_its_end(kind, seed):
    chance = random.Random(f"{kind}/{seed}")
    stage = Stage(KINDS[kind](), places=chance.choice([1, 2, 5]))
    wanted = chance.randint(1, 25)
    for _ in range(20_000):
        _fill_places(stage, wanted)
        running = [trial for trial in stage.trials if trial.status == Trial.RUNNING]
        if not running:
            break
        trial = chance.choice(running)
        fate = chance.random()
        if fate < 0.02:
            stage.fail(trial)
        elif fate < 0.04 or stage.iterations[trial.trial_id] >= AGE_MAX:
            stage.finish(trial)
        else:
            score = float("nan") if fate > 0.95 else chance.uniform(0, 10)
            assert stage.report(trial, score=score) in (
                TrialScheduler.CONTINUE,
                TrialScheduler.PAUSE,
                TrialScheduler.STOP,
                TrialScheduler.NOOP,
            )
    else:
        pytest.fail("it goes round and round")
    assert len(stage.trials) == wanted
    assert [trial for trial in stage.trials if not trial.is_finished()] == []
