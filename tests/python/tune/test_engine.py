"""Every kind of trainable, scheduler and searcher through whole experiments on real processes."""

import json
import os
from pathlib import Path

import pytest
from tests.python.tune.trials import iterations, number_of, rows_of, save_number, start_of

from eagleray import tune
from eagleray.tune.schedulers import (
    PB2,
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
    TrialScheduler,
)
from eagleray.tune.search import ConcurrencyLimiter, Repeater, Searcher, TPESearch

pytestmark = pytest.mark.usefixtures("shared_ray")


@pytest.fixture
def fit(tmp_path):
    """Runs an experiment in the test's folder."""

    def run(trainable, space=None, *, name="exp", stop=None, checkpoint=None, **more):
        run_config = tune.RunConfig(
            name=name,
            storage_path=str(tmp_path),
            verbose=0,
            stop=stop,
            checkpoint_config=checkpoint or tune.CheckpointConfig(),
        )
        config = tune.TuneConfig(**more)
        grid = tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run_config).fit()
        assert not grid.errors
        return grid

    return run


# Classes.


class Old(tune.Trainable):
    """With the names of old. `_save` gives a path."""

    def _setup(self, config):
        self.value = config["start"]

    def _train(self):
        self.value += 1
        return {"value": self.value}

    def _save(self, folder):
        path = os.path.join(folder, "value")
        Path(path).write_text(str(self.value))
        return path

    def _restore(self, path):
        self.value = int(Path(path).read_text())

    def _stop(self):
        Path(self.logdir, "stopped").touch()


class New(tune.Trainable):
    """With the names of now. `save_checkpoint` gives a dictionary."""

    def setup(self, config):
        self.value = config["start"]

    def step(self):
        self.value += 1
        if self.value == self.config.get("fails_at") and not os.path.exists("failed"):
            Path("failed").touch()
            raise RuntimeError("on purpose")
        return {"value": self.value}

    def save_checkpoint(self, folder):
        return {"value": self.value}

    def load_checkpoint(self, checkpoint):
        self.value = checkpoint["value"]

    def cleanup(self):
        Path(self.logdir, "stopped").touch()


@pytest.mark.parametrize("trainable", [Old, New])
def test_a_class_is_stepped_saved_and_stopped(fit, trainable):
    rule = tune.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True)
    grid = fit(trainable, {"start": tune.grid_search([0, 10])}, stop={"training_iteration": 5}, checkpoint=rule)
    for result in grid:
        start = result.config["start"]
        assert [row["value"] for row in rows_of(result)] == [start + step for step in range(1, 6)]
        assert iterations(result) == [1, 2, 3, 4, 5]
        folders = sorted(path.name for path in Path(result.path).glob("checkpoint_*"))
        assert folders == ["checkpoint_000000", "checkpoint_000001", "checkpoint_000002"]
        again = trainable({"start": 0})
        again.restore(result.checkpoint)
        assert (again.value, again.iteration) == (start + 5, 5)


def test_a_class_that_ends_by_a_decision_is_cleaned_up(fit):
    [result] = fit(New, {"start": 0}, stop={"value": 2})
    assert (Path(result.path) / "stopped").exists()


@pytest.mark.parametrize("frequency", [0, 1, 2])
def test_a_class_that_fails_goes_on_from_its_checkpoint(tmp_path, frequency):
    run = tune.RunConfig(
        name="exp",
        storage_path=str(tmp_path),
        verbose=0,
        stop={"training_iteration": 6},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=frequency, num_to_keep=1),
        failure_config=tune.FailureConfig(max_failures=1),
    )
    [result] = tune.Tuner(New, param_space={"start": 0, "fails_at": 4}, run_config=run).fit()
    assert result.error is None
    assert [row["value"] for row in rows_of(result)] == [1, 2, 3, 4, 5, 6]
    assert iterations(result) == [1, 2, 3, 4, 5, 6]


