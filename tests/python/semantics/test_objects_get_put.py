"""What get and put accept, wait for and raise."""

import threading
import time

import pytest

import eagleray as ray
from eagleray.exceptions import GetTimeoutError, RayTaskError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote
def give(value):
    return value


@ray.remote(num_cpus=0)
def held(gate, value=None):
    while not gate.exists():
        time.sleep(0.01)
    return value


@ray.remote(num_cpus=0)
def fail(error, gate=None):
    while gate is not None and not gate.exists():
        time.sleep(0.01)
    raise error


@pytest.fixture
def gate(tmp_path):
    """Tasks that wait for this file end at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()


def test_O1a_get_of_a_list_keeps_its_order(gate):
    slow = held.remote(gate, "slow")
    refs = [slow, *(give.remote(index) for index in range(50)), ray.put("put")]
    gate.touch()
    assert ray.get(refs) == ["slow", *range(50), "put"]
    assert ray.get(refs[::-1]) == ["put", *range(49, -1, -1), "slow"]


def test_O1b_one_ref_may_stand_several_times_in_a_list():
    ref, other = ray.put("twice"), give.remote("once")
    assert ray.get([ref, other, ref, ref]) == ["twice", "once", "twice", "twice"]
    pending = give.remote("new")
    assert ray.get([pending] * 5) == ["new"] * 5


def test_O1c_get_of_an_empty_list_is_an_empty_list():
    assert ray.get([]) == []
    assert ray.get([], timeout=0) == []


@pytest.mark.parametrize(
    "make", [lambda ref: (ref,), lambda ref: {ref}, lambda ref: {"a": ref}, lambda ref: iter([ref])]
)
def test_O1d_get_of_another_container_raises(make):
    with pytest.raises(ValueError, match="Invalid type of object refs"):
        ray.get(make(ray.put(1)))


@pytest.mark.parametrize("value", [3, "text", None, b"bytes" * 5, object()], ids=lambda value: type(value).__name__)
def test_O1f_get_of_anything_else_raises(value):
    wanted = rf"Invalid type of object refs, {type(value)}, is given"
    with pytest.raises(ValueError, match=wanted):
        ray.get(value)
    with pytest.raises(TypeError, match="Attempting to call `get` on the value .*, which is not an ray.ObjectRef"):
        ray.get([ray.put(1), value])


def test_O1f_what_get_is_given_may_be_named():
    assert ray.get(object_refs=ray.put(1), timeout=None) == 1
    with pytest.raises(TypeError, match="takes 1 positional arguments? but 2 were given"):
        ray.get(ray.put(1), 5)


def test_O1g_put_of_a_ref_raises():
    ref = ray.put(1)
    with pytest.raises(TypeError, match="not allowed"):
        ray.put(ref)
    (inner,) = ray.get(ray.put([ref]))
    assert inner == ref
    assert ray.get(inner) == 1


def test_O2a_a_timeout_of_zero_on_an_unfinished_ref_raises(gate):
    ref = held.remote(gate)
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0)
    with pytest.raises(GetTimeoutError):
        ray.get([ray.put(1), ref], timeout=0)
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.05)


@pytest.mark.parametrize("timeout", [-2, -0.5, float("nan")])
def test_O2d_a_negative_timeout_is_refused_whether_or_not_there_is_something_to_wait_for(gate, timeout):
    # Only a ref that was not ready was looked at closely: a mistake showed itself now and then.
    ready, hanging = ray.put(1), held.remote(gate)
    for refs in (ready, hanging, [ready], [ready, hanging], []):
        with pytest.raises(ValueError, match="The 'timeout' argument must be nonnegative"):
            ray.get(refs, timeout=timeout)
    with pytest.raises(TypeError, match="'timeout' argument must be a number of seconds, or None, not <class 'str'>"):
        ray.get(ready, timeout="soon")


def test_O2d_a_timeout_of_minus_one_is_no_limit(gate):
    ref = held.remote(gate)
    threading.Timer(0.2, gate.touch).start()
    ray.get(ref, timeout=-1)


def test_O2a_a_timeout_of_zero_on_a_finished_ref_returns_it():
    ref = give.remote(1)
    ray.wait([ref])
    assert ray.get(ref, timeout=0) == 1
    assert ray.get(ray.put(2), timeout=0) == 2


def test_O2b_get_timeout_error_is_a_timeout_error(gate):
    with pytest.raises(TimeoutError) as raised:
        ray.get(held.remote(gate), timeout=0)
    assert isinstance(raised.value, GetTimeoutError)
    assert isinstance(raised.value, ray.exceptions.RayError)


def test_O2c_the_task_goes_on_after_a_timeout(gate):
    ref = held.remote(gate, "done")
    for timeout in (0, 0.1):
        with pytest.raises(GetTimeoutError):
            ray.get(ref, timeout=timeout)
    gate.touch()
    assert ray.get(ref) == "done"


def test_O3a_a_list_raises_as_soon_as_one_element_failed(gate):
    hanging = held.remote(gate)
    for refs in ([hanging, fail.remote(KeyError("second"))], [fail.remote(KeyError("first")), hanging]):
        with pytest.raises(KeyError):
            ray.get(refs, timeout=30)
    assert ray.wait([hanging], timeout=0) == ([], [hanging])


def test_O3a_a_long_list_raises_early_too(gate):
    hanging = [held.remote(gate) for _ in range(2)]
    refs = [hanging[0], *(give.remote(index) for index in range(200)), fail.remote(KeyError("late")), hanging[1]]
    with pytest.raises(KeyError, match="late"):
        ray.get(refs, timeout=30)


def test_O3a_an_error_that_comes_while_get_waits_ends_it(gate, tmp_path):
    trigger = tmp_path / "trigger"
    hanging, failing = held.remote(gate), fail.remote(KeyError("now"), trigger)
    with pytest.raises(GetTimeoutError):
        ray.get([hanging, failing], timeout=0.05)
    trigger.touch()
    with pytest.raises(KeyError, match="now"):
        ray.get([hanging, failing], timeout=30)


def test_O3b_the_first_of_several_errors_in_the_list_is_raised():
    refs = [fail.remote(ValueError("one")), ray.put(1), fail.remote(KeyError("two")), fail.remote(ValueError("three"))]
    ray.wait(refs, num_returns=4)
    with pytest.raises(ValueError, match="one"):
        ray.get(refs)
    with pytest.raises(KeyError, match="two"):
        ray.get(refs[1:])
    with pytest.raises(RayTaskError, match="three"):
        ray.get([refs[1], refs[3], refs[2]])
