"""Programs as users write them, each about one feature of Ray's core, of Tune or of RLlib, run through `eagleray run`."""

from pathlib import Path

import pytest

FOLDERS = [Path(__file__).parent / name for name in ("core", "tune", "rllib")]
PROGRAMS = [path for folder in FOLDERS for path in sorted(folder.glob("[!_]*.py"))]


@pytest.mark.parametrize("program", PROGRAMS, ids=[f"{path.parent.name}/{path.stem}" for path in PROGRAMS])
def test_X3a_the_program_runs(program, drivers, tmp_path, monkeypatch):
    # Experiments are written below the home folder.
    monkeypatch.setenv("HOME", str(tmp_path))
    ended = drivers.command("run", str(program), timeout=50)
    assert ended.returncode == 0, ended.stderr
    # What a worker printed may come behind it.
    assert "ok" in ended.stdout.splitlines()
    if program.stem == "debugging":
        assert "a line from an actor" in ended.stderr
        assert "100%" in ended.stdout
