"""What cannot be pickled is refused where it is given, with the path to the culprit."""

import threading

import pytest

import eagleray as ray
from eagleray.exceptions import RaySystemError, RayTaskError

pytestmark = pytest.mark.usefixtures("shared_ray")


class Opaque:
    """Holds something that no pickle can carry."""

    def __init__(self):
        self.inner = {"lock": threading.Lock()}

    def __repr__(self):
        return "<Opaque>"


@ray.remote
def take(*args, **kwargs):
    return "taken"


def test_T9a_T9e_an_argument_names_its_callee_and_the_culprit():
    prefix = r"Could not serialize the argument <Opaque> for a task or actor .*test_tasks_unpicklable\.take:"
    for args, kwargs in [((Opaque(),), {}), ((1, Opaque()), {}), ((), {"x": Opaque()})]:
        with pytest.raises(TypeError, match=prefix) as raised:
            take.remote(*args, **kwargs)
        text = str(raised.value)
        assert "Checking Serializability of <Opaque>" in text
        assert "inner" in text
        assert "_thread.lock" in text
    assert ray.get(take.remote(1)) == "taken"


def test_T9a_an_argument_of_an_actor_names_the_actor():
    @ray.remote(num_cpus=0)
    class Actor:
        def __init__(self, value=None):
            self.value = value

        def method(self, value):
            return value

    with pytest.raises(TypeError, match=r"Could not serialize the argument <Opaque> for a task or actor .*Actor"):
        Actor.remote(Opaque())
    actor = Actor.remote()
    with pytest.raises(
        TypeError, match=r"Could not serialize the argument <Opaque> for a task or actor .*Actor\.method:"
    ):
        actor.method.remote(Opaque())
    assert ray.get(actor.method.remote(1)) == 1


def test_T9b_T9e_a_function_names_itself_and_the_culprit():
    opaque = Opaque()

    @ray.remote
    def captures():
        return opaque

    with pytest.raises(TypeError, match=r"Could not serialize the function .*captures:") as raised:
        captures.remote()
    assert "closure variable opaque: <Opaque>" in str(raised.value)


def test_T9c_T9e_an_actor_class_names_itself_and_the_culprit():
    opaque = Opaque()

    @ray.remote
    class Captures:
        def method(self):
            return opaque

    with pytest.raises(TypeError, match=r"Could not serialize the actor class .*Captures:") as raised:
        Captures.remote()
    assert "opaque: <Opaque>" in str(raised.value)


def test_T9d_T9e_a_put_value_names_itself_and_the_culprit():
    with pytest.raises(TypeError, match=r"Could not serialize the put value <Opaque>:") as raised:
        ray.put(Opaque())
    assert "_thread.lock" in str(raised.value)
    with pytest.raises(TypeError, match=r"Could not serialize the put value \["):
        ray.put([1, 2, threading.Lock()])


def test_what_the_users_own_pickling_code_raises_is_left_as_it_is():
    class Stubborn:
        def __reduce__(self):
            raise RuntimeError("I stay")

    with pytest.raises(RuntimeError, match="I stay"):
        ray.put(Stubborn())
    with pytest.raises(RuntimeError, match="I stay"):
        take.remote(Stubborn())


def test_T9e_a_result_that_cannot_be_pickled_fails_its_task_only():
    @ray.remote
    def give():
        import threading

        return {"lock": threading.Lock()}

    @ray.remote(num_returns=2)
    def give_two():
        import threading

        return 1, threading.Lock()

    @ray.remote(num_cpus=0)
    class Actor:
        def give(self):
            import threading

            return threading.Lock()

        def plain(self):
            return 1

    actor = Actor.remote()
    for ref in [give.remote(), *give_two.remote(), actor.give.remote()]:
        with pytest.raises(TypeError, match="Could not serialize the return value") as raised:
            ray.get(ref)
        assert isinstance(raised.value, ray.exceptions.RayTaskError)
        assert "_thread.lock" in str(raised.value)
    assert ray.get([take.remote(), actor.plain.remote()]) == ["taken", 1]


class Unreadable:
    """Pickles well, and cannot be made again."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ValueError("not here")


# The cause was the ValueError, as though the callee had raised it.
def test_an_argument_that_cannot_be_unpickled_is_an_error_of_the_system():
    for given in (Unreadable(), ray.put(Unreadable())):
        with pytest.raises(RayTaskError, match="not here") as raised:
            ray.get(take.remote(given))
        assert isinstance(raised.value.cause, RaySystemError)
