"""Handles that do not keep their actor alive."""

import os
import pickle
import threading
import time

import cloudpickle
import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Actor:
    def pid(self):
        return os.getpid()

    def wait_for(self, signs, name):
        signs.wait(name)
        return os.getpid()

    def me(self):
        return ray.get_runtime_context().current_actor

    def give_me_to(self, keeper):
        ray.get(keeper.keep.remote({"handle": ray.get_runtime_context().current_actor}))


@ray.remote(num_cpus=0)
class Keeper:
    def keep(self, held):
        self.held = held

    def find(self, name):
        self.held = {"handle": ray.get_actor(name)}

    def make_or_find(self, name):
        self.held = {"handle": Actor.options(name=name, get_if_exists=True).remote()}

    def call(self):
        return ray.get(self.held["handle"].pid.remote())

    def call_weakly(self, name, signs):
        answer = ray.get_actor(name).wait_for.remote(signs, "go")
        self.held = None
        return ray.get(answer)


@pytest.fixture
def ends(leaks, wait_until):
    def wait(pid):
        wait_until(lambda: not leaks.is_alive(pid), what=f"the end of {pid}")

    return wait


def test_A4a_a_handle_from_get_actor_does_not_keep_the_actor(ends):
    actor = Actor.options(name="a4a").remote()
    pid = ray.get(actor.pid.remote())
    weak = ray.get_actor("a4a")
    assert ray.get(weak.pid.remote()) == pid
    del actor
    ends(pid)
    with pytest.raises(ActorDiedError, match="all references to it were removed"):
        ray.get(weak.pid.remote())


def test_A4a_nor_does_it_in_another_process(ends):
    keeper, actor = Keeper.remote(), Actor.options(name="a4a-other").remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.find.remote("a4a-other"))
    assert ray.get(keeper.call.remote()) == pid
    del actor
    ends(pid)
    with pytest.raises(ActorDiedError, match="all references to it were removed"):
        ray.get(keeper.call.remote())


def test_A4a_get_if_exists_finds_a_weak_handle_on_an_actor_of_another_process(ends):
    keeper, actor = Keeper.remote(), Actor.options(name="a4a-exists").remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.make_or_find.remote("a4a-exists"))
    assert ray.get(keeper.call.remote()) == pid
    del actor
    ends(pid)


def test_A13d_get_if_exists_finds_a_handle_that_counts_where_the_actor_was_made(ends):
    first = Actor.options(name="a13d").remote()
    pid = ray.get(first.pid.remote())
    second = Actor.options(name="a13d", get_if_exists=True).remote()
    del first
    assert ray.get(second.pid.remote()) == pid
    assert ray.get(ray.get_actor("a13d").pid.remote()) == pid
    del second
    ends(pid)


def test_A13d_or_where_a_handle_is_held_already(ends):
    keeper, actor = Keeper.remote(), Actor.options(name="a13d-held").remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.keep.remote({"handle": actor}))
    ray.get(keeper.make_or_find.remote("a13d-held"))
    del actor
    assert ray.get(keeper.call.remote()) == pid
    ray.get(keeper.keep.remote(None))
    ends(pid)


def test_A3g_a_call_through_a_weak_handle_of_the_same_process_is_finished_first(ends, signs):
    actor = Actor.options(name="a3g").remote()
    pid = ray.get(actor.pid.remote())
    answer = ray.get_actor("a3g").wait_for.remote(signs, "go")
    behind = ray.get_actor("a3g").pid.remote()
    del actor
    # Time in which the actor could have been ended.
    assert ray.wait([answer, behind], timeout=0.5) == ([], [answer, behind])
    signs.set("go")
    assert ray.get([answer, behind]) == [pid, pid]
    ends(pid)


def test_A3g_also_where_the_process_was_only_given_a_handle(ends, signs):
    keeper, actor = Keeper.remote(), Actor.options(name="a3g-given").remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.keep.remote({"handle": actor}))
    del actor
    answer = keeper.call_weakly.remote("a3g-given", signs)
    assert ray.wait([answer], timeout=0.5) == ([], [answer])
    signs.set("go")
    assert ray.get(answer) == pid
    ends(pid)


def test_A13a_threads_that_come_and_go_are_all_answered():
    # A thread that found the actor used to lose it to the one that had made it and was done.
    failed = []

    def use():
        try:
            for _ in range(40):
                ray.get(Actor.options(name="a13a-threads", get_if_exists=True).remote().pid.remote())
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_A4b_current_actor_does_not_keep_the_actor(ends):
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    weak = ray.get(actor.me.remote())
    assert weak == actor
    assert ray.get(weak.pid.remote()) == pid
    del actor
    ends(pid)


def test_A4b_an_actor_that_keeps_a_handle_on_itself_ends(ends):
    @ray.remote(num_cpus=0)
    class Selfish:
        def __init__(self):
            self.me = ray.get_runtime_context().current_actor

        def pid(self):
            return os.getpid()

    actor = Selfish.remote()
    pid = ray.get(actor.pid.remote())
    del actor
    ends(pid)


def test_A4c_a_weak_handle_stays_weak_when_passed_on(ends):
    keeper, actor = Keeper.remote(), Actor.options(name="a4c").remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.keep.remote({"handle": ray.get_actor("a4c")}))
    kept = ray.put([ray.get_actor("a4c")])
    assert ray.get(keeper.call.remote()) == pid
    del actor
    ends(pid)
    with pytest.raises(ActorDiedError, match="all references to it were removed"):
        ray.get(ray.get(kept)[0].pid.remote())


def test_A4c_so_does_current_actor_when_passed_on(ends):
    keeper, actor = Keeper.remote(), Actor.remote()
    pid = ray.get(actor.pid.remote())
    ray.get(actor.give_me_to.remote(keeper))
    assert ray.get(keeper.call.remote()) == pid
    del actor
    ends(pid)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_A4d_a_handle_pickled_by_hand_is_not_counted(ends, dumps):
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    pickled = dumps(actor)
    copy = pickle.loads(pickled)
    assert copy == actor
    assert ray.get(copy.pid.remote()) == pid
    del actor
    ends(pid)
    with pytest.raises(ActorDiedError, match="all references to it were removed"):
        ray.get(copy.pid.remote())
    with pytest.raises(ActorDiedError, match="all references to it were removed"):
        ray.get(pickle.loads(pickled).pid.remote())


def test_A4d_such_a_handle_works_in_another_process_while_the_actor_lives():
    @ray.remote(num_cpus=0)
    def call(pickled):
        return ray.get(pickle.loads(pickled).pid.remote())

    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    assert ray.get(call.remote(pickle.dumps(actor))) == pid
    time.sleep(0.2)
    assert ray.get(actor.pid.remote()) == pid
