"""Faces of the schedulers: what they refuse, how they are made, what they say."""

import importlib
import random

import pytest
from tests.python.tune.stage import Stage

from eagleray.tune import schedulers
from eagleray.tune.error import TuneError
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers import PB2, PopulationBasedTraining, PopulationBasedTrainingReplay, _mutations
from eagleray.tune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
    ResourceChangingScheduler,
)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("trial_scheduler", ["TrialScheduler", "FIFOScheduler"]),
        ("async_hyperband", ["AsyncHyperBandScheduler", "ASHAScheduler"]),
        ("hyperband", ["HyperBandScheduler"]),
        ("hb_bohb", ["HyperBandForBOHB"]),
        ("median_stopping_rule", ["MedianStoppingRule"]),
        ("pbt", ["PopulationBasedTraining", "PopulationBasedTrainingReplay"]),
        ("pb2", ["PB2"]),
        (
            "resource_changing_scheduler",
            ["ResourceChangingScheduler", "DistributeResources", "evenly_distribute_cpus_gpus"],
        ),
    ],
)
def test_names_are_where_programs_look_for_them(module, names):
    found = importlib.import_module(f"eagleray.tune.schedulers.{module}")
    assert all(hasattr(found, name) for name in names)


def test_schedulers_are_made_by_name():
    made = schedulers.create_scheduler("async_hyperband", metric="a", mode="max", max_t=7)
    assert isinstance(made, schedulers.ASHAScheduler)
    assert isinstance(schedulers.create_scheduler("FIFO"), schedulers.FIFOScheduler)
    assert isinstance(schedulers.create_scheduler("pb2", hyperparam_bounds={"a": [0, 1]}), PB2)
    with pytest.raises(ValueError, match="must be one of .*'pbt'.* Got: nothing"):
        schedulers.create_scheduler("nothing")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_t": 0}, "Max \\(time_attr\\) not valid!"),
        ({"grace_period": 0}, "grace_period must be positive!"),
        ({"grace_period": 11, "max_t": 10}, "grace_period must be <= max_t!"),
        ({"reduction_factor": 1}, "Reduction Factor not valid!"),
        ({"brackets": 0}, "brackets must be positive!"),
    ],
)
def test_asha_refuses_what_makes_no_sense(options, text):
    with pytest.raises(AssertionError, match=text):
        schedulers.ASHAScheduler(**options)


def test_pbt_refuses_what_makes_no_sense():
    with pytest.raises(TuneError, match="at least one of `hyperparam_mutations` or `custom_explore_fn`"):
        PopulationBasedTraining()
    with pytest.raises(TypeError, match="must be either a List, Tuple, Dict"):
        PopulationBasedTraining(hyperparam_mutations={"a": 3})
    with pytest.raises(TypeError, match="must be either a List, Tuple, Dict"):
        PopulationBasedTraining(hyperparam_mutations={"a": {"b": 3}})
    with pytest.raises(ValueError, match="`quantile_fraction`"):
        PopulationBasedTraining(hyperparam_mutations={"a": [1]}, quantile_fraction=0.6)
    with pytest.raises(ValueError, match="perturbation_interval must be a positive number"):
        PopulationBasedTraining(hyperparam_mutations={"a": [1]}, perturbation_interval=0)
    with pytest.raises(AssertionError, match="`mode` must be 'min' or 'max'"):
        PopulationBasedTraining(hyperparam_mutations={"a": [1]}, mode="up")

    class SearchGenerator:
        pass

    pbt = PopulationBasedTraining(metric="a", mode="max", hyperparam_mutations={"a": [1]})
    with pytest.raises(ValueError, match="Search algorithms cannot be used with PopulationBasedTraining schedulers"):
        Stage(pbt, search_alg=SearchGenerator()).add()


def test_pb2_refuses_what_makes_no_sense():
    with pytest.raises(TuneError, match="`hyperparam_bounds` must be specified to use PB2"):
        PB2(metric="a", mode="max")
    with pytest.raises(ValueError, match="must either be a list or tuple of size 2"):
        PB2(metric="a", mode="max", hyperparam_bounds={"a": [1, 2, 3]})
    with pytest.raises(ValueError, match="must be \\[low, high\\]"):
        PB2(metric="a", mode="max", hyperparam_bounds={"a": [2, 1]})


def test_pbt_draws_what_a_configuration_lacks_and_keeps_what_it_has():
    mutations = {"a": [1, 2, 3], "b": {"c": lambda: 7, "d": [5]}, "e": [9]}
    pbt = PopulationBasedTraining(metric="s", mode="max", hyperparam_mutations=mutations)
    trial = Stage(pbt).add({"e": 4, "b": {"d": 6}})
    assert trial.config["a"] in (1, 2, 3)
    assert trial.config["b"] == {"c": 7, "d": 6}
    assert trial.config["e"] == 4
    assert trial.evaluated_params == {"a": trial.config["a"], "b/c": 7}


