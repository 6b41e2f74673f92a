"""Options that make no sense: refused where they are given, with a text that names them; never a hang, never a crash later."""

import math

import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("shared_ray")


def function():
    return 1


class Plain:
    def method(self):
        return 1


WRONG = {
    "num_cpus": [-1, -0.5, math.nan, math.inf, -math.inf, "2", [1], 0.00001],
    "num_gpus": [-1, math.nan, math.inf, "1", 0.00009],
    "memory": [-1, math.nan, "1G"],
    "resources": [{"a": -1}, {"a": math.nan}, {"a": math.inf}, {"CPU": 1}, {"GPU": 1}, {1: 1}, "a", {"a": "1"}],
    "no_such_option": [1],
}
WRONG_TASK = {
    **WRONG,
    "num_returns": [-1, 1.5, "many", math.nan],
    "max_retries": [-2, 1.5, "x", math.nan],
    "max_calls": [-1, 1.5, "x"],
    "max_restarts": [1],
}
WRONG_ACTOR = {
    **WRONG,
    "max_restarts": [-2, 1.5, "x"],
    "max_task_retries": [-2, 1.5, "x"],
    "max_concurrency": [-1, 0, 1.5, "x"],
    "max_pending_calls": [-2, 1.5, "x"],
    "lifetime": ["for ever", 1],
    "max_retries": [1],
}
CASES_TASK = [(name, value) for name, values in WRONG_TASK.items() for value in values]
CASES_ACTOR = [(name, value) for name, values in WRONG_ACTOR.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES_TASK, ids=[f"{name}={value}" for name, value in CASES_TASK])
def test_task_option_is_refused(name, value):
    with pytest.raises((ValueError, TypeError)) as info:
        ray.remote(**{name: value})(function)
    assert name in str(info.value) or "CPU" in str(info.value) or "resource" in str(info.value), info.value
    if name != "max_calls":
        with pytest.raises((ValueError, TypeError)):
            ray.remote(function).options(**{name: value})


@pytest.mark.parametrize(("name", "value"), CASES_ACTOR, ids=[f"{name}={value}" for name, value in CASES_ACTOR])
def test_actor_option_is_refused(name, value):
    with pytest.raises((ValueError, TypeError)):
        ray.remote(**{name: value})(Plain).remote()
    with pytest.raises((ValueError, TypeError)):
        ray.remote(Plain).options(**{name: value}).remote()


@pytest.mark.parametrize("amount", [10**6, 10**9, 10**15, 1e300])
def test_huge_amount_waits_or_is_refused_and_harms_nobody(amount):
    for options in ({"num_cpus": amount}, {"resources": {"huge": amount}}, {"memory": amount}, {"num_gpus": amount}):
        try:
            ref = ray.remote(**options)(function).remote()
        except (ValueError, TypeError, OverflowError):
            continue
        if "memory" not in options:
            assert ray.wait([ref], timeout=0.05)[0] == []
        ray.cancel(ref)
    assert ray.get(ray.remote(function).remote()) == 1


@pytest.mark.parametrize("count", [10_000, 2**31, 2**40])
def test_huge_number_of_returns_is_refused_or_works(count):
    try:
        refs = ray.remote(num_returns=count)(function).remote()
    except (ValueError, TypeError, OverflowError, MemoryError):
        pass
    else:
        assert len(refs) == count
        with pytest.raises(ValueError, match="num_returns"):
            ray.get(refs[0])
    assert ray.get(ray.remote(function).remote()) == 1


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, "soon"])
def test_bad_timeout_is_refused(timeout):
    ref = ray.remote(function).remote()
    with pytest.raises((ValueError, TypeError)):
        ray.wait([ref], timeout=timeout)
    ray.get(ref)


@pytest.mark.parametrize("timeout", [math.inf, 1e300, 10**12])
def test_endless_timeout_is_no_timeout(timeout):
    assert ray.get(ray.remote(function).remote(), timeout=timeout) == 1