def test_a_class_may_ask_for_a_checkpoint_itself(fit):
    class Asks(New):
        def step(self):
            return {**super().step(), "should_checkpoint": self.value == 2}

    [result] = fit(Asks, {"start": 0}, stop={"value": 3})
    [(checkpoint, metrics)] = result.best_checkpoints
    assert metrics["value"] == 2
    assert Path(checkpoint.path).is_dir()


def test_older_experiments_by_name_and_dictionary(tmp_path):
    tune.register_trainable("a_name_of_its_own", Old)
    spec = {
        "run": "a_name_of_its_own",
        "stop": {"value": 3},
        "config": {"start": tune.grid_search([0, 1])},
        "storage_path": str(tmp_path),
        "checkpoint_at_end": True,
    }
    trials = tune.run_experiments({"exp": spec}, verbose=0)
    assert [trial.last_result["value"] for trial in trials] == [3, 3]
    assert all(trial.checkpoint is not None for trial in trials)


def test_checkpoint_dir_and_restore_of_old(tmp_path):
    def saves(config):
        start = start_of()
        for step in range(start, start + 2):
            with tune.checkpoint_dir(step) as folder:
                (Path(folder) / "number").write_text(str(step + 1))
            tune.report(step=step)

    options = {"storage_path": str(tmp_path), "verbose": 0}
    first = tune.run(saves, name="a", **options)
    assert number_of(first.trials[0].checkpoint) == 2
    second = tune.run(saves, name="b", restore=first.trials[0].checkpoint.path, **options)
    assert [row["step"] for row in rows_of(second.trials[0])] == [2, 3]


# Schedulers.


def curve(config):
    for step in range(start_of(), 9):
        tune.report({"score": config["x"] * (step + 1)}, checkpoint=save_number(step + 1))


class Curve(tune.Trainable):
    """As `curve`."""

    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        return {"score": self.config["x"] * self.n, "done": self.n >= 9}

    def save_checkpoint(self, folder):
        (Path(folder) / "number").write_text(str(self.n))

    def load_checkpoint(self, folder):
        self.n = number_of(tune.Checkpoint(folder))

    def reset_config(self, new_config):
        self.n = 0
        return True


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda: ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3),
        lambda: HyperBandScheduler(max_t=9),
        lambda: HyperBandForBOHB(max_t=9),
        lambda: MedianStoppingRule(time_attr="training_iteration", grace_period=1, min_samples_required=2),
        lambda: MedianStoppingRule(
            time_attr="training_iteration", grace_period=1, min_samples_required=2, min_time_slice=1, hard_stop=False
        ),
    ],
    ids=["asha", "hyperband", "bohb", "median", "median that pauses"],
)
@pytest.mark.parametrize("trainable", [curve, Curve])
def test_schedulers_stop_the_worse_and_bring_the_best_to_its_end(fit, trainable, scheduler):
    space = {"x": tune.grid_search([9, 1, 8, 2, 7, 3])}
    grid = fit(trainable, space, metric="score", mode="max", scheduler=scheduler(), reuse_actors=True)
    assert grid.num_terminated == 6
    assert grid.get_best_result().config["x"] == 9
    for result in grid:
        # Paused and resumed, none is counted twice or passed over.
        assert iterations(result) == list(range(1, len(rows_of(result)) + 1))
        assert result.metrics["score"] == result.config["x"] * len(rows_of(result))
    assert len(rows_of(grid[0])) == 9


def climbs(config):
    """Its score grows by its rate: who goes on from another goes on from its score."""
    checkpoint = tune.get_checkpoint()
    score, step = 0.0, 0
    if checkpoint is not None:
        score, step = json.loads((Path(checkpoint.path) / "state").read_text())
    while step < 12:
        score, step = score + config["rate"], step + 1
        Path("made").mkdir(exist_ok=True)
        Path("made/state").write_text(json.dumps((score, step)))
        tune.report({"score": score, "rate": config["rate"]}, checkpoint=tune.Checkpoint.from_directory("made"))