def test_a_functions_draws_leave_the_programs_own_chance_alone():
    random.seed(5)
    before = random.getstate()
    pbt = PopulationBasedTraining(metric="s", mode="max", hyperparam_mutations={"a": [1, 2, 3]})
    Stage(pbt).add()
    assert random.getstate() == before


def test_the_users_own_explore_function_has_the_last_word():
    def explore(config):
        config["lr"] = 42
        return config

    def forgets(config):
        return None

    for function, expected in ((explore, 42), (forgets, None)):
        pbt = PopulationBasedTraining(
            "training_iteration", "s", "max", 1, hyperparam_mutations={"lr": [1, 2]}, custom_explore_fn=function
        )
        stage = Stage(pbt)
        good, bad = stage.add({"lr": 1}), stage.add({"lr": 1})
        bad.status = Trial.RUNNING
        stage.report(good, s=2)
        stage.report(bad, s=1)
        stage.report(good, s=2)
        if expected is None:
            with pytest.raises(AssertionError, match="Custom explore fn failed to return new config"):
                stage.report(bad, s=1)
        else:
            stage.report(bad, s=1)
            assert bad.config["lr"] == expected


class Domain:
    """What `tune.uniform` is to a scheduler."""

    def __init__(self, values):
        self.values = values

    def sample(self, config=None, size=1, random_state=None):
        return random.Random(random_state).choice(self.values)


def test_changes_are_made_as_they_were_drawn():
    config = {"list": 2, "whole": 10, "real": 0.5, "word": "sgd", "in": {"deep": 1}}
    mutations = {
        "list": [1, 2, 3],
        "whole": Domain([64]),
        "real": Domain([0.25]),
        "word": Domain(["adam"]),
        "in": {"deep": [1, 2]},
    }
    _mutations.check(mutations)
    leaves = list(_mutations.leaves(mutations))
    assert _mutations.genes(config, leaves) == [(3, 1), None, None, (0, None), (2, 0)]
    changes = [("right", 2), ("scale", 1.25), ("resample", 7), ("resample", 8), ("left", 0)]
    new, operations = _mutations.apply(config, leaves, changes)
    assert new == {"list": 3, "whole": 12, "real": 0.25, "word": "adam", "in": {"deep": 1}}
    assert config["in"] == {"deep": 1}
    assert _mutations.summary(_mutations.only(config, mutations), new, operations) == (
        "list : 2 --- (shift right) --> 3\nwhole : 10 --- (* 1.25) --> 12\nreal : 0.5 --- (resample) --> 0.25\n"
        "word : sgd --- (resample) --> adam\nin : \n    deep : 1 --- (shift left (noop)) --> 1\n"
    )


def test_a_replay_begins_where_the_tags_chain_begins(tmp_path):
    file = tmp_path / "pbt_policy_x.txt"
    file.write_text(
        '["9", "8", 1, 1, {"a": 0}, {"a": 100}]\n["2", "1", 3, 4, {"a": 1}, {"a": 2}]\n["3", "2", 5, 6, {"a": 2}, {"a": 3}]\n'
    )
    replay = PopulationBasedTrainingReplay(str(file))
    assert replay.config == {"a": 1}
    assert replay._policy == [(4, {"a": 2}), (6, {"a": 3})]
    file.write_text("no json\n")
    with pytest.raises(ValueError, match="Could not read PBT policy file"):
        PopulationBasedTrainingReplay(str(file))
    with pytest.raises(ValueError, match="Policy file not found"):
        PopulationBasedTrainingReplay(str(tmp_path / "none"))


def test_bohbs_searcher_hears_of_pauses_and_budgets():
    heard = []

    class Search:
        def on_pause(self, trial_id):
            heard.append(("pause", trial_id))

        def on_unpause(self, trial_id):
            heard.append(("unpause", trial_id))

    stage = Stage(schedulers.HyperBandForBOHB(metric="s", mode="max", max_t=3), search_alg=Search())
    trials = [stage.add() for _ in range(3)]  # as many as the first bracket takes
    for score, trial in enumerate(trials[:2]):
        assert stage.report(trial, s=score) == "PAUSE"
        assert trial.last_result["hyperband_info"] == {"budget": 1}
    trials[2].status = Trial.ERROR
    stage.scheduler.on_trial_error(stage, trials[2])
    assert stage.scheduler.choose_trial_to_run(stage) is trials[1]
    assert heard == [("pause", "t000"), ("pause", "t001"), ("unpause", "t001")]
    assert trials[0].status == Trial.TERMINATED


@pytest.fixture
def eight_cpus(monkeypatch):
    monkeypatch.setattr("eagleray.cluster_resources", lambda: {"CPU": 8.0, "GPU": 2.0, "memory": 1e9})


