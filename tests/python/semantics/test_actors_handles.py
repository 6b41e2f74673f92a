"""Handles as values, and what can be read off them and their class."""

import pickle

import pytest

import eagleray as ray
from eagleray.actor import ActorClass, ActorHandle

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Actor:
    limit = 3

    def __init__(self, value=0):
        self.value = value

    def read(self):
        return self.value

    def _private(self):
        return "private"


def test_A5a_handles_of_one_actor_are_equal_and_hash_alike():
    one, other = Actor.options(name="a5a").remote(), Actor.remote()
    again = ray.get_actor("a5a")
    assert one == again
    assert hash(one) == hash(again)
    assert one != other
    assert {one: "one", other: "other"}[again] == "one"
    assert len({one, again, other}) == 2


def test_A5a_they_are_equal_and_hash_alike_across_processes():
    @ray.remote(num_cpus=0)
    def look(held):
        (handle,) = held
        return hash(handle), handle == ray.get_actor("a5a-across"), held

    actor = Actor.options(name="a5a-across").remote()
    hashed, is_equal, (back,) = ray.get(look.remote([actor]))
    assert is_equal
    assert hashed == hash(actor)
    assert back == actor
    assert {back: 1}[actor] == 1


@pytest.mark.parametrize("other", [1, None, "actor", object()], ids=repr)
def test_A5b_comparing_with_something_else_is_false_and_no_error(other):
    actor = Actor.remote()
    assert (actor == other) is False
    assert (other == actor) is False
    assert actor != other


def test_A5c_a_handle_can_be_pickled():
    actor = Actor.remote(7)
    copy = pickle.loads(pickle.dumps(actor))
    assert isinstance(copy, ActorHandle)
    assert ray.get(copy.read.remote()) == 7


def test_A5c_a_handle_can_be_an_argument_a_result_and_part_of_both():
    @ray.remote(num_cpus=0)
    def through(plain, nested):
        assert plain == nested["deep"][0]
        return plain, nested

    actor = Actor.remote(8)
    plain, nested = ray.get(through.remote(actor, {"deep": [actor]}))
    assert ray.get([plain.read.remote(), nested["deep"][0].read.remote()]) == [8, 8]


def test_A5d_dir_of_a_handle_lists_the_methods_and_nothing_else():
    expected = {"read", "_private", "__init__", "__ray_ready__", "__ray_call__", "__ray_terminate__"}
    actor = Actor.remote()
    assert set(dir(actor)) == expected
    assert len(dir(actor)) == len(expected)
    assert ray.get(actor._private.remote()) == "private"


def test_A5d_inherited_methods_are_listed_too():
    class Base:
        def inherited(self):
            return "inherited"

    @ray.remote(num_cpus=0)
    class Derived(Base):
        def own(self):
            return "own"

    actor = Derived.remote()
    assert {"inherited", "own"} < set(dir(actor))
    assert ray.get([actor.inherited.remote(), actor.own.remote()]) == ["inherited", "own"]


def test_A5e_dir_of_the_class_has_its_verbs():
    assert isinstance(Actor, ActorClass)
    assert {"options", "remote", "bind"} <= set(dir(Actor))


class Caller:
    def __init__(self):
        self.me = ray.get_runtime_context().current_actor
        self.steps = 0

    def step(self, last):
        self.steps += 1
        if self.steps < last:
            self.me.step.remote(last)

    def count(self):
        return self.steps

    def later(self):
        return self.me.count.remote()

    def both(self):
        return 1 + ray.get(self.me.count.remote())

    def large(self):
        return self.me.echo.remote(bytes(300_000), [ray.put("inside")])

    def echo(self, value, refs):
        return value, refs


def test_A5c_an_actor_may_call_itself_through_its_handle(wait_until):
    caller = ray.remote(Caller).remote()
    ray.get(caller.step.remote(5))
    wait_until(lambda: ray.get(caller.count.remote()) == 5)
    assert ray.get(ray.get(caller.later.remote())) == 5
    value, refs = ray.get(ray.get(caller.large.remote()))
    assert (len(value), ray.get(refs)) == (300_000, ["inside"])


def test_A5c_a_threaded_actor_may_wait_for_its_own_call():
    caller = ray.remote(max_concurrency=2)(Caller).remote()
    assert ray.get(caller.both.remote(), timeout=60) == 1


def test_A5c_an_async_actor_may_await_its_own_call():
    @ray.remote
    class Async:
        def __init__(self):
            self.me = ray.get_runtime_context().current_actor

        async def one(self):
            return 1

        async def both(self):
            return 1 + await self.me.one.remote()

    assert ray.get(Async.remote().both.remote(), timeout=60) == 2