class Climbs(tune.Trainable):
    """As `climbs`."""

    def setup(self, config):
        self.score, self.at = 0.0, 0

    def step(self):
        self.score, self.at = self.score + self.config["rate"], self.at + 1
        return {"score": self.score, "rate": self.config["rate"], "done": self.at >= 12}

    def save_checkpoint(self, folder):
        return {"state": (self.score, self.at)}

    def load_checkpoint(self, checkpoint):
        self.score, self.at = checkpoint["state"]

    def reset_config(self, new_config):
        self.config = new_config
        self.score, self.at = 0.0, 0
        return True


def population(kind, **more):
    options = {"time_attr": "training_iteration", "perturbation_interval": 5, "seed": 1, **more}
    if kind == "pb2":
        return PB2(hyperparam_bounds={"rate": [0.0, 10.0]}, **options)
    return PopulationBasedTraining(hyperparam_mutations={"rate": tune.uniform(0, 10)}, quantile_fraction=0.5, **options)


def is_through(result):
    """A function may have gone on from one that was through: it has nothing more to report then."""
    return iterations(result)[-1] == 12 or json.loads(Path(result.checkpoint.path, "state").read_text())[1] == 12


def check_story(grid):
    """Each result goes on from one before it, of its own trial or of the one that it went on from."""
    rows = [row for result in grid for row in rows_of(result)]
    for row in rows:
        at = row["training_iteration"]
        before = [other["score"] for other in rows if other["training_iteration"] == at - 1] if at > 1 else [0.0]
        assert any(score + row["rate"] == row["score"] for score in before), row


@pytest.mark.parametrize("trainable", [climbs, Climbs])
@pytest.mark.parametrize("kind", ["pbt", "in step", "pb2"])
def test_a_population_learns_from_its_best(fit, trainable, kind):
    scheduler = population(kind, synch=kind == "in step")
    # Fewer places than trials: each is paused and goes on. Not in step, one place: else it would matter who is faster.
    trainable = tune.with_resources(trainable, {"cpu": 1 if kind == "in step" else 2})
    more = {"metric": "score", "mode": "max", "reuse_actors": kind != "in step"}
    grid = fit(trainable, {"rate": tune.grid_search([1.0, 9.0, 0.5, 8.0])}, scheduler=scheduler, **more)
    assert grid.num_terminated == 4
    assert scheduler._num_perturbations > 0
    for result in grid:
        assert is_through(result)
    check_story(grid)
    learned = [result for result, rate in zip(grid, (1.0, 9.0, 0.5, 8.0), strict=True) if result.config["rate"] != rate]
    assert learned
    assert all(result.metrics["rate"] == result.config["rate"] for result in grid)


@pytest.mark.parametrize(
    ("trainable", "synch", "count"),
    [(climbs, False, 5), (climbs, False, 23), (climbs, True, 14), (Climbs, False, 14), (Climbs, True, 17)],
)
def test_a_population_that_is_interrupted_goes_on(tmp_path, trainable, synch, count):
    class Ends(tune.Callback):
        def __init__(self):
            self.left = count

        def on_trial_result(self, iteration, trials, trial, result, **info):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    config = tune.TuneConfig(metric="score", mode="max", scheduler=population("pbt", synch=synch))
    run = tune.RunConfig(name="exp", storage_path=str(tmp_path), verbose=0, callbacks=[Ends()])
    space = {"rate": tune.grid_search([1.0, 9.0, 0.5, 8.0])}
    with pytest.raises(KeyboardInterrupt):
        tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run).fit()
    moved = tmp_path / "moved"
    (tmp_path / "exp").rename(moved)
    tuner = tune.Tuner.restore(str(moved), trainable)
    tuner._run_config.callbacks = None
    grid = tuner.fit()
    assert not grid.errors
    assert len(grid) == 4
    for result in grid:
        assert is_through(result)
        assert Path(result.checkpoint.path).is_relative_to(moved)
    check_story(grid)


