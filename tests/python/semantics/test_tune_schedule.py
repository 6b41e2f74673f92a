"""Schedulers, told of trials, times and values."""

import json
import math

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
    PopulationBasedTrainingReplay,
    TrialScheduler,
)

BAD = [math.nan, math.inf, -math.inf]


def pbt(**options):
    defaults = {
        "time_attr": "training_iteration",
        "metric": "score",
        "mode": "max",
        "perturbation_interval": 5,
        "hyperparam_mutations": {"lr": [0.1, 0.2, 0.3], "momentum": lambda: 0.5},
        "seed": 1,
    }
    return PopulationBasedTraining(**{**defaults, **options})


def look(stage, trials, time):
    """All report at this time, worst first: who reports later finds others to be compared with. Returns the decisions."""
    return [stage.report(trial, training_iteration=time, score=score) for score, trial in enumerate(trials)]


def population(scheduler, count=4, folder=None):
    stage = Stage(scheduler, folder=folder)
    trials = [stage.add({"lr": 0.2, "momentum": 1.0, "who": number}) for number in range(count)]
    for trial in trials:
        trial.status = Trial.RUNNING
    return stage, trials


def test_N6a_hyperband_fills_brackets_from_5_long_trials_to_81_short_ones():
    scheduler = HyperBandScheduler(metric="score", mode="max")
    stage = Stage(scheduler)
    for _ in range(5 + 8 + 15 + 34 + 81):
        stage.add()
    lines = scheduler.debug_string().splitlines()[2:]
    shapes = [(5, 81), (8, 27), (15, 9), (34, 3), (81, 1)]
    assert [line.split(", completed")[0].strip() for line in lines] == [
        f"Bracket(Max Size (n)={size}, Milestone (r)={milestone}" for size, milestone in shapes
    ]
    assert scheduler.state() == {"num_brackets": 5, "num_stopped": 0}
    stage.add()
    assert scheduler.state()["num_brackets"] == 6


def test_N6a_bohb_fills_the_bracket_of_81_first():
    scheduler = HyperBandForBOHB(metric="score", mode="max")
    Stage(scheduler).add()
    assert "Max Size (n)=81, Milestone (r)=1" in scheduler.debug_string()


def test_N6b_hyperband_pauses_a_trial_until_its_round_is_over_then_the_best_go_on():
    scheduler = HyperBandScheduler(metric="score", mode="max", max_t=9)
    stage = Stage(scheduler)
    first = [stage.add() for _ in range(3)]  # run to 9
    second = [stage.add() for _ in range(5)]  # compared at 3
    assert all(stage.report(trial, training_iteration=2, score=0) == TrialScheduler.CONTINUE for trial in second)
    for score, trial in enumerate(second[:4]):
        assert stage.report(trial, training_iteration=3, score=score) == TrialScheduler.PAUSE
    assert stage.report(second[4], training_iteration=3, score=4) == TrialScheduler.CONTINUE
    assert [trial.status for trial in second] == ["TERMINATED"] * 3 + ["PAUSED", "RUNNING"]
    for trial in first:
        trial.status = Trial.RUNNING
    assert scheduler.choose_trial_to_run(stage) is second[3]


def test_N6c_a_trial_that_fails_or_ends_holds_up_nobody():
    for end in (Stage.fail, Stage.finish):
        scheduler = HyperBandScheduler(metric="score", mode="min", max_t=9)
        stage = Stage(scheduler)
        trials = [stage.add() for _ in range(8)][3:]
        for score, trial in enumerate(trials[:4]):
            stage.report(trial, training_iteration=3, score=score)
        assert {trial.status for trial in trials[:4]} == {"PAUSED"}
        end(stage, trials[4])
        assert [trial.status for trial in trials[:4]] == ["PAUSED", "PAUSED", "TERMINATED", "TERMINATED"]


@pytest.mark.parametrize("kind", [HyperBandScheduler, HyperBandForBOHB])
@pytest.mark.parametrize("places", [1, 3, 50])
def test_N6c_an_experiment_comes_to_its_end_with_any_number_of_places(kind, places):
    stage = Stage(kind(metric="score", mode="max", max_t=9), places=places)
    for _ in range(23):
        stage.add()
    count = stage.run(lambda trial, iteration: trial.number * iteration)
    assert count < 23 * 9
    assert max(trial.last_result["training_iteration"] for trial in stage.trials) == 9