@pytest.mark.usefixtures("eight_cpus")
def test_free_resources_are_spread_evenly_and_none_gets_less_than_it_began_with():
    stage = Stage(ResourceChangingScheduler(None, DistributeResources()))
    a, b = stage.add(resources={"CPU": 1}), stage.add(resources={"CPU": 1})
    assert stage.report(a) == "PAUSE"
    assert a.resources == {"CPU": 4}
    assert stage.report(b) == "PAUSE"
    assert b.resources == {"CPU": 4}
    assert stage.report(a) == "CONTINUE"
    late = stage.add(resources={"CPU": 1})
    assert stage.report(a) == "PAUSE"
    assert a.resources == {"CPU": 3}
    assert stage.report(late) == "CONTINUE"
    stage.finish(b)
    stage.report(late)
    assert late.resources == {"CPU": 4}


@pytest.mark.usefixtures("eight_cpus")
def test_resources_come_in_units_up_to_a_limit_and_some_may_be_kept_back():
    spread = DistributeResources(increase_by={"CPU": 2, "GPU": 1}, increase_by_times=1, reserve_resources={"CPU": 1})
    stage = Stage(ResourceChangingScheduler(None, spread))
    trial = stage.add(resources={"CPU": 1, "GPU": 0})
    assert stage.report(trial) == "PAUSE"
    assert trial.resources == {"CPU": 3, "GPU": 1}
    assert stage.report(trial) == "CONTINUE"


@pytest.mark.usefixtures("eight_cpus")
def test_the_best_trial_may_get_everything():
    stage = Stage(
        ResourceChangingScheduler(schedulers.ASHAScheduler(metric="s", mode="max"), DistributeResourcesToTopJob())
    )
    good, bad = stage.add(resources={"CPU": 1}), stage.add(resources={"CPU": 1})
    bad.last_result = {"s": 1}
    assert stage.report(good, s=2) == "PAUSE"
    assert good.resources == {"CPU": 7}
    assert stage.report(bad, s=2.0) == "CONTINUE"
    assert bad.resources == {"CPU": 1}


def test_changing_resources_needs_trials_that_begin_alike_and_passes_the_rest_on():
    stage = Stage(ResourceChangingScheduler(None, lambda *_: {"cpu": 3}))
    trial = stage.add(resources={"CPU": 1})
    with pytest.raises(RuntimeError, match="doesn't support trials with varying base resources"):
        stage.add(resources={"CPU": 2})
    stage.trials.pop()
    assert stage.report(trial) == "PAUSE"
    assert stage.events[0] == ("resources", "t000", {"cpu": 3})
    assert stage.report(trial) == "CONTINUE"  # it has them
    assert stage.scheduler.debug_string() == "(ResourceChangingScheduler) Using FIFO scheduling algorithm."
    with pytest.warns(UserWarning, match="is None"):
        ResourceChangingScheduler(None, None)


def test_nested_metrics_and_values_that_are_no_numbers():
    stage = Stage(schedulers.ASHAScheduler(metric="eval/score", mode="max", max_t=1))
    assert stage.report(stage.add(), eval={"score": 1}) == "STOP"
    with pytest.raises(TypeError, match="eval/score must be a number"):
        stage.report(stage.add(), eval={"score": "high"})
    assert stage.report(stage.add(), **{"eval/score": None}) == "STOP"


def test_programs_of_old_give_a_reward_attr():
    for made in (
        schedulers.ASHAScheduler(reward_attr="acc"),
        schedulers.HyperBandScheduler(reward_attr="acc"),
        schedulers.MedianStoppingRule(reward_attr="acc"),
        PopulationBasedTraining(reward_attr="acc", hyperparam_mutations={"a": [1]}),
        PB2(reward_attr="acc", hyperparam_bounds={"a": [0, 1]}),
    ):
        assert (made.metric, made.mode) == ("acc", "max")


def test_one_scheduler_serves_two_experiments():
    scheduler = schedulers.FIFOScheduler()
    for name in ("one", "two"):
        stage = Stage(scheduler)
        for _ in range(3):
            stage.add().trial_id += name
            stage.iterations[stage.trials[-1].trial_id] = 0
        assert stage.run(lambda trial, iteration: 0, end_at=2) == 6


def test_first_come_first_served_and_paused_ones_last():
    stage = Stage(schedulers.FIFOScheduler())
    first, second = stage.add(), stage.add()
    first.status = Trial.PAUSED
    assert stage.scheduler.choose_trial_to_run(stage) is second
    second.status = Trial.RUNNING
    assert stage.scheduler.choose_trial_to_run(stage) is first
    assert stage.scheduler.metric is None
    assert stage.scheduler.set_search_properties(None, "max")
    assert stage.scheduler.metric == "_metric"


def test_a_time_attr_that_no_result_has_is_told_once(caplog):
    stage = Stage(schedulers.ASHAScheduler(metric="loss", mode="min", time_attr="trainin_iteration"))
    trial = stage.add()
    for _ in range(3):
        stage.report(trial, loss=1.0)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "'trainin_iteration'" in told
    assert "Did you mean 'training_iteration'?" in told
