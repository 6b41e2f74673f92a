"""The engine writes down what it does in the session's folder, from the level on that a setting says."""

import pytest

PROGRAM = """
ray.init(num_cpus=1)
@ray.remote(max_retries=0)
def crash():
    os._exit(3)
try:
    ray.get(crash.remote())
except ray.exceptions.WorkerCrashedError:
    pass
from eagleray import _native
import pathlib
folder = pathlib.Path(_native.identity()["session_dir"]) / "logs"
texts = {path.name: path.read_text() for path in folder.glob("core-*.log")}
print("files", sorted(texts))
print("text", " ".join("".join(texts.values()).split()))
"""


@pytest.mark.parametrize("name", ["EAGLERAY_BACKEND_LOG_LEVEL", "RAY_BACKEND_LOG_LEVEL"])
def test_what_ended_is_written_down_where_the_level_asks_for_it(drivers, monkeypatch, name):
    monkeypatch.setenv(name, "info")
    driver = drivers.start(PROGRAM)
    assert driver.hear_until("files") != "[]"
    assert "a process has ended: exit code 3" in driver.hear_until("text")
    assert driver.end()[0] == 0
    assert not list(drivers.folder.glob("session_*")), "it goes with the session"


@pytest.mark.parametrize("level", ["off", "error,node=off", ""])
def test_nothing_is_written_and_no_file_made_where_it_does_not(drivers, monkeypatch, level):
    monkeypatch.setenv("EAGLERAY_BACKEND_LOG_LEVEL", level)
    driver = drivers.start(PROGRAM)
    assert driver.hear_until("files") == "[]"
    assert driver.end()[0] == 0


def test_what_is_no_level_is_told_at_once(drivers, monkeypatch):
    monkeypatch.setenv("EAGLERAY_BACKEND_LOG_LEVEL", "loud")
    code, _, err = drivers.start("ray.init(num_cpus=1)").end()
    assert code == 1
    assert (
        'ValueError: EAGLERAY_BACKEND_LOG_LEVEL: "loud" is no level: use off, error, warn, info, debug or trace' in err
    )
