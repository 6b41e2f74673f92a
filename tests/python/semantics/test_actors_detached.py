"""Whose end an actor survives: rule A14."""

import re

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError
from eagleray.job_config import JobConfig

pytestmark = pytest.mark.two_nodes

ACTOR = """
import numpy as np

@ray.remote
def double(value):
    return 2 * value

@ray.remote(num_cpus=0)
class Child:
    def pid(self):
        return os.getpid()

@ray.remote(num_cpus=0)
class Parent:
    def __init__(self):
        self.kept = ray.put(np.arange(300_000))
        self.child = None

    def pid(self):
        return os.getpid()

    def run(self, value):
        return ray.get(double.remote(value), timeout=30)

    def make(self, **options):
        self.child = Child.options(**options).remote()
        return ray.get(self.child.pid.remote(), timeout=30)

    def put(self):
        self.kept = ray.put(np.arange(400_000))
        return [self.kept]

    def last(self):
        return int(ray.get(self.kept, timeout=30)[-1])
"""


@pytest.fixture
def daemon(drivers):
    """A node that outlives programs; gives its pid."""
    done = drivers.command("start", "--head", "--num-cpus", "2")
    assert done.returncode == 0, done.stderr
    return int(re.search(r"pid (\d+)", done.stdout).group(1))


@pytest.fixture
def gone(leaks, wait_until):
    """Waits for the end of a process."""
    return lambda pid: wait_until(lambda: not leaks.is_alive(int(pid)), what=f"the end of {pid}")


@pytest.mark.usefixtures("daemon")
def test_A14a_a_detached_actor_outlives_its_driver_and_another_finds_it(drivers, leaks):
    code = """
ray.init(address="auto", namespace="shared")
actor = Parent.options(name="kept", lifetime="detached").remote()
print(ray.get(actor.pid.remote(), timeout=30))
"""
    out, _ = drivers.run(ACTOR + code)
    assert leaks.is_alive(int(out))
    again, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        print(ray.get(ray.get_actor("kept").pid.remote(), timeout=30))
        """)
    assert again == out


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["exits", "is killed"])
def test_A14b_it_goes_on_to_run_tasks_make_actors_and_own_values(drivers, end):
    code = f"""
ray.init(address="auto", namespace="shared")
actor = Parent.options(name="kept", lifetime="detached").remote()
print("ready", ray.get(actor.run.remote(1), timeout=30), flush=True)
{end}
"""
    driver = drivers.start(ACTOR + code)
    driver.hear_until("ready")
    driver.end()
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        actor = ray.get_actor("kept")
        print("owned before", ray.get(actor.last.remote(), timeout=30))
        print("task", ray.get(actor.run.remote(21), timeout=30))
        print("actor", ray.get(actor.make.remote(), timeout=30) > 0)
        (ref,) = ray.get(actor.put.remote(), timeout=30)
        print("owned since", int(ray.get(ref, timeout=30)[-1]))
        """)
    assert out.splitlines() == ["owned before 299999", "task 42", "actor True", "owned since 399999"]
    # What it made and owns outlives that driver too.
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        actor = ray.get_actor("kept")
        child = actor.__ray_call__.remote(lambda self: ray.get(self.child.pid.remote(), timeout=30) > 0)
        print(ray.get([child, actor.last.remote()], timeout=30))
        """)
    assert out.strip() == "[True, 399999]"


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("lifetime", [None, "non_detached"])
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["exits", "is killed"])
def test_A14c_another_actor_ends_with_its_driver(drivers, gone, lifetime, end):
    code = f"""
ray.init(address="auto", namespace="shared")
actor = Parent.options(name="short", lifetime={lifetime!r}).remote()
print("pid", ray.get(actor.pid.remote(), timeout=30), flush=True)
{end}
"""
    driver = drivers.start(ACTOR + code)
    pid = driver.hear_until("pid")
    driver.end()
    gone(pid)
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        try:
            ray.get_actor("short")
        except ValueError:
            print("gone")
        """)
    assert out.strip() == "gone"


