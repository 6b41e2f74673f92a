"""Handles that do not keep their actor alive."""

import os
import pickle
import time

import cloudpickle
import pytest

import eagleray as ray
from eagleray.exceptions import RayActorError

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote(num_cpus=0)
class Actor:
    def pid(self):
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

    def call(self):
        return ray.get(self.held["handle"].pid.remote())


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
    with pytest.raises(RayActorError):
        ray.get(weak.pid.remote())


def test_A4a_nor_does_it_in_another_process(ends):
    keeper, actor = Keeper.remote(), Actor.options(name="a4a-other").remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.find.remote("a4a-other"))
    assert ray.get(keeper.call.remote()) == pid
    del actor
    ends(pid)
    with pytest.raises(RayActorError):
        ray.get(keeper.call.remote())


def test_A4a_get_if_exists_finds_a_weak_handle(ends):
    actor = Actor.options(name="a4a-exists").remote()
    pid = ray.get(actor.pid.remote())
    weak = Actor.options(name="a4a-exists", get_if_exists=True).remote()
    assert ray.get(weak.pid.remote()) == pid
    del actor
    ends(pid)


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
    with pytest.raises(RayActorError):
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
    with pytest.raises(RayActorError):
        ray.get(copy.pid.remote())
    with pytest.raises(RayActorError):
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
