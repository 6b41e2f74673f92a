"""Names of actors: who has one, where it is unique, when it is free again."""

import os
import signal

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError
from eagleray.util import list_named_actors

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.two_nodes]


@pytest.fixture
def Actor():
    @ray.remote(num_cpus=0)
    class Actor:
        def pid(self):
            return os.getpid()

        def name(self):
            return ray.get_runtime_context().get_actor_name()

        def exit(self, code):
            os._exit(code)

    return Actor


@pytest.fixture
def ends(leaks, wait_until):
    def wait(pid):
        wait_until(lambda: not leaks.is_alive(pid), what=f"the end of {pid}")

    return wait


def test_A11a_a_taken_name_is_refused(Actor):
    first = Actor.options(name="taken").remote()
    with pytest.raises(ValueError, match=r"The name taken .*is already taken.*Please use a different name"):
        Actor.options(name="taken").remote()
    assert ray.get(ray.get_actor("taken").pid.remote()) == ray.get(first.pid.remote())
    assert ray.get(first.name.remote()) == "taken"


def test_A11a_a_taken_name_is_refused_in_a_task_too(Actor):
    @ray.remote
    def create():
        try:
            Actor.options(name="far").remote()
        except ValueError as error:
            return str(error)

    held = Actor.options(name="far").remote()
    assert "is already taken" in ray.get(create.remote())
    assert ray.get(held.pid.remote())


def test_A11b_the_same_name_in_another_namespace_is_free(Actor):
    here = Actor.options(name="name").remote()
    there = Actor.options(name="name", namespace="elsewhere").remote()
    assert here != there
    assert ray.get_actor("name") == here
    assert ray.get_actor("name", namespace="elsewhere") == there
    with pytest.raises(ValueError, match="is already taken"):
        Actor.options(name="name", namespace="elsewhere").remote()


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("", ValueError, "cannot be an empty string"),
        (1, TypeError, "received type <class 'int'>"),
        (b"name", TypeError, "received type <class 'bytes'>"),
        ([], TypeError, "received type <class 'list'>"),
    ],
)
def test_A11c_a_name_must_be_a_string_with_something_in_it(Actor, name, error, text):
    with pytest.raises(error, match=text):
        Actor.options(name=name).remote()


def test_A11d_an_unknown_name_is_not_found(Actor):
    Actor.options(name="known").remote()
    with pytest.raises(ValueError, match="Failed to look up actor with name 'unknown'"):
        ray.get_actor("unknown")
    with pytest.raises(ValueError, match="Failed to look up actor with name 'known'"):
        ray.get_actor("known", namespace="elsewhere")


@pytest.mark.parametrize("name", [None, "", " ", "\t\n"], ids=repr)
def test_A11e_nothing_is_no_name_to_look_for(name):
    with pytest.raises(ValueError, match="Please supply a non-empty value to get_actor"):
        ray.get_actor(name)


def test_A11f_each_driver_has_a_namespace_of_its_own(drivers):
    program = """
    ray.init(address="auto")
    @ray.remote(num_cpus=0)
    class Actor:
        def pid(self): return os.getpid()
    actor = Actor.options(name="same").remote()
    shared = Actor.options(name=f"shared-{sys.argv[1]}", namespace="ours").remote()
    ray.get([actor.pid.remote(), shared.pid.remote()])
    print("namespace", ray.get_runtime_context().namespace)
    print("ready")
    sys.stdin.readline()
    other = ray.get_actor(f"shared-{sys.argv[2]}", namespace="ours")
    print("pid", ray.get(other.pid.remote()))
    print("names", len(ray.util.list_named_actors()), len(ray.util.list_named_actors(all_namespaces=True)))
    sys.stdin.readline()
    """
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    one, two = drivers.start(program, "one", "two"), drivers.start(program, "two", "one")
    spaces = [driver.hear_until("namespace") for driver in (one, two)]
    assert spaces[0] != spaces[1]
    for driver in (one, two):
        driver.hear_until("ready")
    for driver in (one, two):
        driver.say("go")
        assert int(driver.hear_until("pid"))
        assert driver.hear_until("names") == "1 4"
    for driver in (one, two):
        driver.say("end")
        assert driver.end()[0] == 0


def test_A11f_tasks_and_actors_are_in_the_namespace_of_their_driver(Actor):
    @ray.remote
    def look():
        return ray.get(ray.get_actor("known").pid.remote()), ray.get_runtime_context().namespace

    known = Actor.options(name="known").remote()
    pid, namespace = ray.get(look.remote())
    assert pid == ray.get(known.pid.remote())
    assert namespace == ray.get_runtime_context().namespace


