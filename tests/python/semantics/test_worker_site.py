"""Workers see what a plain `python` of their environment sees: `site` with its hooks, and what it adds to the built-ins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import eagleray as ray

#: As setuptools installs a package for editing: a hook that knows where the package is.
FINDER = """
import importlib.machinery
import sys

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "edited":
            return importlib.util.spec_from_file_location(name, {file!r})

def install():
    import importlib.util
    sys.meta_path.append(Finder)
"""

EDITED = """
class Thing:
    word = "edited"
"""

PROGRAM = """
import multiprocessing

@ray.remote
def names():
    import builtins
    return [name for name in ("exit", "quit", "help", "copyright") if not hasattr(builtins, name)]

@ray.remote
def edited():
    import edited
    return edited.Thing.word

@ray.remote
class Actor:
    def __init__(self, thing):
        self.thing = thing

    def word(self):
        return self.thing.word

@ray.remote
def customized():
    return sys.customized, sys.hooked

@ray.remote
def in_a_child_of_its_own():
    import edited
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(getattr, (edited.Thing, "word"))

@ray.remote
def leave():
    exit(3)

if __name__ == "__main__":
    import edited as library
    assert ray.get(names.remote()) == []
    assert ray.get([edited.remote(), Actor.remote(library.Thing()).word.remote()]) == ["edited"] * 2
    assert ray.get(customized.remote()) == ("sitecustomize", "hook")
    assert ray.get(in_a_child_of_its_own.remote()) == "edited"
    try:
        ray.get(leave.options(max_retries=0).remote())
    except ray.exceptions.WorkerCrashedError:
        pass
    print("fine")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with hooks of all kinds: its Python, its site-packages, and a folder for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    here = [str(Path(ray.__file__).parents[1]), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "here.pth").write_text("\n".join(here))
    (folder / "source").mkdir()
    (folder / "source" / "edited.py").write_text(EDITED)
    (packages / "__editable___edited_finder.py").write_text(FINDER.format(file=str(folder / "source" / "edited.py")))
    (packages / "__editable__.edited.pth").write_text("import __editable___edited_finder as f; f.install()\n")
    (packages / "hook.pth").write_text("import sys; sys.hooked = 'hook'\n")
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text("import sys; sys.customized = 'sitecustomize'\n")
    return folder / "venv" / "bin" / "python", packages, folder / "path"


def script(folder, text):
    """A file, since processes that are spawned run it again."""
    path = folder / "program.py"
    path.write_text("import os, sys\nimport eagleray as ray\n" + text)
    return path


def run(drivers, python, path, *arguments, timeout=50):
    done = subprocess.run(
        [str(python), *map(str, arguments)],
        env=drivers.environ(PYTHONPATH=path),
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("node", ["own", "daemon"])
def test_T11l_workers_see_what_a_plain_python_sees(drivers, environment, tmp_path, node):
    python, _, path = environment
    if node == "daemon":
        run(drivers, python, path, "-m", "eagleray", "start", "--head", "--num-cpus", "2")
    done = run(drivers, python, path, script(tmp_path, PROGRAM))
    assert "fine" in done.stdout
    assert "threads" not in done.stderr


FLAGS = """
@ray.remote
def flags():
    return sys.flags.no_site, sys.flags.isolated, sys.flags.no_user_site, hasattr(sys, "customized")

print(ray.get(flags.remote()))
"""


@pytest.mark.parametrize(
    ("flag", "found"), [(None, (0, 0, 0, True)), ("-s", (0, 0, 1, True)), ("-I", (0, 1, 1, False))]
)
def test_T11l_a_driver_that_keeps_apart_has_workers_that_do(drivers, environment, tmp_path, flag, found):
    python, _, path = environment
    done = run(drivers, python, path, *([flag] if flag else []), script(tmp_path, FLAGS))
    assert str(found) in done.stdout


THREADS = """
@ray.remote
def fine():
    return "fine"

print(ray.get(fine.remote()))
"""

STARTS_A_THREAD = (
    "import threading; threading.Thread(target=threading.Event().wait, daemon=True, name='lurking').start()\n"
)


@pytest.mark.parametrize("hook", ["lurking.pth", "sitecustomize.py"])
def test_T11l_a_hook_that_starts_threads_is_named(drivers, environment, tmp_path, hook):
    python, packages, path = environment
    if hook == "sitecustomize.py":
        file = tmp_path / hook
        path = tmp_path
    else:
        file = packages / hook
    file.write_text(STARTS_A_THREAD)
    try:
        done = run(drivers, python, path, script(tmp_path, THREADS))
    finally:
        file.unlink()
    assert "fine" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "threads" in line]
    assert str(file) in line


def test_T11l_a_preloaded_module_that_starts_threads_is_named(drivers, tmp_path):
    (tmp_path / "lurks.py").write_text(STARTS_A_THREAD)
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "EAGLERAY_PRELOAD": "json,lurks"}
    _, err = drivers.run(THREADS, env=env)
    (line,) = [line for line in err.splitlines() if "threads" in line]
    assert "lurks" in line
    assert "json" not in line
