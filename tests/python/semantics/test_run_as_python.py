"""`eagleray run` runs programs as python itself would: what they see of themselves, how they are named, how they end."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

TASK = """
import ray, sys
@ray.remote
def doubled(x):
    return helped(x)
def helped(x):
    return 2 * x
print(ray.get(doubled.remote(21)), sys.argv[1:], __name__)
"""


def command(*arguments):
    return [sys.executable, "-m", "eagleray", "run", *arguments]


def run(*arguments, cwd, **options):
    return subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, timeout=60, check=False, **{"text": True, **options}
    )


@pytest.fixture
def package(tmp_path):
    inner = tmp_path / "pkg"
    inner.mkdir()
    (inner / "__init__.py").write_text("import ray\nHAS_RAY = ray.__name__\n")
    (inner / "part.py").write_text("from pkg import HAS_RAY\nfrom .other import TWO\nassert TWO == 2\n" + TASK)
    (inner / "other.py").write_text("TWO = 2\n")
    (inner / "__main__.py").write_text("from pkg.other import TWO\n" + TASK)
    return tmp_path


# proves: L9e
def test_modules_packages_folders_commands_and_standard_input_are_run(package):
    wanted = "42 ['-m', 'x'] __main__\n"
    for arguments in (["-m", "pkg.part"], ["-m", "pkg"], ["pkg"], ["-c", TASK]):
        done = run(*arguments, "-m", "x", cwd=package, env={**os.environ, "PYTHONPATH": str(package)})
        assert (done.stdout, done.returncode) == (wanted, 0), (arguments, done.stderr)
    done = run("-", "-m", "x", cwd=package, input=TASK)
    assert (done.stdout, done.returncode) == (wanted, 0), done.stderr


def test_what_cannot_be_run_is_named(tmp_path):
    for arguments, text in (
        (["-m", "nowhere.at_all"], "nowhere"),
        (["-m", "json"], "json.__main__"),
        ([str(tmp_path)], "__main__.py"),
        (["missing.py"], "missing.py"),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode in (1, 2), done
        assert text in done.stderr, done
        assert "Traceback" not in done.stderr, done


def test_a_script_sees_of_itself_what_it_sees_under_python(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print(type(__builtins__), type(__loader__), __file__, __package__, __spec__, __doc__, __name__)")
    plain = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run("script.py", cwd=tmp_path).stdout == plain.stdout


# proves: L9e
def test_ctrl_c_shows_where_the_program_was(tmp_path):
    """Nothing was printed: where a program hung could not be seen."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import ray, time
            @ray.remote
            def slow():
                time.sleep(60)
            def where_it_hangs():
                ref = slow.remote()
                print("waits", flush=True)
                ray.get(ref)
            where_it_hangs()
        """)
    )
    process = subprocess.Popen(
        command("script.py"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "in where_it_hangs" in said, said
    assert "KeyboardInterrupt" in said, said


# proves: L9d
def test_who_asks_for_a_missing_module_gets_a_no_and_who_imports_it_a_word(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import importlib.util, ray
            assert importlib.util.find_spec("ray.nowhere") is None
            assert importlib.util.find_spec("ray.util.nowhere") is None
            assert importlib.util.find_spec("ray.util") is not None
            for name in ("ray.nowhere", "ray.workflow"):
                try:
                    importlib.import_module(name)
                except ModuleNotFoundError as error:
                    print(error.name, str(error).partition(":")[2].split()[0])
        """)
    )
    done = run("script.py", cwd=tmp_path)
    assert done.stdout == "ray.nowhere eagleray\nray.workflow eagleray\n", done.stderr


def test_a_module_of_ray_can_be_run_by_its_name(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import runpy, ray\nprint(runpy.run_module('ray.types')['__name__'])")
    done = run("script.py", cwd=tmp_path)
    assert done.stdout == "ray.types\n", done.stderr


def test_output_that_the_terminal_cannot_show_is_shown_by_number(tmp_path):
    """All that came with it was lost without a word."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import ray
            @ray.remote
            def speak():
                print("caf\\u00e9")
                print("plain")
            ray.get(speak.remote())
        """)
    )
    done = run("script.py", cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert "caf\\xe9" in done.stdout, done
    assert "plain" in done.stdout, done


def test_nothing_is_less_than_free(tmp_path):
    """Parents that wait for children lend their CPU; those that run on hold more than there is for a moment."""
    script = Path(tmp_path) / "script.py"
    script.write_text(
        textwrap.dedent("""
            import ray, time
            ray.init(num_cpus=1)
            @ray.remote
            def child():
                time.sleep(0.3)
            @ray.remote
            def parent():
                ray.get(child.remote())
                time.sleep(0.3)
            ref = parent.remote()
            time.sleep(0.2)
            ray.cancel(ref)
            seen = []
            end = time.monotonic() + 1
            while time.monotonic() < end:
                seen.append(min(ray.available_resources().values()))
            print(min(seen) >= 0)
        """)
    )
    done = run("script.py", cwd=tmp_path)
    assert done.stdout == "True\n", done
