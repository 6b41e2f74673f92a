"""Whatever a worker makes of bytes for a job, it has followed that job before: alias, import paths, folder, environment."""

import re
import subprocess
import sys

import pytest

#: What a library looks like that was written for Ray. Whoever unpickles a `Base` imports it, and loading one looks around.
LIBRARY = """
import os

import ray

AT_IMPORT = os.getcwd(), os.environ.get("JOB_WORD")


class Base:
    def __init__(self, size=0):
        self.made_in = AT_IMPORT
        self.load = bytes(size)

    def __setstate__(self, state):
        assert ray.__name__ == "eagleray"
        assert (os.getcwd(), os.environ.get("JOB_WORD")) == AT_IMPORT == state["made_in"], (AT_IMPORT, state["made_in"])
        self.__dict__.update(state)


class Oops(Exception):
    def __init__(self, base):
        super().__init__(base)


def give(base):
    return base


class Keeper:
    def __init__(self, base):
        self.base = base

    def base_of(self):
        return self.base
"""

#: Each way in a session of its own: no worker has served the job before.
WAYS = """
import os
import signal
import sys
import time

import ray

os.environ["JOB_WORD"] = "word"
import library
from library import Base

LARGE = 1 << 20


@ray.remote
class Any:
    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs

    def count(self):
        return len(self.args) + len(self.kwargs)

    def take(self, base):
        return type(base).__name__

    def pid(self):
        return os.getpid()

    def make(self, size):
        return Base(size)

    def fail(self):
        raise library.Oops(Base())


@ray.remote
class Coroutines:
    def __init__(self, base):
        self.base = base

    async def take(self, base):
        return type(base).__name__


@ray.remote
def take(base):
    return type(base).__name__


@ray.remote
def take_inside(boxed):
    return type(ray.get(boxed[0])).__name__


@ray.remote
def failing():
    raise library.Oops(Base())


@ray.remote
def stream():
    for size in (0, LARGE):
        yield Base(size)


@ray.remote
def read():
    return [type(ray.get(ref)).__name__ for ref in stream.remote()]


@ray.remote
def caught(boxed):
    try:
        ray.get(boxed[0])
    except library.Oops as error:
        return type(error.cause.args[0]).__name__


@ray.remote(max_retries=-1)
def again(base, folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    return type(base).__name__


@ray.remote
class Owner:
    def start(self, folder):
        return [again.remote(Base(), folder), os.getpid()]


def by_constructor():
    assert ray.get(Any.remote(Base()).count.remote()) == 1

def by_constructor_keyword():
    assert ray.get(Any.remote(base=Base()).count.remote()) == 1

def by_constructor_large():
    assert ray.get(Any.remote(Base(LARGE)).count.remote()) == 1

def by_constructor_ref():
    assert ray.get(Any.remote(ray.put(Base()), x=ray.put(Base(LARGE))).count.remote()) == 2

def by_constructor_async():
    assert ray.get(Coroutines.remote(Base()).take.remote(Base())) == "Base"

def by_constructor_threaded():
    actor = Any.options(max_concurrency=3).remote(Base())
    assert ray.get([actor.take.remote(Base()) for _ in range(9)]) == ["Base"] * 9

def by_constructor_of_the_library():
    assert type(ray.get(ray.remote(library.Keeper).remote(Base()).base_of.remote())) is Base

def by_constructor_again():
    actor = Any.options(max_restarts=-1, max_task_retries=-1).remote(Base())
    os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)
    assert ray.get(actor.count.remote()) == 1

def by_constructor_in_a_task():
    @ray.remote
    def make():
        return ray.get(Any.remote(Base()).count.remote())
    assert ray.get(make.remote()) == 1

def by_argument():
    assert ray.get(take.remote(Base())) == ray.get(take.remote(base=Base(LARGE))) == "Base"

def by_argument_ref():
    assert ray.get([take.remote(ray.put(Base())), take.remote(ray.put(Base(LARGE)))]) == ["Base"] * 2

def by_argument_of_a_method():
    assert ray.get(Any.remote().take.remote(Base())) == "Base"

def by_function_of_the_library():
    assert type(ray.get(ray.remote(library.give).remote(Base()))) is Base

def by_result_read_by_another():
    actor = Any.remote()
    refs = [actor.make.remote(size) for size in (0, LARGE)]
    assert ray.get([take_inside.remote([ref]) for ref in refs] + [take.remote(ref) for ref in refs]) == ["Base"] * 4

def by_exception():
    for ref in (failing.remote(), Any.remote().fail.remote()):
        try:
            ray.get(ref)
        except library.Oops as error:
            assert type(error.cause.args[0]) is Base
        else:
            raise AssertionError

def by_exception_read_by_another():
    assert ray.get([caught.remote([failing.remote()]), caught.remote([Any.remote().fail.remote()])]) == ["Base"] * 2

def by_generator():
    assert [type(ray.get(ref)) for ref in stream.remote()] == [Base] * 2

def by_generator_read_in_a_task():
    assert ray.get(read.remote()) == ["Base"] * 2

def by_run_again_for_a_dead_owner():
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        actor = Owner.remote()
        ref, owner = ray.get(actor.start.remote(folder))
        while not os.listdir(folder):
            time.sleep(0.01)
        os.kill(owner, signal.SIGKILL)
        os.kill(int(os.listdir(folder)[0]), signal.SIGKILL)
        while len(os.listdir(folder)) < 2:
            time.sleep(0.01)
        open(os.path.join(folder, "go"), "w").close()
        assert ray.get(ref) == "Base"


if __name__ == "__main__":
    ray.init(num_cpus=4, runtime_env={"env_vars": {"JOB_WORD": "word"}})
    globals()["by_" + sys.argv[1]]()
    print("fine")
"""

WHICH = re.findall(r"^def by_(\w+)", WAYS, re.MULTILINE)

#: Makes an actor that outlives it.
MAKES = """
import os, sys
import ray
os.environ["JOB_WORD"] = "word"
import library

ray.init(address="auto", namespace="n", runtime_env={"env_vars": {"JOB_WORD": "word"}})

class Detached(library.Keeper):
    def pid(self):
        return os.getpid()

actor = ray.remote(Detached).options(name="it", lifetime="detached", max_restarts=-1, max_task_retries=-1).remote(library.Base())
print(ray.get(actor.pid.remote()))
"""


@pytest.fixture
def place(tmp_path):
    """A library where the program's own folder is, and a folder to run it in."""
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "library.py").write_text(LIBRARY)
    (tmp_path / "program" / "ways.py").write_text(WAYS)
    (tmp_path / "program" / "makes.py").write_text(MAKES)
    (tmp_path / "cwd").mkdir()
    return tmp_path


@pytest.fixture
def run(drivers, place):
    def run(script, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "eagleray", "run", str(place / "program" / script), *arguments],
            env=drivers.environ(),
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
            cwd=place / "cwd",
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("way", WHICH)
def test_T11k_a_worker_follows_its_job_before_it_decodes(run, way):
    assert "fine" in run("ways.py", way)


def test_T11k_a_detached_actor_that_starts_anew_follows_the_driver_that_made_it(run, drivers):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    pid = int(run("makes.py"))
    drivers.run(
        """
        ray.init(address="auto", namespace="n")
        os.kill(int(sys.argv[1]), signal.SIGKILL)
        assert ray.get(ray.get_actor("it").pid.remote(), timeout=30) != int(sys.argv[1])
        """,
        pid,
    )
