"""How an experiment begins: its folder, and what an earlier one left there."""

import contextlib

import pytest

from eagleray import tune
from eagleray._native import tune as native
from eagleray.tune import _resolve
from eagleray.tune.error import JournalLocked, TuneError
from eagleray.tune.search import TPESearch

pytestmark = pytest.mark.usefixtures("shared_ray")


def once(config):
    tune.report({"loss": config.get("x", 1)})


def test_experiments_without_a_name_that_begin_in_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    """The name is the date to the second: the second of two short experiments was refused."""
    monkeypatch.setattr(_resolve.time, "strftime", lambda *_: "2026-01-01_00-00-00")
    names = []
    for _ in range(3):
        names.append(tune.run(once, storage_path=str(tmp_path), verbose=0).experiment_path)
    run = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    names.append(tune.Tuner(once, run_config=run).fit().experiment_path)
    whole = f"{tmp_path}/once_2026-01-01_00-00-00"
    assert names == [whole, f"{whole}_2", f"{whole}_3", f"{whole}_4"]


def test_a_name_that_the_user_chose_is_not_changed(tmp_path):
    (tmp_path / "mine").mkdir()
    path = tune.run(once, name="mine", storage_path=str(tmp_path), verbose=0).experiment_path
    assert path == str(tmp_path / "mine")


@pytest.mark.parametrize("left", [0, 5, 20])
def test_a_journal_in_which_nothing_was_written_holds_no_experiment(tmp_path, left):
    """A disk that is full from the start left a folder that could neither be resumed nor used."""
    tune.run(once, name="exp", storage_path=str(tmp_path), verbose=0)
    journal = tmp_path / "exp" / "journal.eagleray"
    journal.write_bytes(journal.read_bytes()[:left])
    assert len(tune.run(once, name="exp", storage_path=str(tmp_path), verbose=0).trials) == 1


def test_an_experiment_that_was_refused_does_not_keep_its_name(tmp_path):
    """Whoever forgot the metric, or misspelt it, had to remove the folder before the second attempt."""
    where = {"name": "exp", "storage_path": str(tmp_path), "verbose": 0}
    with pytest.raises(ValueError, match="without a valid `metric`"):
        tune.run(once, scheduler="asha", **where)
    with pytest.raises(TuneError, match="did not include the specified metric"):
        tune.run(once, metric="los", mode="min", **where)
    assert len(tune.run(once, metric="loss", mode="min", **where).trials) == 1
    assert not list((tmp_path / "exp").glob("journal-*"))


def test_an_experiment_that_has_only_begun_keeps_its_name(tmp_path):
    (tmp_path / "exp").mkdir()
    with contextlib.closing(native.Journal(str(tmp_path / "exp" / "journal.eagleray"))), pytest.raises(JournalLocked):
        tune.run(once, name="exp", storage_path=str(tmp_path), verbose=0)


def restored(tmp_path, **more):
    run = tune.RunConfig(name="exp", storage_path=str(tmp_path), verbose=0)
    config = tune.TuneConfig(metric="loss", mode="min", num_samples=3, **more)
    tune.Tuner(once, param_space={"x": tune.uniform(0, 1)}, tune_config=config, run_config=run).fit()
    return tune.Tuner.restore(str(tmp_path / "exp"), once)


@pytest.mark.parametrize("more", [{}, {"search_alg": TPESearch(seed=1)}, {"scheduler": "asha"}])
def test_a_restored_tuner_is_looked_at_before_it_goes_on(tmp_path, more):
    """To look had told the searcher what it optimises, and to go on told it again, which was refused."""
    tuner = restored(tmp_path, **more)
    assert len(tuner.get_results()) == 3
    assert len(tuner.fit()) == 3


def test_what_a_tuner_was_given_and_cannot_be_read_is_told(tmp_path):
    restored(tmp_path)
    (tmp_path / "exp" / "tuner.pkl").write_bytes(b"cgone\nname\n.")
    with pytest.raises(TuneError, match=r"tuner\.pkl, .* cannot be read: ModuleNotFoundError"):
        tune.Tuner.restore(str(tmp_path / "exp"), once)