def test_N6d_asha_compares_at_rungs_from_the_grace_period_on():
    scheduler = ASHAScheduler(metric="loss", mode="min", grace_period=2, reduction_factor=2, max_t=16)
    stage = Stage(scheduler)
    good, bad = stage.add(), stage.add()
    assert stage.report(good, loss=1.0) == TrialScheduler.CONTINUE
    assert stage.report(bad, loss=9.0) == TrialScheduler.CONTINUE  # in the grace period
    assert stage.report(good, loss=1.0) == TrialScheduler.CONTINUE
    assert stage.report(bad, loss=9.0) == TrialScheduler.STOP
    assert scheduler.debug_string() == (
        "Using AsyncHyperBand: num_stopped=1\nBracket: Iter 16.000: None | Iter 8.000: None | Iter 4.000: None | Iter 2.000: -5.0"
    )


def test_N6d_asha_has_the_defaults_of_ray():
    stage = Stage(ASHAScheduler(metric="score", mode="max"))
    stage.add()
    assert "Iter 64.000: None | Iter 16.000: None | Iter 4.000: None | Iter 1.000" in stage.scheduler.debug_string()


def test_N6e_asha_stops_the_last_trials_at_max_t_or_lets_them_run():
    for stops in (True, False):
        stage = Stage(ASHAScheduler(metric="score", mode="max", max_t=4, stop_last_trials=stops))
        trial = stage.add()
        decisions = [stage.report(trial, score=1) for _ in range(4)]
        assert decisions == ["CONTINUE"] * 3 + ["STOP" if stops else "CONTINUE"]


def _median(**options):
    rule = MedianStoppingRule(time_attr="training_iteration", metric="score", mode="max", **options)
    stage = Stage(rule)
    for score in (100, 200, 300):
        trial = stage.add()
        for _ in range(5):
            stage.report(trial, score=score)
    return stage


def test_N6f_the_median_rule_stops_who_is_worse_than_the_median_of_the_means():
    stage = _median(grace_period=2, min_samples_required=3)
    good, bad = stage.add(), stage.add()
    assert [stage.report(good, score=200) for _ in range(4)] == ["CONTINUE"] * 4
    assert stage.report(bad, score=50) == TrialScheduler.CONTINUE  # in the grace period
    assert stage.report(bad, score=50) == TrialScheduler.STOP


def test_N6f_with_too_few_samples_it_stops_nobody_and_makes_room():
    stage = _median(grace_period=0, min_samples_required=4)
    trial = stage.add()
    stage.trials[0].status = Trial.PAUSED
    assert stage.report(trial, score=-1) == TrialScheduler.PAUSE
    stage.trials[0].status = Trial.RUNNING
    assert stage.report(trial, score=-1) == TrialScheduler.CONTINUE


def test_N6f_without_hard_stop_bad_trials_run_last():
    stage = _median(grace_period=0, min_samples_required=3, hard_stop=False)
    bad = stage.add()
    assert stage.report(bad, score=0) == TrialScheduler.PAUSE
    yielding = stage.add()
    yielding.status = Trial.PAUSED
    assert stage.scheduler.choose_trial_to_run(stage) is yielding
    yielding.status = Trial.RUNNING
    assert stage.scheduler.choose_trial_to_run(stage) is bad
    assert stage.report(bad, score=0) == TrialScheduler.CONTINUE


def test_N6g_the_worst_goes_on_from_the_best_ones_checkpoint_with_other_parameters():
    stage, trials = population(pbt(resample_probability=0.0))
    look(stage, trials, 5)
    assert stage.events == [("save", "t001"), ("save", "t002"), ("save", "t003")]
    assert stage.report(trials[0], training_iteration=10, score=0) == TrialScheduler.NOOP
    assert stage.events[3:] == [("exploit", "t000", "t003")]
    worst = trials[0]
    assert worst.checkpoint == trials[3].checkpoint
    assert worst.config["who"] == 3
    assert worst.config["lr"] in (0.1, 0.3)  # a neighbour in the list
    assert worst.config["momentum"] in (0.8, 1.2)
    assert trials[3].config == {"lr": 0.2, "momentum": 1.0, "who": 3}
    assert "@perturbed[" in worst.experiment_tag


