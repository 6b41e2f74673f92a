"""`import ray` means eagleray, by the very same module objects. Each test has a process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import eagleray

PACKAGE_PARENT = str(Path(next(iter(eagleray.__path__))).parent)


@pytest.fixture
def run(tmp_path):
    """Runs code in a fresh interpreter, with a package `eagleray.probe` to import."""
    probe = tmp_path / "more" / "probe"
    (probe / "deep").mkdir(parents=True)
    (probe / "__init__.py").write_text("class Thing:\n    pass\n")
    (probe / "inner.py").write_text("from ray.probe import Thing\n\nclass Inner(Thing):\n    pass\n")
    (probe / "deep" / "__init__.py").write_text("")
    (probe / "deep" / "leaf.py").write_text("VALUE = 3\n")
    (probe / "broken.py").write_text("import no_such_thing\n")
    head = f"import sys, eagleray\neagleray.__path__.append({str(tmp_path / 'more')!r})\n"
    head += "from eagleray._alias.install import install_as_ray, run_script\n"

    def run(code, *argv):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE_PARENT, os.environ.get("PYTHONPATH", "")])}
        return subprocess.run(
            [sys.executable, "-c", head + textwrap.dedent(code), *argv],
            capture_output=True,
            text=True,
            timeout=30,
            env=env,
            check=False,
            cwd=tmp_path,
        )

    return run


def passes(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("order", [("ray", "eagleray"), ("eagleray", "ray")])
def test_both_names_are_one_module(run, order):
    first, second = order
    passes(
        run(f"""
        install_as_ray()
        import {first}.exceptions, {first}.probe.deep.leaf
        import {second}.probe.inner, {second}.probe.deep.leaf, {second}.exceptions
        import ray.probe.inner, eagleray.probe.inner
        for name in ("", ".exceptions", ".probe", ".probe.inner", ".probe.deep", ".probe.deep.leaf"):
            module = sys.modules["eagleray" + name]
            assert sys.modules["ray" + name] is module, name
            assert module.__name__ == "eagleray" + name
            assert module.__spec__.name == "eagleray" + name
        import ray
        assert ray is eagleray
        assert ray.probe.Thing is eagleray.probe.Thing
        from ray.probe.deep import leaf
        from ray.exceptions import RayTaskError
        assert RayTaskError is eagleray.exceptions.RayTaskError
        assert issubclass(ray.probe.inner.Inner, eagleray.probe.Thing)
        """)
    )


def test_what_was_imported_before_is_not_loaded_again(run):
    passes(
        run("""
        import eagleray.exceptions as before
        install_as_ray()
        import ray.exceptions
        assert ray.exceptions is before
        """)
    )


def test_installing_twice_is_installing_once(run):
    passes(
        run("""
        install_as_ray()
        finders = len(sys.meta_path)
        install_as_ray()
        assert len(sys.meta_path) == finders
        from eagleray._alias.install import is_installed
        assert is_installed()
        """)
    )


def test_missing_module_names_eagleray(run):
    passes(
        run("""
        install_as_ray()
        for name in ("ray.nothing", "ray.probe.nothing", "ray.nothing.below"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                assert "eagleray" in str(error) and "does not provide" in str(error), error
                assert error.name in name, error.name
            else:
                raise AssertionError
        try:
            from ray import nothing
        except ImportError as error:
            assert "eagleray" in str(error)
        """)
    )


def test_an_import_that_fails_inside_says_its_own_reason(run):
    passes(
        run("""
        install_as_ray()
        try:
            import ray.probe.broken
        except ModuleNotFoundError as error:
            assert error.name == "no_such_thing"
        assert "ray.probe.broken" not in sys.modules
        """)
    )


def test_real_ray_was_first(run):
    done = run("""
        import types
        sys.modules["ray"] = types.ModuleType("ray")
        install_as_ray()
        """)
    assert "RuntimeError: eagleray cannot take the name 'ray'" in done.stderr


def test_pickles_of_either_name_load(run):
    passes(
        run("""
        import pickle
        install_as_ray()
        import eagleray.probe
        data = pickle.dumps(eagleray.probe.Thing(), protocol=0)
        assert b"eagleray.probe" in data
        other = data.replace(b"eagleray.probe", b"ray.probe")
        assert type(pickle.loads(other)) is type(pickle.loads(data)) is eagleray.probe.Thing
        """)
    )


SCRIPT = """
import sys, pickle
import ray, helper
import cloudpickle

class Mine:
    pass

def late():
    print("late", Mine.__module__)

import atexit
atexit.register(late)

if __name__ == "__main__":
    assert sys.modules["__main__"].Mine is Mine
    assert sys.path[0] == helper.__file__.rpartition("/")[0]
    assert b"__main__" in pickle.dumps(Mine())
    data = cloudpickle.dumps(Mine)
    assert len(data) > 100, "by value"
    print(sys.argv[1:], __file__.rpartition("/")[2], ray.__name__)
    if sys.argv[1:] == ["exit"]:
        sys.exit(5)
    if sys.argv[1:] == ["raise"]:
        raise ValueError("from the script")
"""


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "helper.py").write_text("")
    path = folder / "main.py"
    path.write_text(SCRIPT)
    return path


def test_run_script(run, script):
    out = passes(run(f"run_script({str(script)!r}, ['a', '--b'])"))
    assert out.splitlines() == ["['a', '--b'] main.py eagleray", "late __main__"]


def test_run_script_passes_exit_codes_on(run, script):
    assert run(f"run_script({str(script)!r}, ['exit'])").returncode == 5


def test_run_script_prints_the_users_frames_only(run, script):
    done = run(f"run_script({str(script)!r}, ['raise'])")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert done.stderr.splitlines()[-1] == "ValueError: from the script"
    assert done.stderr.count("File ") == 1


def test_run_script_without_such_a_file(run, tmp_path):
    for path in (tmp_path / "nothing.py", tmp_path):
        done = run(f"run_script({str(path)!r})")
        assert done.returncode == 2
        assert done.stderr.startswith(f"eagleray run: can't open file '{path}")


def test_run_script_with_a_syntax_error(run, tmp_path):
    (tmp_path / "bad.py").write_text("x = = 1\n")
    done = run(f"run_script({str(tmp_path / 'bad.py')!r})")
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "install.py" not in done.stderr
