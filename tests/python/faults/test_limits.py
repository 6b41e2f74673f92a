"""No descriptors, no processes left: a clear error, or patience, and then things go on."""

import os
import resource
import sys
from pathlib import Path

import cloudpickle
import pytest

import eagleray as ray

WORKS = """
@ray.remote
def works(value=1):
    return value
@ray.remote(num_cpus=0)
class Actor:
    def pid(self):
        return os.getpid()
"""


def limit(kind, value):
    """For the child between fork and exec: the hard limit too, so that nobody raises it again."""

    def set_limit():
        resource.setrlimit(kind, (value, value))

    return set_limit


def test_each_actor_costs_one_descriptor_and_many_that_start_at_once_cost_no_more(drivers):
    code = f"""{WORKS}
ray.init(num_cpus=2)
actors = [Actor.remote() for _ in range(200)]
print("pids", len(set(ray.get([actor.pid.remote() for actor in actors]))))
"""
    out, err = drivers.run(code, preexec=limit(resource.RLIMIT_NOFILE, 256))
    assert "pids 200" in out
    assert "could not be started" not in err


def test_full_descriptor_table_at_init_is_a_clear_error(drivers):
    code = """
    files = []
    try:
        while True:
            files.append(open("/dev/null"))
    except OSError:
        del files[-2:]
    try:
        ray.init(num_cpus=1)
    except (RuntimeError, OSError) as error:
        told = str(error)
    else:
        told = "it worked"
    files.clear()
    print("told:", told)
    # With descriptors free again it starts.
    ray.init(num_cpus=1)
    print("sum", ray.get(ray.remote(lambda: 1 + 1).remote()))
    """
    out, err = drivers.run(code, preexec=limit(resource.RLIMIT_NOFILE, 64))
    assert "sum 2" in out, err
    told = out.partition("told: ")[2].splitlines()[0]
    assert "open files" in told or "descriptors" in told, out


def test_full_descriptor_table_in_the_driver_delays_workers_and_loses_nothing(drivers):
    # The node lives in the driver: while the driver's table is full no worker can be added. Those that are there go on.
    code = f"""{WORKS}
ray.init(num_cpus=1)
assert ray.get(works.remote(1)) == 1
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError:
    pass
assert ray.get([works.remote(number) for number in range(50)]) == list(range(50))
actors = [Actor.remote() for _ in range(3)]
refs = [actor.pid.remote() for actor in actors]
assert len(ray.wait(refs, num_returns=3, timeout=1.0)[0]) < 3
files.clear()
print("pids", len(set(ray.get(refs, timeout=30))))
"""
    out, err = drivers.run(code, preexec=limit(resource.RLIMIT_NOFILE, 128))
    assert "pids 3" in out, err


@pytest.mark.parametrize("left", [0, 2])
def test_full_descriptor_table_is_named_as_the_reason_why_workers_do_not_start(drivers, left):
    # "The last one ended with signal 9" was all that was said where there was room for a worker's socket and not for what it is handed.
    code = f"""{WORKS}
from eagleray._driver import notices
told = []
notices.subscribe(lambda kind, text: told.append((kind, text)))
ray.init(num_cpus=1)
assert ray.get(works.remote(1)) == 1
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError:
    del files[len(files) - int(sys.argv[1]):]
actors = [Actor.remote() for _ in range(3)]
refs = [actor.pid.remote() for actor in actors]
while not told:
    ray.wait(refs, num_returns=3, timeout=0.1)
files.clear()
print("pids", len(set(ray.get(refs, timeout=30))))
print("told", *told[0])
"""
    out, err = drivers.run(code, left, preexec=limit(resource.RLIMIT_NOFILE, 128))
    assert "pids 3" in out, err
    assert "told worker_not_started Workers could not be started: the node has no file descriptors left" in out
    assert "signal 9" not in out + err


def test_full_descriptor_table_in_a_task_is_that_tasks_error(drivers):
    code = f"""{WORKS}
ray.init(num_cpus=1)
@ray.remote(max_retries=0)
def fill():
    files = []
    while True:
        files.append(open("/dev/null"))
try:
    ray.get(fill.remote())
except OSError as error:
    assert isinstance(error, ray.exceptions.RayTaskError)
    print("told:", error.errno)
print("works", ray.get(works.remote(5)))
"""
    out, err = drivers.run(code, preexec=limit(resource.RLIMIT_NOFILE, 128))
    assert "told: 24" in out, err
    assert "works 5" in out


# The worker could not speak to its node any more, and waited for answers that never came.
@pytest.mark.parametrize("where", ["task", "actor"])
def test_worker_whose_descriptors_were_all_closed_is_replaced(drivers, where):
    code = f"""{WORKS}
ray.init(num_cpus=1)
actor = Actor.options(max_restarts=-1, max_task_retries=-1).remote()
def close(*_):
    os.closerange(3, 4096)
    return "closed"
def use(_self):
    return ray.get(works.remote(ray.put(bytes(10**6))), timeout=30) == bytes(10**6)
try:
    if {where!r} == "task":
        print(ray.get(ray.remote(max_retries=0)(close).remote(), timeout=30))
    else:
        print(ray.get(actor.__ray_call__.options(max_task_retries=0).remote(close), timeout=30))
except (ray.exceptions.WorkerCrashedError, ray.exceptions.RayActorError):
    print("closed, and found out before it could answer")
print("works", ray.get([works.remote(number) for number in range(50)], timeout=30) == list(range(50)))
print("actor", ray.get(actor.__ray_call__.remote(use), timeout=30))
"""
    out, err = drivers.run(code)
    assert "closed" in out
    assert "works True" in out
    assert "actor True" in out
    # The worker says why it ends, or its node is first to see that it cannot be spoken to any more, and says that it ended it.
    told = ("closed by the code it ran", "A worker died or was killed", "found out before it could answer")
    assert any(text in out + err for text in told), f"somebody should say that a worker was lost: {err}"