def test_N6g_without_a_checkpoint_to_go_on_from_it_just_goes_on():
    stage, trials = population(pbt())
    stage.save_trial = lambda trial: None
    look(stage, trials, 5)
    assert stage.report(trials[0], training_iteration=10, score=0) == TrialScheduler.CONTINUE
    assert trials[0].config["who"] == 0


def test_N6g_trials_without_a_place_take_turns():
    stage, trials = population(pbt(), count=3)
    waiting = stage.add({"lr": 0.1, "momentum": 1.0})
    assert stage.report(trials[0], training_iteration=5, score=1) == TrialScheduler.PAUSE
    assert stage.scheduler.choose_trial_to_run(stage) is waiting


def test_N6g_the_same_seed_explores_the_same():
    def configs(seed):
        stage, trials = population(
            pbt(seed=seed, hyperparam_mutations={"lr": [0.1, 0.2, 0.3, 0.4], "momentum": [1.0, 2.0]})
        )
        for time in (5, 10, 15, 20):
            look(stage, trials, time)
        return [trial.config for trial in trials]

    assert configs(1) == configs(1)
    assert any(configs(1) != configs(seed) for seed in range(2, 8))


def test_N6h_nothing_changes_before_the_burn_in_and_within_an_interval():
    stage, trials = population(pbt(burn_in_period=12))
    for time in (5, 10):
        assert set(look(stage, trials, time)) == {TrialScheduler.CONTINUE}
    assert stage.events == []
    look(stage, trials, 12)
    assert ("save", "t003") in stage.events
    stage.events.clear()
    assert set(look(stage, trials, 16)) == {TrialScheduler.CONTINUE}
    assert stage.events == []
    assert look(stage, trials, 17)[0] == TrialScheduler.NOOP


def test_N6i_in_step_all_wait_for_each_other_and_then_all_run_again():
    stage, trials = population(pbt(synch=True))
    for score, trial in enumerate(trials[:3]):
        assert stage.report(trial, training_iteration=5, score=score) == TrialScheduler.PAUSE
    assert stage.scheduler.choose_trial_to_run(stage) is None
    assert stage.report(trials[3], training_iteration=5, score=3) == TrialScheduler.PAUSE
    assert ("exploit", "t000", "t003") in stage.events
    chosen = set()
    while (trial := stage.scheduler.choose_trial_to_run(stage)) is not None:
        trial.status = Trial.RUNNING
        chosen.add(trial.trial_id)
    assert len(chosen) == 4


def test_N6i_in_step_nobody_waits_for_one_that_failed():
    stage, trials = population(pbt(synch=True))
    for score, trial in enumerate(trials[:3]):
        stage.report(trial, training_iteration=5, score=score)
    stage.fail(trials[3])
    assert stage.scheduler.choose_trial_to_run(stage) is not None
    assert ("exploit", "t000", "t002") in stage.events


def test_N6j_exploits_are_noted_and_a_trials_story_can_be_replayed(tmp_path):
    stage, trials = population(pbt(), folder=tmp_path)
    for time in (5, 10, 15):
        look(stage, trials, time)
    stories = [json.loads(line) for line in (tmp_path / "pbt_global.txt").read_text().splitlines()]
    # The first ones at 10 and 15 are behind; what they go on from was saved one interval earlier.
    assert [story[:4] for story in stories] == [["0", "3", 10, 5], ["0", "3", 15, 10]]
    assert stories[0][4]["who"] == 3
    file = tmp_path / "pbt_policy_t000.txt"
    assert [json.loads(line) for line in file.read_text().splitlines()] == stories

    replay = PopulationBasedTrainingReplay(str(file))
    stage = Stage(replay)
    trial = stage.add()
    assert trial.config == stories[1][4]
    assert [stage.report(trial, score=0) for _ in range(9)] == [TrialScheduler.CONTINUE] * 9
    assert stage.report(trial, score=0) == TrialScheduler.NOOP
    assert trial.config == stories[1][5]
    assert trial.checkpoint.iteration == 10
    assert stage.report(trial, score=0) == TrialScheduler.CONTINUE
    with pytest.raises(ValueError, match="More than one trial added to PBT replay run"):
        stage.add()


