"""How a call's arguments are checked, bound and carried."""

import numpy as np
import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def bound(a, b=2, *more, c, d=4, **rest):
    return a, b, more, c, d, rest


WRONG_CALLS = [
    pytest.param((), {}, "missing", id="missing"),
    pytest.param((1, 2, 3), {}, "takes", id="extra"),
    pytest.param((1,), {"a": 1}, "multiple values", id="doubled"),
    pytest.param((1,), {"z": 1}, "unexpected keyword", id="unknown"),
]


@pytest.mark.parametrize(("args", "kwargs", "text"), WRONG_CALLS)
def test_T1a_a_wrong_task_call_raises_at_the_call_itself(args, kwargs, text):
    @ray.remote
    def two(a, b=0):
        return a, b

    with pytest.raises(TypeError, match=text):
        two.remote(*args, **kwargs)
    with pytest.raises(TypeError, match=text):
        two.options(num_cpus=1).remote(*args, **kwargs)
    assert ray.get(two.remote(1)) == (1, 0), "the function can still be called"


def test_T1a_a_function_without_parameters_refuses_arguments():
    @ray.remote
    def none():
        return "none"

    with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given"):
        none.remote(1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        none.remote(x=1)


@pytest.mark.parametrize(("args", "kwargs", "text"), WRONG_CALLS)
def test_T1b_a_wrong_constructor_call_raises_at_the_call_itself(args, kwargs, text):
    @ray.remote(num_cpus=0)
    class Two:
        def __init__(self, a, b=0):
            self.pair = (a, b)

    with pytest.raises(TypeError, match=text):
        Two.remote(*args, **kwargs)


def test_T1b_a_class_without_a_constructor_takes_no_arguments():
    @ray.remote(num_cpus=0)
    class Plain:
        pass

    with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given"):
        Plain.remote(1)


@pytest.mark.parametrize(("args", "kwargs", "text"), WRONG_CALLS)
def test_T1c_a_wrong_method_call_raises_at_the_call_itself(args, kwargs, text):
    @ray.remote(num_cpus=0)
    class Two:
        def pair(self, a, b=0):
            return a, b

    two = Two.remote()
    with pytest.raises(TypeError, match=text):
        two.pair.remote(*args, **kwargs)
    with pytest.raises(TypeError, match=text):
        two.pair.options(name="other").remote(*args, **kwargs)
    assert ray.get(two.pair.remote(1)) == (1, 0)


def test_T1d_parameters_bind_as_in_a_plain_call():
    plain = bound._function
    calls = [
        ((1,), {"c": 3}),
        ((1, 20, 30, 40), {"c": 3}),
        ((1,), {"c": 3, "b": 5, "d": 6, "e": 7, "self": 8}),
        ((), {"a": 1, "c": 3}),
    ]
    for args, kwargs in calls:
        assert ray.get(bound.remote(*args, **kwargs)) == plain(*args, **kwargs)
    with pytest.raises(TypeError, match="keyword-only"):
        bound.remote(1)


def test_T1d_a_method_with_every_kind_of_parameter_binds_as_in_a_plain_call():
    class Plain:
        def call(self, a, /, b=2, *more, c=3, **rest):
            return a, b, more, c, rest

    actor = ray.remote(num_cpus=0)(Plain).remote()
    for args, kwargs in [((1,), {}), ((1, 4, 5, 6), {"c": 0, "x": 9}), ((1,), {"a": "by keyword", "b": 3})]:
        assert ray.get(actor.call.remote(*args, **kwargs)) == Plain().call(*args, **kwargs)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        actor.call.remote(b=1)


def test_T1d_a_default_value_is_the_one_of_the_definition():
    default = {"made": "once"}

    @ray.remote
    def with_default(value=default):
        return value

    assert ray.get(with_default.remote()) == default
    assert ray.get(with_default.remote(None)) is None


def test_T1e_a_classmethod_of_an_actor_binds_the_same_way():
    @ray.remote(num_cpus=0)
    class Counted:
        start = 10

        @classmethod
        def add(cls, a, *more, times=1, **rest):
            return cls.start + (a + sum(more)) * times, rest

        @staticmethod
        def twice(a):
            return 2 * a

    actor = Counted.remote()
    assert ray.get(actor.add.remote(1)) == (11, {})
    assert ray.get(actor.add.remote(1, 2, times=2, x=3)) == (16, {"x": 3})
    assert ray.get(actor.twice.remote(4)) == 8
    with pytest.raises(TypeError, match="missing"):
        actor.add.remote()
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        actor.twice.remote(1, 2)


@ray.remote
def kinds(*args, **kwargs):
    def kind(value):
        return type(value).__name__

    return [kind(arg) for arg in args], {name: kind(arg) for name, arg in kwargs.items()}


def test_T2a_T2c_a_ref_at_the_top_of_a_call_arrives_as_its_value():
    small, large = ray.put(1), ray.put(np.zeros(1_000_000))
    assert ray.get(kinds.remote(small, large, x=small, y=large)) == (
        ["int", "ndarray"],
        {"x": "int", "y": "ndarray"},
    )


def test_T2a_a_ref_of_an_unfinished_task_is_waited_for():
    @ray.remote
    def slow():
        import time

        time.sleep(0.2)
        return "late"

    @ray.remote
    def shout(text):
        return text.upper()

    assert ray.get(shout.remote(slow.remote())) == "LATE"


@pytest.mark.parametrize(
    "container",
    [lambda ref: [ref], lambda ref: (ref,), lambda ref: {"key": ref}, lambda ref: {ref}, lambda ref: [[{"deep": ref}]]],
    ids=["list", "tuple", "dict", "set", "deep"],
)
def test_T2b_a_ref_inside_a_container_arrives_as_a_ref(container):
    @ray.remote
    def find(value):
        while not isinstance(value, ray.ObjectRef):
            value = next(iter(value.values() if isinstance(value, dict) else value))
        return ray.get(value)

    assert ray.get(find.remote(container(ray.put("inside")))) == "inside"


def test_T2b_a_ref_inside_a_keyword_argument_arrives_as_a_ref():
    ref = ray.put(3)
    assert ray.get(kinds.remote(x=[ref])) == ([], {"x": "list"})

    @ray.remote
    def first(values):
        return values[0]

    inner = ray.get(first.remote(values=[ref]))
    assert isinstance(inner, ray.ObjectRef)
    assert ray.get(inner) == 3


def test_T2d_one_ref_may_be_given_several_times_in_one_call():
    @ray.remote
    def add(a, b, *more, c):
        return a + b + sum(more) + c

    ref = ray.put(5)
    assert ray.get(add.remote(ref, ref, ref, ref, c=ref)) == 25

    @ray.remote
    def are_one(a, b, c):
        return bool((a == b).all()) and bool((b == c).all())

    large = ray.put(np.arange(500_000))
    assert ray.get(are_one.remote(large, large, c=large))


def test_T2e_a_task_that_returns_a_ref_yields_a_ref_to_a_ref():
    @ray.remote
    def inner():
        return "value"

    @ray.remote
    def outer():
        return inner.remote()

    first = ray.get(outer.remote())
    assert isinstance(first, ray.ObjectRef)
    assert ray.get(first) == "value"


@pytest.mark.parametrize("size", [0, 1, 1_000, 100 * 1024 - 1, 100 * 1024, 100 * 1024 + 1, 5_000_000])
def test_T8a_an_argument_of_any_size_arrives_whole(size):
    @ray.remote
    def check(data, array, nested):
        return data, array.tobytes(), nested["data"]

    data = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    array = np.frombuffer(data, dtype=np.uint8)
    assert len(data) == size
    got = ray.get(check.remote(data, array, nested={"data": data}))
    assert got == (data, data, data)


def test_T8b_many_arguments_that_pass_the_inline_cap_together_arrive():
    @ray.remote
    def totals(*arrays, **named):
        return [int(array[0]) for array in arrays], {name: int(array[-1]) for name, array in named.items()}

    arrays = [np.full(50_000, index, dtype=np.uint8) for index in range(200)]
    by_name = {f"n{index}": np.full(50_000, index, dtype=np.uint8) for index in range(200)}
    assert ray.get(totals.remote(*arrays)) == (list(range(200)), {})
    assert ray.get(totals.remote(**by_name)) == ([], {f"n{index}": index for index in range(200)})


def test_T8b_the_inline_cap_holds_for_actors_too():
    @ray.remote(num_cpus=0)
    class Holder:
        def __init__(self, *parts):
            self.parts = parts

        def lengths(self, *more):
            return [len(part) for part in (*self.parts, *more)]

    parts = [bytes([index]) * 50_000 for index in range(250)]
    holder = Holder.remote(*parts)
    assert ray.get(holder.lengths.remote(*parts)) == [50_000] * 500
