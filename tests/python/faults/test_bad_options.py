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


def refusal(name, value, remote):
    """How this value is refused: (the class of the error, what it says)."""
    foreign = ("no_such_option", "max_retries" if isinstance(remote, ray.actor.ActorClass) else "max_restarts")
    if name in foreign:
        return ValueError, f"Invalid option keyword {name} for "
    if name == "lifetime":
        return ValueError, "actor `lifetime` argument must be one of .*, not "
    if name == "resources" and isinstance(value, dict):
        ((key, amount),) = value.items()
        if key in ("CPU", "GPU"):
            return ValueError, f"num_{key.lower()}s"
        if not isinstance(key, str):
            return TypeError, "keys of keyword 'resources' must be the names of resources"
        if isinstance(amount, str):
            return TypeError, f"quantity of resource {key} must be a number"
        return ValueError, f"quantity of resource {key} (cannot be negative|must be a finite number)"
    is_amount = name in ("num_cpus", "num_gpus", "memory")
    is_word = name == "num_returns" and isinstance(value, str)
    if not is_word and not isinstance(value, (int, float) if is_amount else int):
        return TypeError, f"type of keyword '{name}' must be .*, but received type {type(value)}"
    if is_amount:
        return ValueError, f"quantity of resource {name} (cannot be negative|must be a finite number|cannot go beyond)"
    return ValueError, f"keyword '{name}' only accepts|{name} must be greater than 0"


@pytest.mark.parametrize(("name", "value"), CASES_TASK, ids=[f"{name}={value}" for name, value in CASES_TASK])
def test_task_option_is_refused(name, value):
    error, text = refusal(name, value, ray.remote(function))
    with pytest.raises(error, match=text):
        ray.remote(**{name: value})(function)
    if name != "max_calls":
        with pytest.raises(error, match=text):
            ray.remote(function).options(**{name: value})


@pytest.mark.parametrize(("name", "value"), CASES_ACTOR, ids=[f"{name}={value}" for name, value in CASES_ACTOR])
def test_actor_option_is_refused(name, value):
    error, text = refusal(name, value, ray.remote(Plain))
    with pytest.raises(error, match=text):
        ray.remote(**{name: value})(Plain).remote()
    with pytest.raises(error, match=text):
        ray.remote(Plain).options(**{name: value}).remote()


KINDS = {"num_cpus": "num_cpus", "num_gpus": "num_gpus", "memory": "memory", "resources": "huge"}


@pytest.mark.parametrize("option", KINDS)
@pytest.mark.parametrize("amount", [10**6, 10**9, 10**15, 1e300])
def test_huge_amount_waits_or_is_refused_and_harms_nobody(option, amount):
    options = {option: {"huge": amount} if option == "resources" else amount}
    # An amount is counted in parts, of memory in whole bytes: what cannot be counted is refused at once.
    if amount == 1e300 or (amount == 10**15 and option != "memory"):
        with pytest.raises(ValueError, match=f"quantity of resource {KINDS[option]} is too large"):
            ray.remote(**options)(function)
    elif option == "memory" and amount < 10**15:
        # A machine may have as much.
        ray.cancel(ray.remote(**options)(function).remote())
    else:
        ref = ray.remote(**options)(function).remote()
        assert ray.wait([ref], timeout=0.05)[0] == []
        ray.cancel(ref)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=30)
    assert ray.get(ray.remote(function).remote()) == 1


def test_huge_number_of_returns_works():
    refs = ray.remote(num_returns=10_000)(function).remote()
    assert len(refs) == 10_000
    for ref in (refs[0], refs[-1]):
        with pytest.raises(ValueError, match="num_returns=10000"):
            ray.get(ref)
    assert ray.get(ray.remote(function).remote()) == 1


@pytest.mark.parametrize("count", [2**31, 2**40])
def test_number_of_returns_that_nobody_can_count_is_refused(count):
    with pytest.raises(ValueError, match=f"keyword 'num_returns' must be at most {2**31 - 1}, not {count}"):
        ray.remote(num_returns=count)(function)


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, "soon"])
def test_bad_timeout_is_refused(timeout):
    ref = ray.remote(function).remote()
    error, text = (
        (TypeError, "not <class 'str'>")
        if timeout == "soon"
        else (ValueError, "'timeout' argument must be nonnegative")
    )
    with pytest.raises(error, match=text):
        ray.wait([ref], timeout=timeout)
    ray.get(ref)


@pytest.mark.parametrize("timeout", [math.inf, 1e300, 10**12])
def test_endless_timeout_is_no_timeout(timeout):
    assert ray.get(ray.remote(function).remote(), timeout=timeout) == 1