def test_N6k_pb2_chooses_within_the_bounds():
    bounds = {"lr": [1e-4, 1e-2], "net": {"width": [8, 64]}}
    scheduler = PB2(
        time_attr="training_iteration", metric="score", mode="max", perturbation_interval=2, hyperparam_bounds=bounds
    )
    stage = Stage(scheduler)
    trials = [stage.add({"net": {"width": 10}}) for _ in range(6)]
    assert all(1e-4 <= trial.config["lr"] <= 1e-2 for trial in trials)  # drawn, since it was not given
    assert len({trial.config["lr"] for trial in trials}) == 6
    for trial in trials:
        trial.status = Trial.RUNNING
    seen = set()
    for time in range(1, 21):
        for trial in trials:
            stage.report(trial, training_iteration=time, score=time * trial.config["lr"] + trial.number)
            width = trial.config["net"]["width"]
            assert 1e-4 <= trial.config["lr"] <= 1e-2
            assert isinstance(width, int)
            assert 8 <= width <= 64
            seen.add(width)
    assert len(seen) > 2
    assert len([event for event in stage.events if event[0] == "exploit"]) > 5


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("mode", ["min", "max"])
def test_N6l_what_is_not_finite_is_worst(bad, mode):
    worst = -1e300 if mode == "max" else 1e300

    asha = Stage(ASHAScheduler(metric="score", mode=mode))
    asha.report(asha.add(), score=worst)
    assert asha.report(asha.add(), score=bad) == TrialScheduler.STOP

    median = Stage(
        MedianStoppingRule("training_iteration", metric="score", mode=mode, grace_period=0, min_samples_required=1)
    )
    median.report(median.add(), score=worst)
    assert median.report(median.add(), score=bad) == TrialScheduler.STOP

    band = Stage(HyperBandScheduler(metric="score", mode=mode, max_t=3))
    trials = [band.add() for _ in range(5)][2:]
    assert band.report(trials[0], score=bad) == TrialScheduler.PAUSE
    assert band.report(trials[1], score=worst) == TrialScheduler.PAUSE
    assert band.report(trials[2], score=bad) == TrialScheduler.STOP
    assert [trial.status for trial in trials] == ["TERMINATED", "PAUSED", "TERMINATED"]

    stage, trials = population(pbt(mode=mode), count=2)
    stage.report(trials[0], training_iteration=5, score=worst)
    assert stage.report(trials[1], training_iteration=5, score=bad) == TrialScheduler.CONTINUE  # nobody was saved yet
    stage.report(trials[0], training_iteration=10, score=worst)
    stage.report(trials[1], training_iteration=10, score=bad)
    assert ("exploit", "t001", "t000") in stage.events
    assert ("save", "t001") not in stage.events


def _schedulers():
    return [
        ASHAScheduler(metric="score", mode="max", brackets=2, max_t=9, reduction_factor=3),
        HyperBandScheduler(metric="score", mode="max", max_t=9),
        HyperBandForBOHB(metric="score", mode="max", max_t=9),
        MedianStoppingRule("training_iteration", metric="score", mode="max", grace_period=2, min_samples_required=2),
        pbt(perturbation_interval=3, seed=None),
        pbt(perturbation_interval=3, synch=True, hyperparam_mutations={"lr": [0.1, 0.2, 0.3]}),
        PB2("training_iteration", "score", "max", 3, {"momentum": [0.0, 1.0]}),
    ]


@pytest.mark.parametrize("number", range(7))
def test_N6m_a_fresh_scheduler_that_is_told_the_same_goes_on_the_same(number):
    def value(trial, iteration):
        return math.sin(trial.number * 12.9 + iteration) * 10 + trial.config.get("lr", 0) + trial.number

    def begin():
        stage = Stage(_schedulers()[number], places=3)
        for one in range(9):
            stage.add({"lr": 0.2, "momentum": 0.5, "who": one})
        return stage

    def go_on(stage):
        stage.events.clear()
        stage.run(value, end_at=12)
        return stage.events, [(trial.config, trial.last_result, trial.status) for trial in stage.trials]

    whole, half = begin(), begin()
    for stage in (whole, half):
        for iteration in range(1, 5):
            for trial in stage.trials:
                if trial.status not in ("PAUSED", "TERMINATED", "ERROR"):
                    stage.report(trial, score=value(trial, iteration))
        stage.fail(stage.get_live_trials()[-1])
    # A new scheduler is told what the old one was told; what it asks for while it listens has been done.
    fresh = _schedulers()[number]
    past = Stage(fresh)
    past.is_replaying = True
    for name in ("pause_trial", "stop_trial", "save_trial", "exploit", "update_trial_resources"):
        setattr(past, name, lambda *_: None)
    past.trials = half.trials
    for kind, trial, result in half.told:
        arguments = () if result is None else (result,)
        getattr(fresh, f"on_trial_{kind}")(past, trial, *arguments)
    half.scheduler = fresh
    assert go_on(half) == go_on(whole)


