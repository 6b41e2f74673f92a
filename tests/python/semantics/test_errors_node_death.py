"""What happens when a node or a driver goes without a word: rule E8."""

import os
import re
import signal

import pytest

pytestmark = pytest.mark.two_nodes

#: Children that a worker's session or process group does not reach: each in a session of its own, one below the other.
CODE = """
import subprocess

SLEEP = "import time; time.sleep(600)"
INNER = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True).wait()"

@ray.remote(num_cpus=0)
class Starter:
    def start(self):
        self.child = subprocess.Popen([sys.executable, "-c", INNER], start_new_session=True)
        return os.getpid(), self.child.pid

    def hold(self):
        time.sleep(600)

@ray.remote
def starts(path):
    child = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    with open(path, "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(600)

def start_all(path):
    global actor, task
    actor = Starter.remote()
    started = ray.get(actor.start.remote(), timeout=30)
    task = starts.remote(path)
    while not os.path.exists(path) or len(open(path).read().split()) < 2:
        time.sleep(0.01)
    print("pids", *started, open(path).read(), flush=True)
"""


@pytest.fixture
def daemon(drivers):
    """A node in a process of its own; gives its pid."""
    done = drivers.command("start", "--head", "--num-cpus", "2")
    assert done.returncode == 0, done.stderr
    return int(re.search(r"pid (\d+)", done.stdout).group(1))


def all_below(leaks, wait_until, root, pids):
    """Everyone below the process, once the four that were named and the grandchild are there."""

    def found():
        everyone = [process.pid for process in leaks.descendants(root)]
        grandchildren = [process.pid for process in leaks.descendants(pids[1])]
        return everyone if set(pids) <= set(everyone) and grandchildren else None

    return wait_until(found, what="all children")


def test_E8a_E8b_workers_and_their_children_end_when_their_node_is_killed(daemon, drivers, leaks, wait_until, tmp_path):
    code = """
ray.init(address="auto")
start_all(sys.argv[1])
try:
    ray.get(task)
except ray.exceptions.RayError as error:
    print("told", type(error).__name__, flush=True)
"""
    driver = drivers.start(CODE + code, tmp_path / "started")
    pids = [int(word) for word in driver.hear_until("pids").split()]
    everyone = all_below(leaks, wait_until, daemon, pids)
    os.kill(daemon, signal.SIGKILL)
    leaks.check([daemon, *everyone])
    assert driver.hear_until("told") == "LocalRayletDiedError"
    assert driver.end()[0] == 0, "the program itself lives on"


@pytest.mark.parametrize("kind", ["running", "queued", "waiting for an argument", "not feasible"])
def test_E8c_tasks_of_a_driver_raise_LocalRayletDiedError(daemon, drivers, kind):
    code = f"""
ray.init(address="auto")

@ray.remote(num_cpus=2)
def runs():
    time.sleep(600)

@ray.remote(num_cpus=2)
def other(*_):
    return 1

first = runs.remote()
time.sleep(0.5)
refs = {{
    "running": lambda: first,
    "queued": other.remote,
    "waiting for an argument": lambda: other.remote(first),
    "not feasible": other.options(num_cpus=64).remote,
}}
ref = refs[{kind!r}]()
print("ready", flush=True)
for _ in range(2):
    try:
        ray.get(ref)
    except ray.exceptions.LocalRayletDiedError as error:
        # Of one whose argument is lacking, this is also a RayTaskError that says so.
        print("told", isinstance(error, ray.exceptions.RayTaskError), flush=True)
"""
    driver = drivers.start(code)
    driver.hear_until("ready")
    os.kill(daemon, signal.SIGKILL)
    lacks_argument = str(kind == "waiting for an argument")
    assert [driver.hear_until("told") for _ in range(2)] == [lacks_argument] * 2
    assert driver.end()[0] == 0


def test_E8c_so_do_calls_on_actors_and_await(daemon, drivers):
    code = """
import asyncio
ray.init(address="auto")

@ray.remote(max_restarts=-1, max_task_retries=-1)
class Actor:
    def hold(self):
        time.sleep(600)

actor = Actor.remote()
ray.get(actor.__ray_ready__.remote())
ref = actor.hold.remote()
print("ready", flush=True)

async def wait():
    try:
        await ref
    except ray.exceptions.RayError as error:
        print("told", type(error).__name__, flush=True)

asyncio.run(wait())
"""
    driver = drivers.start(code)
    driver.hear_until("ready")
    os.kill(daemon, signal.SIGKILL)
    assert driver.hear_until("told") == "LocalRayletDiedError"
    assert driver.end()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_E8d_ctrl_c_on_the_driver_ends_workers_and_their_children(drivers, leaks, wait_until, tmp_path, number):
    code = """
ray.init(num_cpus=2)
start_all(sys.argv[1])
ray.get(task)
"""
    driver = drivers.start(CODE + code, tmp_path / "started")
    pids = [int(word) for word in driver.hear_until("pids").split()]
    everyone = all_below(leaks, wait_until, driver.pid, pids)
    driver.kill(number)
    driver.end()
    leaks.check(everyone)


def test_E8d_also_if_the_node_is_a_daemon(daemon, drivers, leaks, tmp_path):
    code = """
ray.init(address="auto")
start_all(sys.argv[1])
ray.get(task)
"""
    driver = drivers.start(CODE + code, tmp_path / "started")
    actor, _, worker, _ = map(int, driver.hear_until("pids").split())
    driver.kill(signal.SIGINT)
    driver.end()
    leaks.check([actor, worker])
    assert leaks.is_alive(daemon)