@pytest.mark.usefixtures("no_session")
def test_A11f_a_given_namespace_is_used(Actor):
    ray.shutdown()
    ray.init(num_cpus=1, namespace="given")
    actor = Actor.options(name="name").remote()
    assert ray.get_actor("name", namespace="given") == actor
    assert list_named_actors(all_namespaces=True) == [{"name": "name", "namespace": "given"}]


def test_A11g_names_are_listed_while_their_actors_live(Actor, ends):
    assert list_named_actors() == []
    one, two = Actor.options(name="one").remote(), Actor.options(name="two").remote()
    nameless = Actor.remote()
    assert sorted(list_named_actors()) == ["one", "two"]
    pid = ray.get(one.pid.remote())
    ray.kill(one)
    assert list_named_actors() == ["two"]
    ends(pid)
    assert two
    assert nameless


def test_A11g_a_name_is_listed_while_its_actor_restarts(tmp_path, ends, wait_until):
    @ray.remote(num_cpus=0, max_restarts=1)
    class Restarts:
        def __init__(self, folder):
            import time

            if (folder / "was-here").exists():
                while not (folder / "go-on").exists():
                    time.sleep(0.01)
            (folder / "was-here").touch()

        def pid(self):
            return os.getpid()

    actor = Restarts.options(name="restarts").remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    ends(pid)
    assert list_named_actors() == ["restarts"]
    assert ray.get_actor("restarts") == actor
    (tmp_path / "go-on").touch()
    new = wait_until(lambda: ray.get(actor.pid.options(max_task_retries=-1).remote()), what="the restart")
    assert new != pid
    assert list_named_actors() == ["restarts"]


def test_A11h_names_of_all_namespaces_are_dictionaries(Actor):
    here = Actor.options(name="here").remote()
    there = Actor.options(name="there", namespace="elsewhere").remote()
    listed = list_named_actors(all_namespaces=True)
    assert sorted(listed, key=lambda row: row["name"]) == [
        {"name": "here", "namespace": ray.get_runtime_context().namespace},
        {"name": "there", "namespace": "elsewhere"},
    ]
    assert list_named_actors() == ["here"]
    assert here != there


def test_A12a_a_name_is_free_at_once_after_kill(Actor):
    pids = set()
    for _ in range(10):
        actor = Actor.options(name="again").remote()
        pids.add(ray.get(ray.get_actor("again").pid.remote()))
        ray.kill(actor)
    assert len(pids) == 10, "a call reached an actor that was killed before"
    with pytest.raises(ValueError, match="Failed to look up"):
        ray.get_actor("again")


def test_A12a_a_task_finds_the_new_actor_under_the_old_name(Actor):
    @ray.remote
    def look():
        return ray.get(ray.get_actor("again").pid.remote())

    first = Actor.options(name="again").remote()
    old = ray.get(look.remote())
    ray.kill(first)
    second = Actor.options(name="again").remote()
    assert ray.get(look.remote()) == ray.get(second.pid.remote()) != old


def test_A12b_an_actor_that_crashed_keeps_its_name_while_a_handle_is_held(Actor, wait_until):
    actor = Actor.options(name="crashed").remote()
    with pytest.raises(ActorDiedError, match="exit code 1"):
        ray.get(actor.exit.remote(1))
    with pytest.raises(ValueError, match="is already taken"):
        Actor.options(name="crashed").remote()
    with pytest.raises(ValueError, match="is already taken"):
        Actor.options(name="crashed", get_if_exists=True).remote()
    del actor

    def create():
        try:
            return Actor.options(name="crashed").remote()
        except ValueError:
            return None

    new = wait_until(create, what="the name being free")
    assert ray.get(new.pid.remote())


def test_A12b_an_actor_that_went_out_of_scope_gives_its_name_back(Actor, wait_until):
    actor = Actor.options(name="scope").remote()
    ray.get(actor.pid.remote())
    del actor
    wait_until(lambda: list_named_actors() == [], what="the name being free")
    again = Actor.options(name="scope").remote()
    assert ray.get(again.pid.remote())


def test_A12c_a_detached_actor_gives_its_name_back_when_it_dies(Actor):
    actor = Actor.options(name="detached", lifetime="detached").remote()
    with pytest.raises(ActorDiedError, match="exit code 1"):
        ray.get(actor.exit.remote(1))
    again = Actor.options(name="detached", lifetime="detached").remote()
    assert ray.get(again.pid.remote())
    assert again != actor


def test_A12c_a_detached_actor_keeps_its_name_without_a_handle(Actor):
    actor = Actor.options(name="stays", lifetime="detached").remote()
    pid = ray.get(actor.pid.remote())
    del actor
    for _ in range(3):
        assert ray.get(ray.get_actor("stays").pid.remote()) == pid
    assert list_named_actors() == ["stays"]
