"""Names that programs import, and helpers behind them."""

import importlib
import tempfile
from pathlib import Path

import pytest

from eagleray import tune
from eagleray.tune import utils
from eagleray.tune.error import TuneError


@pytest.mark.parametrize(
    "name",
    [
        "tune.SyncConfig",
        "train.SyncConfig",
        "tune.syncer.SyncConfig",
        "tune.trial.Trial",
        "tune.utils.log.Verbosity",
        "tune.utils.placement_groups.PlacementGroupFactory",
        "tune.utils.util.flatten_dict",
    ],
)
def test_a_name_is_found_where_programs_look_for_it(name):
    module, _, attribute = f"eagleray.{name}".rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_a_sync_config_is_taken_unless_files_would_be_missed():
    assert tune.RunConfig(sync_config=tune.SyncConfig(syncer=None, sync_period=60)).sync_config.sync_period == 60
    with pytest.raises(TuneError, match="files are not copied to 's3://bucket'"):
        tune.SyncConfig(upload_dir="s3://bucket")


def test_dictionaries_are_made_flat_and_deep_again():
    deep = {"a": {"b": 1, "c": {"d": 2}, "e": {}}, "f": 3}
    flat = {"a/b": 1, "a/c/d": 2, "a/e": {}, "f": 3}
    assert utils.flatten_dict(deep) == flat
    assert utils.unflatten_dict(flat) == deep
    assert utils.flatten_dict(deep, ".") == {"a.b": 1, "a.c.d": 2, "a.e": {}, "f": 3}
    with pytest.raises(ValueError, match="Found delimiter `/`"):
        utils.flatten_dict({"a/b": 1}, prevent_delimiter=True)
    with pytest.raises(TypeError, match="'a' is a value of its own"):
        utils.unflatten_dict({"a": 1, "a/b": 2})


def test_dictionaries_are_merged_in_depth_and_stay_as_they_were():
    first, second = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "d": {"e": 5}}
    assert utils.merge_dicts(first, second) == {"a": {"b": 4, "c": 2}, "d": {"e": 5}}
    assert first == {"a": {"b": 1, "c": 2}, "d": 3}


class Counts(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, folder):
        return {"count": self.count}

    def load_checkpoint(self, saved):
        self.count = saved["count"]


class Forgets(Counts):
    def load_checkpoint(self, saved):
        raise OSError("no such file")


def test_a_class_that_goes_on_where_it_was_saved_is_valid():
    assert utils.validate_save_restore(Counts)
    with pytest.raises(OSError, match="no such file"):
        utils.validate_save_restore(Forgets)


def test_an_instance_made_by_hand_makes_no_folder_before_it_needs_one(tmp_path, monkeypatch):
    """Each left an empty one in /tmp."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = Counts({})
    made.train()
    made.stop()
    assert list(tmp_path.iterdir()) == []
    saved = made.save()
    assert [str(tmp_path), made.logdir] == [str(Path(made.logdir).parent), str(Path(saved.path).parent)]