@pytest.mark.parametrize("kind", ["pbt", "pb2", "around pbt"])
def test_a_population_that_cannot_be_together_is_told_what_to_set(fit, kind):
    scheduler = population("pb2" if kind == "pb2" else "pbt")
    name = type(scheduler).__name__
    if kind == "around pbt":
        scheduler = ResourceChangingScheduler(scheduler)
    more = {"metric": "score", "mode": "max", "num_samples": 3, "scheduler": scheduler}
    with pytest.warns(UserWarning, match=f"{name} compares trials .* set it to 3 or leave it out") as told:
        fit(climbs, {"rate": 1.0}, max_concurrent_trials=1, **more)
    assert len([one for one in told if "take over from nobody" in str(one.message)]) == 1
    assert scheduler.needs_together(3, 3) is None
    assert "each can take over from one of 2" in scheduler.needs_together(None, 2)


# Searchers.


@pytest.mark.parametrize(
    "search",
    [
        lambda: TPESearch(seed=1, n_startup_trials=4),
        lambda: ConcurrencyLimiter(TPESearch(seed=1, n_startup_trials=4), max_concurrent=1),
        lambda: ConcurrencyLimiter(TPESearch(seed=1, n_startup_trials=4), max_concurrent=3, batch=True),
        lambda: "random",
        lambda: "tpe",
    ],
    ids=["tpe", "limited", "batches", "random by name", "tpe by name"],
)
def test_searchers_give_every_trial_its_configuration(fit, search):
    def square(config):
        tune.report({"loss": (config["x"] - 1) ** 2})

    space = {"x": tune.uniform(-3, 3), "constant": 7}
    grid = fit(square, space, metric="loss", mode="min", num_samples=10, search_alg=search())
    assert len(grid) == 10
    assert len({result.config["x"] for result in grid}) == 10
    assert all(result.config["constant"] == 7 for result in grid)


def test_a_repeater_reports_the_mean(fit):
    heard = []

    class Own(Searcher):
        def suggest(self, trial_id):
            return {"x": len(heard)}

        def on_trial_complete(self, trial_id, result=None, error=False):
            heard.append(result["loss"])

    def indexed(config):
        tune.report({"loss": config["x"] + config["__trial_index__"]})

    searcher = Repeater(Own(metric="loss", mode="min"), repeat=3)
    grid = fit(indexed, num_samples=6, search_alg=searcher, max_concurrent_trials=1)
    assert len(grid) == 6
    assert heard[0] == 1.0


class Counting(Searcher):
    """Suggests 0, 1, 2; then says that it has no more."""

    def __init__(self):
        super().__init__(metric="loss", mode="min")
        self.told = []
        self.given = 0

    def suggest(self, trial_id):
        if self.given == 3:
            return Searcher.FINISHED
        self.given += 1
        return {"x": self.given - 1}

    def on_trial_result(self, trial_id, result):
        self.told.append(("result", result["loss"]))

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.told.append(("complete", result["loss"], error))


def test_a_searcher_of_the_users_own(fit):
    def twice(config):
        tune.report({"loss": config["x"]})
        tune.report({"loss": config["x"] + 0.5})

    searcher = Counting()
    grid = fit(twice, num_samples=100, search_alg=searcher, max_concurrent_trials=1)
    assert [result.config["x"] for result in grid] == [0, 1, 2]
    assert searcher.told == [
        story for x in range(3) for story in (("result", x), ("result", x + 0.5), ("complete", x + 0.5, False))
    ]


class EveryOther(FIFOScheduler):
    """Stops every second trial at its second result, and pauses the others once."""

    def __init__(self):
        super().__init__()
        self.paused = set()
        self.told = []

    def on_trial_add(self, controller, trial):
        self.told.append("add")

    def on_trial_complete(self, controller, trial, result):
        self.told.append("complete")

    def on_trial_result(self, controller, trial, result):
        if trial.config["x"] % 2:
            return TrialScheduler.STOP if result["training_iteration"] == 2 else TrialScheduler.CONTINUE
        if trial.trial_id not in self.paused and result["training_iteration"] == 4:
            self.paused.add(trial.trial_id)
            return TrialScheduler.PAUSE
        return TrialScheduler.CONTINUE


