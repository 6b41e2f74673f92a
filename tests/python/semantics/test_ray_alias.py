"""Programs that say `import ray` run on eagleray, in the driver and in every worker."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HELPER = """
import ray
from ray.exceptions import RayTaskError

def names():
    import eagleray
    return ray is eagleray, RayTaskError is eagleray.exceptions.RayTaskError
"""

CHECKS = """
import sys

def same():
    import eagleray
    import eagleray.exceptions
    import eagleray.util
    import ray
    import ray.util
    from ray.exceptions import RayTaskError
    import helper

    assert ray is eagleray, (ray, eagleray)
    assert sys.modules["ray"] is eagleray
    assert ray.ObjectRef is eagleray.ObjectRef
    assert ray.util is eagleray.util
    assert RayTaskError is eagleray.exceptions.RayTaskError is ray.exceptions.RayTaskError
    assert helper.names() == (True, True)
    return "same"

@ray.remote
def in_task(boxed):
    assert type(boxed[0]) is ray.ObjectRef
    return same()

@ray.remote
class InActor:
    def check(self, boxed):
        assert type(boxed[0]) is ray.ObjectRef
        return same()

    def fail(self):
        raise KeyError("as it was")

def check_all():
    boxed = [ray.put(1)]
    actor = InActor.remote()
    assert ray.get([in_task.remote(boxed), actor.check.remote(boxed)], timeout=30) == ["same", "same"]
    try:
        ray.get(actor.fail.remote(), timeout=30)
    except ray.exceptions.RayTaskError as error:
        assert isinstance(error, KeyError)
    else:
        raise AssertionError
    return same()
"""

SCRIPT = f"""
import ray
from ray.exceptions import RayTaskError
import ray.util
{CHECKS}

if __name__ == "__main__":
    ray.init(num_cpus=2)
    print("argv", sys.argv)
    print("all", check_all(), flush=True)
    if "exit" in sys.argv:
        sys.exit(7)
    if "raise" in sys.argv:
        raise ValueError("from the script")
"""

COMMANDS = [[sys.executable, "-m", "eagleray"], [str(Path(sys.executable).with_name("eagleray"))]]


@pytest.fixture
def script(tmp_path):
    (tmp_path / "helper.py").write_text(HELPER)
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def run(drivers):
    def run(*command):
        return subprocess.run(
            [str(part) for part in command],
            env=drivers.environ(),
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
            cwd="/",
        )

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=["module", "command"])
def test_a_script_for_ray_runs_as_it_is(run, script, command):
    done = run(*command, "run", script, "a", "--b", "--", "-h")
    assert done.returncode == 0, done.stderr
    assert f"argv {[str(script), 'a', '--b', '--', '-h']}" in done.stdout
    assert "all same" in done.stdout


def test_a_script_for_ray_runs_on_a_daemon(run, drivers, script):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    text = script.read_text().replace("ray.init(num_cpus=2)", 'ray.init(address="auto")')
    script.write_text(text)
    done = run(sys.executable, "-m", "eagleray", "run", script)
    assert done.returncode == 0, done.stderr
    assert "all same" in done.stdout


@pytest.mark.parametrize(("argument", "code"), [("exit", 7), ("raise", 1)])
def test_the_exit_code_is_the_scripts_own(run, script, argument, code):
    done = run(sys.executable, "-m", "eagleray", "run", script, argument)
    assert done.returncode == code, done.stderr
    assert "all same" in done.stdout
    if argument == "raise":
        assert done.stderr.rstrip().endswith("ValueError: from the script")
        assert "install.py" not in done.stderr


def test_a_script_that_is_not_there(run, tmp_path):
    done = run(sys.executable, "-m", "eagleray", "run", tmp_path / "none.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr


def test_install_as_ray_in_a_program_holds_for_its_workers(run, tmp_path):
    (tmp_path / "helper.py").write_text(HELPER)
    program = tmp_path / "program.py"
    head = "import eagleray\neagleray.install_as_ray()\nimport ray\n"
    tail = '\nif __name__ == "__main__":\n    ray.init(num_cpus=2)\n    print("all", check_all())\n'
    program.write_text(head + textwrap.dedent(CHECKS) + tail)
    done = run(sys.executable, program)
    assert done.returncode == 0, done.stderr
    assert "all same" in done.stdout


def test_install_as_ray_after_init_holds_for_workers_that_run_already(run, tmp_path):
    # A job's surroundings are told when its driver joins: `ray` was unknown to its workers if the driver took the name later.
    (tmp_path / "helper.py").write_text(HELPER)
    program = tmp_path / "program.py"
    head = """
    import eagleray
    import importlib.util

    @eagleray.remote
    class Early:
        def knows_ray(self):
            return "eagleray" in (getattr(importlib.util.find_spec("ray"), "origin", None) or "")

        def check(self):
            import ray
            import ray.util

            return ray is eagleray and ray.util is eagleray.util

    if __name__ == "__main__":
        eagleray.init(num_cpus=2)
        early = Early.remote()
        assert not eagleray.get(early.knows_ray.remote(), timeout=30)
        eagleray.install_as_ray()
        import ray
    """
    tail = """
    if __name__ == "__main__":
        assert ray.get(early.check.remote(), timeout=30)
        print("all", check_all())
    """
    program.write_text(textwrap.dedent(head) + textwrap.dedent(CHECKS) + textwrap.dedent(tail))
    done = run(sys.executable, program)
    assert done.returncode == 0, done.stderr
    assert "all same" in done.stdout


def test_without_it_ray_is_not_eagleray(run, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        import eagleray

        @eagleray.remote
        def names():
            import importlib.util

            found = importlib.util.find_spec("ray")
            return "ray" in sys.modules or (found is not None and "eagleray" in (found.origin or ""))

        if __name__ == "__main__":
            eagleray.init(num_cpus=1)
            assert not eagleray.get(names.remote(), timeout=30)
            assert "ray" not in sys.modules
        """)
    )
    done = run(sys.executable, program)
    assert done.returncode == 0, done.stderr