@pytest.mark.usefixtures("daemon")
def test_A14d_the_job_may_make_actors_detached_by_default(drivers, leaks, gone):
    code = """
from eagleray.job_config import JobConfig
ray.init(address="auto", namespace="shared", job_config=JobConfig(default_actor_lifetime="detached"))

@ray.remote
def make():
    actor = Parent.options(name="by a task").remote()
    return ray.get(actor.pid.remote(), timeout=30)

said = Parent.options(name="says otherwise", lifetime="non_detached").remote()
unsaid = Parent.options(name="says nothing").remote()
pids = ray.get([unsaid.pid.remote(), make.remote(), said.pid.remote()], timeout=30)
# Nobody holds a handle on it any more.
del unsaid
print(*pids)
"""
    out, _ = drivers.run(ACTOR + code)
    unsaid, by_task, said = map(int, out.split())
    gone(said)
    assert leaks.is_alive(unsaid)
    assert leaks.is_alive(by_task)
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        names = ["says nothing", "by a task"]
        print(*ray.get([ray.get_actor(name).pid.remote() for name in names], timeout=30))
        # What it makes long after its driver left is detached too.
        kept = ray.get_actor("says nothing")
        print(ray.get(kept.make.remote(name="grandchild"), timeout=30))
        ray.kill(kept)
        """)
    lines = out.splitlines()
    assert lines[0] == f"{unsaid} {by_task}"
    gone(unsaid)
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        print(ray.get(ray.get_actor("grandchild").pid.remote(), timeout=30))
        """)
    assert out.strip() == lines[1]


@pytest.mark.usefixtures("no_session")
def test_A14d_the_next_session_asks_anew(wait_until, leaks):
    @ray.remote(num_cpus=0)
    class Actor:
        def pid(self):
            import os

            return os.getpid()

    ray.init(num_cpus=1, namespace="same", job_config=JobConfig(default_actor_lifetime="detached"))
    pid = ray.get(Actor.remote().pid.remote())
    assert ray.get(Actor.remote().pid.remote()) != pid, "nobody holds the first, and it lives"
    assert leaks.is_alive(pid)
    ray.shutdown()
    ray.init(num_cpus=1)
    pid = ray.get(Actor.remote().pid.remote())
    wait_until(lambda: not leaks.is_alive(pid), what="the end of an actor that nobody holds")


def test_A14d_another_word_is_refused():
    with pytest.raises(ValueError, match="default_actor_lifetime"):
        JobConfig(default_actor_lifetime="for ever")


@ray.remote(num_cpus=0)
class Child:
    def pid(self):
        import os

        return os.getpid()

    def work(self, signs):
        signs.set("works")
        signs.wait("never")


@ray.remote(num_cpus=0)
class Parent:
    def make(self, **options):
        self.child = Child.options(**options).remote()
        return [self.child], ray.get(self.child.pid.remote(), timeout=30)

    def pid(self):
        import os

        return os.getpid()


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("end", ["kill", "crash"])
def test_A14e_an_actor_ends_with_the_process_that_made_it(gone, signs, end):
    parent = Parent.remote()
    (child,), pid = ray.get(parent.make.remote(), timeout=30)
    under_way = child.work.remote(signs)
    signs.wait("works")
    if end == "kill":
        ray.kill(parent)
    else:
        import os

        os.kill(ray.get(parent.pid.remote(), timeout=30), 9)
    gone(pid)
    for ref in (under_way, child.pid.remote()):
        with pytest.raises(ActorDiedError, match="because its owner has died"):
            ray.get(ref, timeout=30)


@pytest.mark.usefixtures("ray_session")
def test_A14e_also_one_that_waits_for_a_place():
    parent = Parent.remote()
    ref = parent.__ray_call__.remote(lambda _self: [Child.options(num_gpus=99).remote()])
    (child,) = ray.get(ref, timeout=30)
    pending = child.pid.remote()
    assert ray.wait([pending], timeout=0.2)[0] == []
    ray.kill(parent)
    with pytest.raises(ActorDiedError, match="because its owner has died"):
        ray.get(pending, timeout=30)


@pytest.mark.usefixtures("no_session")
def test_A14f_unless_it_is_detached(leaks):
    ray.init(num_cpus=2, namespace="shared")
    parent = Parent.remote()
    (child,), pid = ray.get(parent.make.remote(name="kept", lifetime="detached"), timeout=30)
    ray.kill(parent)
    with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
        ray.get(parent.pid.remote(), timeout=30)
    assert ray.get(child.pid.remote(), timeout=30) == pid
    assert ray.get(ray.get_actor("kept").pid.remote(), timeout=30) == pid
    assert leaks.is_alive(pid)
