"""What `@remote` leaves of a class, and the methods that every actor has."""

import pytest

import eagleray as ray
from eagleray.actor import ActorClassInheritanceException

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Actor:
    """Counts."""

    limit = 3

    def __init__(self, value=0):
        self.value = value

    def read(self):
        return self.value

    @classmethod
    def named(cls, suffix):
        return f"{cls.__name__}{suffix}{cls.limit}"

    @staticmethod
    def double(number):
        return 2 * number

    @classmethod
    def set_limit(cls, limit):
        cls.limit = limit
        return cls.limit


def test_A6a_class_attributes_classmethods_and_staticmethods_work_locally():
    assert Actor.limit == 3
    assert Actor.named("!") == "Actor!3"
    assert Actor.double(21) == 42
    assert Actor.__doc__ == "Counts."
    assert Actor.__name__ == "Actor"
    with pytest.raises(AttributeError, match="nowhere"):
        _ = Actor.nowhere


def test_A6b_the_class_cannot_be_instantiated():
    with pytest.raises(TypeError, match="cannot be instantiated directly"):
        Actor()
    with pytest.raises(TypeError, match="cannot be instantiated directly"):
        Actor(1, value=2)


def test_A6c_the_class_cannot_be_inherited_from():
    with pytest.raises(ActorClassInheritanceException, match="Actor"):

        class Derived(Actor):
            pass

    with pytest.raises(TypeError, match="MRO entry resolution"):
        type("Derived", (Actor,), {})
    assert issubclass(ActorClassInheritanceException, TypeError)


def test_A6d_an_actor_may_inherit_from_plain_classes():
    class Base:
        def __init__(self, value):
            self.value = value

        def read(self):
            return f"base {self.value}"

        def untouched(self):
            return "untouched"

    class Mixin:
        def mixed(self):
            return "mixed"

    @ray.remote(num_cpus=0)
    class Derived(Base, Mixin):
        def __init__(self, value):
            super().__init__(value + 1)

        def read(self):
            return f"derived {super().read()}"

    actor = Derived.remote(1)
    assert ray.get([actor.read.remote(), actor.untouched.remote(), actor.mixed.remote()]) == [
        "derived base 2",
        "untouched",
        "mixed",
    ]


def test_A6d_one_plain_class_can_be_several_actor_classes():
    class Plain:
        def read(self):
            return "plain"

    first, second = ray.remote(Plain), ray.remote(num_cpus=0)(Plain)
    assert ray.get([first.remote().read.remote(), second.remote().read.remote()]) == ["plain", "plain"]
    assert Plain().read() == "plain"


def test_A6e_a_classmethod_can_be_called_remotely():
    actor = Actor.remote()
    assert ray.get(actor.named.remote("?")) == "Actor?3"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'suffix'"):
        actor.named.remote()


def test_A6e_it_changes_the_class_in_the_actors_process_only():
    actor = Actor.remote()
    assert ray.get(actor.set_limit.remote(9)) == 9
    assert ray.get(actor.named.remote("-")) == "Actor-9"
    assert Actor.limit == 3


def test_A6e_a_staticmethod_can_be_called_remotely_too():
    assert ray.get(Actor.remote().double.remote(4)) == 8


def test_A6a_a_class_defined_again_under_its_name_is_another_class():
    # As in a notebook, where a cell is run again after a change.
    def define(answer):
        @ray.remote(num_cpus=0)
        class Cell:
            def answer(self):
                return answer

        return Cell

    first = define(1).remote()
    second = define(2).remote()
    assert ray.get([first.answer.remote(), second.answer.remote(), first.answer.remote()]) == [1, 2, 1]


def test_A7a_ray_call_runs_a_function_with_the_instance_first():
    def add(instance, number, *, times=1):
        instance.value += number * times
        return instance.value

    actor = Actor.remote(5)
    assert ray.get(actor.__ray_call__.remote(add, 2, times=10)) == 25
    assert ray.get(actor.read.remote()) == 25


def test_A7a_ray_call_runs_a_coroutine_on_an_async_actor():
    @ray.remote(num_cpus=0)
    class Async:
        async def read(self):
            return "read"

    async def twice(instance):
        return 2 * await instance.read()

    assert ray.get(Async.remote().__ray_call__.remote(twice)) == "readread"


def test_A7b_ray_ready_answers_true_once_the_actor_stands():
    assert ray.get(Actor.remote().__ray_ready__.remote()) is True

    @ray.remote(num_cpus=0)
    class Broken:
        def __init__(self):
            raise ValueError("never stands")

    with pytest.raises(ray.exceptions.ActorDiedError, match="never stands"):
        ray.get(Broken.remote().__ray_ready__.remote())


@pytest.mark.parametrize("method", ["read", "__ray_ready__", "__ray_call__", "__ray_terminate__"])
def test_A7c_a_method_cannot_be_called_without_remote(method):
    actor = Actor.remote()
    with pytest.raises(TypeError, match=r"\.remote\(\)"):
        getattr(actor, method)()
    assert ray.get(actor.read.remote()) == 0
