"""A few seconds of the storm that `make storm` runs for ten minutes."""

import importlib.util
from pathlib import Path

import pytest


def _storm():
    spec = importlib.util.spec_from_file_location("storm", Path(__file__).with_name("storm.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2])
def test_values_outlive_whoever_made_them_and_nothing_is_left(no_session, seed):
    storm, killed, findings = _storm().run(seconds=6, seed=seed)
    assert storm.wrong == []
    assert findings == []
    assert killed >= 10, "no fault landed, so nothing was proven"
    assert storm.reads >= 100