@pytest.mark.parametrize("trainable", [curve, Curve])
def test_a_scheduler_of_the_users_own(fit, trainable):
    scheduler = EveryOther()
    grid = fit(trainable, {"x": tune.grid_search([1, 2, 3, 4])}, scheduler=scheduler)
    assert [len(rows_of(result)) for result in grid] == [2, 9, 2, 9]
    assert [iterations(result) for result in grid] == [[1, 2], list(range(1, 10))] * 2
    assert len(scheduler.paused) == 2
    assert sorted(scheduler.told) == ["add"] * 4 + ["complete"] * 4


def test_a_budget_ends_waiting_trials_with_every_scheduler(fit):
    def endless(config):
        while True:
            tune.report({"score": config["x"]}, checkpoint=save_number(1))

    space = {"x": tune.grid_search([1, 2, 3, 4])}
    for at, scheduler in enumerate((ASHAScheduler(max_t=10**9), HyperBandScheduler(max_t=10**9), population("pbt"))):
        more = {"metric": "score", "mode": "max", "scheduler": scheduler, "time_budget_s": 0.2}
        fields = {**space, "rate": 1.0}
        grid = fit(endless, fields, name=f"e{at}", **more)
        assert grid.num_terminated == len(grid)


# Functions of old.


def steps_of_old(config, checkpoint_dir=None, data=None):
    """Fails once behind its third step."""
    first = int((Path(checkpoint_dir) / "step").read_text()) + 1 if checkpoint_dir else 0
    for step in range(first, 5):
        with tune.checkpoint_dir(step) as folder:
            (Path(folder) / "step").write_text(str(step))
        tune.report(first=first, data=data)
        if step == 2:
            raise ValueError("on purpose")


@pytest.mark.parametrize(
    ("dress", "data"),
    [
        (lambda function: function, None),
        (lambda function: tune.with_parameters(function, data=7), 7),
        (lambda function: tune.with_resources(tune.with_parameters(function, data=7), {"cpu": 1}), 7),
    ],
)
def test_a_function_that_takes_a_checkpoint_dir_gets_its_latest_when_it_goes_on(tmp_path, dress, data):
    """It was never given: every function of that era began from scratch after a failure or an exploit, without a word."""
    analysis = tune.run(dress(steps_of_old), name="exp", storage_path=str(tmp_path), max_failures=1, verbose=0)
    assert analysis.trials[0].last_result["first"] == 3
    assert analysis.trials[0].last_result["data"] == data


def test_a_function_that_takes_a_reporter_gets_it_however_it_is_dressed(fit):
    def train(config, reporter, data=1):
        reporter(value=data)

    dressed = [
        tune.with_parameters(train, data=7),
        tune.with_resources(train, {"cpu": 1}),
        tune.with_resources(tune.with_parameters(train, data=7), {"cpu": 1}),
    ]
    values = [fit(one, name=f"exp{at}")[0].metrics["value"] for at, one in enumerate(dressed)]
    assert values == [7, 1, 7]


def test_what_a_checkpoint_dir_was_filled_with_and_is_never_reported_goes(fit, tmp_path):
    def train(config):
        folders = []
        for step in range(2):
            with tune.checkpoint_dir(step) as folder:
                folders.append(folder)
        tune.report(folders=folders)
        with tune.checkpoint_dir(2) as folder:
            Path(config["note"]).write_text(folder)

    note = tmp_path / "note"
    grid = fit(train, {"note": str(note)})
    left = [*grid[0].metrics["folders"], note.read_text()]
    assert [folder for folder in left if Path(folder).exists()] == []