@pytest.mark.parametrize("number", range(7))
def test_N6m_a_scheduler_that_was_saved_goes_on_from_its_file(number, tmp_path):
    def begin():
        stage = Stage(_schedulers()[number], places=3)
        for _ in range(6):
            stage.add({"lr": 0.2, "momentum": 0.5})
        for trial in stage.trials:
            if trial.status == "PENDING":
                stage.report(trial, score=trial.number)
        return stage

    kept, whole = begin(), begin()
    kept.scheduler.save(str(tmp_path / "state"))
    fresh = _schedulers()[number]
    fresh.restore(str(tmp_path / "state"))
    assert fresh.debug_string() == whole.scheduler.debug_string()


@pytest.mark.parametrize("kind", [ASHAScheduler, HyperBandScheduler, HyperBandForBOHB, MedianStoppingRule])
def test_N6n_metric_and_mode_come_from_the_scheduler_or_from_the_experiment(kind):
    with pytest.raises(ValueError, match=r"has been instantiated without a valid `metric` \(None\) or `mode` \(None\)"):
        Stage(kind()).add()
    with pytest.raises(AssertionError, match="`mode` must be 'min' or 'max'"):
        kind(mode="best")
    given = kind(metric="a", mode="max")
    assert not given.set_search_properties("b", None)
    assert not given.set_search_properties(None, "min")
    assert given.set_search_properties(None, None)
    assert (given.metric, given.mode) == ("a", "max")
    open_one = kind()
    assert open_one.set_search_properties("b", "min")
    assert (open_one.metric, open_one.mode) == ("b", "min")
    bare = kind()
    assert bare.set_search_properties(None, "min")
    assert bare.metric == "_metric"


def test_N6n_a_result_without_the_metric_does_what_it_does_in_ray():
    for scheduler in (ASHAScheduler(metric="a", mode="max"), MedianStoppingRule(metric="a", mode="max")):
        stage = Stage(scheduler)
        assert stage.report(stage.add(), other=1) == TrialScheduler.CONTINUE
    stage = Stage(HyperBandScheduler(metric="a", mode="max", max_t=1))
    with pytest.raises(KeyError):
        stage.report(stage.add(), other=1)
    stage, trials = population(pbt())
    with pytest.raises(RuntimeError, match="Cannot find metric score in trial result .*require_attrs=False"):
        stage.report(trials[0], other=1)
    stage, trials = population(pbt(require_attrs=False))
    assert stage.report(trials[0], other=1) == TrialScheduler.CONTINUE


def test_N6o_a_scheduler_of_the_users_own_gets_the_same_calls():
    calls = []

    class Mine(FIFOScheduler):
        def on_trial_add(self, controller, trial):
            calls.append(("add", trial.trial_id))

        def on_trial_result(self, controller, trial, result):
            calls.append(("result", result["score"]))
            if result["score"] > 2:
                return TrialScheduler.STOP
            return TrialScheduler.PAUSE if trial.number else TrialScheduler.CONTINUE

        def on_trial_complete(self, controller, trial, result):
            calls.append(("complete", trial.trial_id, len(controller.get_live_trials())))

    stage = Stage(Mine(), places=1)
    stage.add()
    stage.add()
    stage.run(lambda trial, iteration: iteration + trial.number)
    assert calls == [
        *(("add", "t000"), ("add", "t001")),
        *(("result", 1), ("result", 2), ("result", 3), ("complete", "t000", 1)),
        *(("result", 2), ("result", 3), ("complete", "t001", 0)),
    ]
