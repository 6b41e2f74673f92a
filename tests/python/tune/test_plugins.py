"""Mistakes in searchers, schedulers and trainables of the user's own are told by name."""

import errno

import pytest

from eagleray import tune
from eagleray.tune.error import TuneError
from eagleray.tune.logger import DefaultLogs
from eagleray.tune.schedulers import FIFOScheduler
from eagleray.tune.search import Searcher

pytestmark = pytest.mark.usefixtures("shared_ray")


def once(config):
    tune.report({"loss": 1})


@pytest.fixture
def run(tmp_path):
    """Runs an experiment in the test's folder."""

    def start(trainable=once, **more):
        return tune.run(trainable, name="exp", storage_path=str(tmp_path), verbose=0, **more)

    return start


class Suggests(Searcher):
    def __init__(self, *answers):
        super().__init__("loss", "min")
        self._answers = list(answers)

    def suggest(self, trial_id):
        return self._answers.pop(0)

    def on_trial_complete(self, trial_id, result=None, error=False):
        pass


class Without(Searcher):
    pass


def test_a_suggestion_that_is_no_configuration_is_told(run):
    with pytest.raises(TypeError, match="Suggests.suggest must return a dictionary, None or Searcher.FINISHED; got 5"):
        run(search_alg=Suggests(5))


def test_a_searcher_that_waits_for_nothing_is_told_by_its_name(run):
    with pytest.raises(TuneError, match="Suggests proposes nothing although nothing runs"):
        run(search_alg=Suggests(None))


def test_a_searcher_without_suggest_is_told_by_its_name(run):
    with pytest.raises(NotImplementedError, match=r"Without has no suggest\(\)"):
        run(search_alg=Without())


def test_a_searcher_that_cannot_be_told_of_a_space_says_so(run):
    """It said that the searcher had a space already, which it had not."""
    with pytest.raises(ValueError, match="Suggests takes no space from `param_space`, since it does not override"):
        run(search_alg=Suggests({}), config={"x": tune.uniform(0, 1)})


@pytest.mark.parametrize("decision", ["BANANA", None])
def test_a_decision_that_there_is_not_is_told(run, decision):
    """Anything else than STOP and PAUSE was taken for CONTINUE, a misspelt one too."""

    class Odd(FIFOScheduler):
        def on_trial_result(self, controller, trial, result):
            return decision

    with pytest.raises(TuneError, match=rf"Odd.on_trial_result must return one of CONTINUE, .*; got {decision!r}"):
        run(scheduler=Odd())


def test_a_checkpoint_that_is_none_is_told(run):
    def train(config):
        tune.report({"loss": 1}, checkpoint="folder")

    [trial] = run(train, raise_on_failed_trial=False).trials
    assert (
        str(trial.error) == "`checkpoint` must be a tune.Checkpoint, as Checkpoint.from_directory(folder); got 'folder'"
    )


class CannotBeSaved(tune.Trainable):
    def step(self):
        return {"loss": 1}


def test_a_class_that_cannot_be_saved_leaves_nothing_half_done(run, tmp_path):
    with pytest.warns(UserWarning, match=r"could not be saved: CannotBeSaved has no save_checkpoint\(\)"):
        run(CannotBeSaved, stop={"training_iteration": 1}, checkpoint_at_end=True)
    assert list(tmp_path.glob("exp/*/checkpoint*")) == []


def test_a_full_disk_is_told_once_and_callbacks_hear_of_the_end(run, monkeypatch):
    """The last attempt to write failed as the first one had: two errors were shown, and nobody was told of the end."""

    def full(logs):
        raise OSError(errno.ENOSPC, "No space left on device", "result.json")

    class Hears(tune.Callback):
        def __init__(self):
            self.ends = 0

        def on_experiment_end(self, trials, **info):
            self.ends += 1

    monkeypatch.setattr(DefaultLogs, "flush", full)
    callback = Hears()
    with pytest.raises(OSError, match="No space left") as caught:
        run(callbacks=[callback])
    assert caught.value.__context__ is None
    assert callback.ends == 1
