"""Programs as users write them, each about one feature of Ray's core, run through `eagleray run`."""

from pathlib import Path

import pytest

CORE = sorted((Path(__file__).parent / "core").glob("[!_]*.py"))


@pytest.mark.parametrize("program", CORE, ids=[path.stem for path in CORE])
def test_X3a_the_program_runs(program, drivers):
    ended = drivers.command("run", str(program), timeout=50)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "ok"
    if program.stem == "debugging":
        assert "a line from an actor" in ended.stderr
        assert "100%" in ended.stdout
