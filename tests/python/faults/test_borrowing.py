"""A value lives as long as anyone holds a reference to it, however that one came by it."""

import gc

import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("shared_ray")

ROUNDS = 20


@ray.remote(num_cpus=0)
class Keeper:
    def keep(self, refs):
        self.kept = refs

    def read(self):
        return ray.get(self.kept, timeout=10)

    def hand_out(self):
        return self.kept


@ray.remote(num_cpus=0)
def pass_on(keeper, refs):
    ray.get(keeper.keep.remote(refs))
    return []


@ray.remote(num_cpus=0)
def pass_on_and_leave(keeper, refs):
    return [keeper.keep.remote(refs)]


@ray.remote(num_cpus=0)
def give_back(refs):
    return refs


# The call's reply went through a ring and let go of the value; word of who keeps it went by way of the node, and came too late.
@pytest.mark.parametrize("between", [pass_on, pass_on_and_leave])
def test_what_a_task_passes_on_to_an_actor_that_keeps_it_lives(between):
    keeper = Keeper.remote()
    for number in range(ROUNDS):
        ray.get(ray.get(between.remote(keeper, [ray.put(number)])))
        assert ray.get(keeper.read.remote()) == [number]


def test_what_an_actor_keeps_and_hands_out_outlives_the_actor():
    keeper = Keeper.remote()
    ray.get(pass_on.remote(keeper, [ray.put("it")]))
    refs = ray.get(keeper.hand_out.remote())
    ray.kill(keeper)
    assert ray.get(refs) == ["it"]


def test_what_comes_home_is_what_went_out():
    for number in range(ROUNDS):
        (ref,) = ray.get(give_back.remote([ray.put(number)]))
        gc.collect()
        assert ray.get(ref) == number
