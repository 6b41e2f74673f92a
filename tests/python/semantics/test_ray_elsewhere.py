"""A program under `eagleray run` finds `ray` wherever it looks: in processes that it starts, as a command, among distributions."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import eagleray
from eagleray._common.version import RAY_VERSION

#: A module, since multiprocessing finds no function of a script in a worker.
WAYS = """
import importlib.metadata
import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import sys

import ray
import ray.util


def look(_=None):
    import eagleray
    import ray.util

    assert ray is eagleray
    assert importlib.util.find_spec("ray") is not None
    assert importlib.util.find_spec("ray.util") is not None
    assert importlib.metadata.version("ray") == ray.__version__
    return importlib.metadata.version("ray")


def by_subprocess(_=None):
    code = "import ray, eagleray, importlib.metadata; assert ray is eagleray; print(importlib.metadata.version('ray'))"
    return subprocess.run([sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def asked_first(_=None):
    code = "import importlib.util as u, importlib.metadata as m; assert u.find_spec('ray'); print(m.version('ray'))"
    return subprocess.run([sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def by_spawn(_=None):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(look)


def by_fork(_=None):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(look)


def as_a_command(_=None):
    said = subprocess.run(["ray", "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return said.split()[2]


def a_session_of_its_own(_=None):
    code = "import ray; ray.init(num_cpus=1); f = ray.remote(lambda: ray.__version__); print(ray.get(f.remote()))"
    return subprocess.run([sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


"""

PROGRAM = """
import multiprocessing
import sys

import ray
import ways


def of_the_script():
    return ways.look()


if __name__ == "__main__":
    how = getattr(ways, sys.argv[1])
    print("here", how())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(of_the_script) == ray.__version__
    ray.init(num_cpus=2)
    print("task", ray.get(ray.remote(how).remote()))
"""

NAMES = ["look", "by_subprocess", "asked_first", "by_spawn", "by_fork", "as_a_command", "a_session_of_its_own"]


@pytest.fixture
def run(drivers, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "ways.py").write_text(WAYS)

    def run(*command, code=0, **environ):
        done = subprocess.run(
            [str(part) for part in command],
            env=drivers.environ(**environ),
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("way", NAMES)
def test_L9a_ray_is_found_in_processes_that_the_program_starts(run, tmp_path, way):
    said = run(sys.executable, "-m", "eagleray", "run", tmp_path / "program.py", way)
    assert f"here {RAY_VERSION}" in said
    assert f"task {RAY_VERSION}" in said


@pytest.mark.parametrize("way", ["by_subprocess", "as_a_command"])
def test_L9a_also_on_a_daemon_that_knows_nothing_of_it(run, drivers, tmp_path, way):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("ray.init(num_cpus=2)", 'ray.init(address="auto")'))
    assert f"task {RAY_VERSION}" in run(sys.executable, "-m", "eagleray", "run", program, way)


def test_L9b_a_python_of_another_environment_keeps_its_own_ray(run, tmp_path):
    venv.create(tmp_path / "other", symlinks=True)
    (packages,) = (tmp_path / "other" / "lib").glob("python*/site-packages")
    (packages / "ray").mkdir()
    (packages / "ray" / "__init__.py").write_text("NAME = 'another'\n")
    (packages / "ray" / "part.py").write_text("")
    python = tmp_path / "other" / "bin" / "python"
    code = "import ray, ray.part; print(ray.NAME)"
    (tmp_path / "calls.py").write_text(
        f"import ray, subprocess\nsubprocess.run([{str(python)!r}, '-c', {code!r}], check=True)\n"
    )
    assert "another" in run(sys.executable, "-m", "eagleray", "run", tmp_path / "calls.py")


def test_L9b_without_the_alias_nothing_says_ray(run):
    code = "import eagleray as e, importlib.util as u; e.init(num_cpus=1); find = lambda: u.find_spec('ray') is None; "
    code += "print('none', find(), e.get(e.remote(find).remote()), e.__version__)"
    assert f"none True True {eagleray.__version__}" in run(sys.executable, "-c", code)


def test_L9c_the_ray_command_takes_what_scripts_for_ray_say(run, drivers):
    ray = [sys.executable, "-m", "eagleray._cli.ray"]
    try:
        options = ["--num-cpus", "2", "--port=0", "--include-dashboard", "false", "--disable-usage-stats"]
        said = run(*ray, "start", "--head", *options)
        assert said.count("of no effect here: --include-dashboard, --disable-usage-stats\n") == 1
        assert "CPU" in run(*ray, "status")
    finally:
        run(*ray, "stop", "--force", "-g", "5")
    assert "unrecognized arguments: --nonsense" in run(*ray, "start", "--head", "--nonsense", code=2)


def test_L9a_the_facts_of_the_distribution_have_the_version_that_the_module_says():
    folder = Path(eagleray.__file__).parent / "_alias" / "stand_in"
    assert (folder / f"ray-{RAY_VERSION}.dist-info" / "METADATA").read_text().splitlines()[
        2
    ] == f"Version: {RAY_VERSION}"
    assert os.access(folder / "bin" / "ray", os.X_OK)