def can_be_run_by_others(path):
    """Whether any user may start this program."""
    folders = [path, *path.parents]
    return path.exists() and all(folder.stat().st_mode & 0o001 for folder in folders)


@pytest.fixture
def stranger():
    """(user, interpreter): a user that has no other processes. Root itself has no limit."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    own = Path(sys.executable).resolve()
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    usable = [path for path in (own, system) if can_be_run_by_others(path)]
    if not usable:
        pytest.skip("no interpreter that another user could run")
    # The limit counts all processes of the user: two runs of this test at one time must not have the same.
    return 50_000 + os.getpid() % 10_000, usable[0]


def as_user(user, processes):
    def become():
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
        os.setgid(user)
        os.setuid(user)

    return become


def test_full_process_table_delays_workers_and_says_so(drivers, stranger):
    # The limit counts threads too: the driver's own, the zygote, and a few workers of three threads each fit.
    user, python = stranger
    os.chown(drivers.folder, user, user)
    packages = [Path(module.__file__).parents[1] for module in (ray, cloudpickle)]
    env = {"PYTHONPATH": os.pathsep.join(map(str, packages)), "HOME": drivers.folder}
    code = f"""{WORKS}
ray.init(num_cpus=1, _prestart=1)
assert ray.get(works.remote(7)) == 7
actors = [Actor.remote() for _ in range(24)]
refs = [actor.pid.remote() for actor in actors]
ready, waiting = ray.wait(refs, num_returns=24, timeout=4.0)
print("waiting", 0 < len(waiting) < 24)
# Those that are there work on.
there = [actor for actor, ref in zip(actors, refs) if ref in ready]
print("works", len(set(ray.get([actor.pid.remote() for actor in there]))) == len(there))
# As some end, others take their place.
for _ in range(60):
    alive = [(actor, ref) for actor, ref in zip(actors, refs) if ray.wait([ref], timeout=0)[0]]
    for actor, ref in alive:
        ray.kill(actor)
        actors.remove(actor)
        refs.remove(ref)
    if not refs:
        break
    ray.wait(refs, timeout=5.0)
print("left", len(refs))
"""
    out, err = drivers.run(code, preexec=as_user(user, 30), env=env, python=python, timeout=55, cwd="/")
    assert "waiting True" in out, out + err
    assert "works True" in out
    assert "left 0" in out, out + err
    # The limit is met by a fork, whose error names it, or by the first thread of a process that was forked just before.
    assert "could not be started" in err


def test_more_actors_than_there_may_be_workers_wait_and_are_told_why(drivers):
    # The 961st actor waited for ever, and nothing was said.
    code = f"""{WORKS}
from eagleray._driver import notices
told = []
notices.subscribe(lambda kind, text: told.append((kind, text)))
ray.init(num_cpus=1)
actors = [Actor.remote() for _ in range(6)]
refs = [actor.pid.remote() for actor in actors]
ready, waiting = ray.wait(refs, num_returns=4, timeout=30)
assert len(ready) == 4
while not any(kind == "worker_limit" for kind, _ in told):
    ray.wait(waiting, timeout=0.1)
print("told", next(text for kind, text in told if kind == "worker_limit"))
for actor, ref in zip(actors, refs):
    if ref in ready:
        ray.kill(actor)
print("pids", len(set(ray.get(waiting, timeout=30))))
"""
    out, err = drivers.run(code, env={"EAGLERAY_WORKERS_MAX": "4"})
    assert "told This node has 4 worker processes in use, which is as many as it can have: 2 actors" in out, out + err
    assert "pids 2" in out, out + err


@pytest.mark.timeout(180)
def test_eleven_hundred_actors_answer_and_go(drivers):
    # Of a thousand, 960 answered; to end them took longer than a node is waited for, which was taken for its failure.
    code = f"""{WORKS}
ray.init(num_cpus=2)
actors = [Actor.remote() for _ in range(int(sys.argv[1]))]
print("pids", len(set(ray.get([actor.pid.remote() for actor in actors]))))
print("again", len(set(ray.get([actor.pid.remote() for actor in actors]))))
ray.shutdown()
print("ended")
"""
    count = 1_500 if os.environ.get("EAGLERAY_TEST_ALL") else 1_100
    out, err = drivers.run(code, count, timeout=150)
    assert f"pids {count}" in out, out + err
    assert f"again {count}" in out, out + err
    assert "ended" in out, out + err
    # As it says of a node that did not end in time.
    assert "failed" not in err, err
    assert "could not be started" not in err, err
