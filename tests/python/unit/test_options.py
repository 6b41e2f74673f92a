"""Options are checked when they are given, in the words that programs match."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from eagleray._calls import checking, option_tables
from eagleray._calls.checking import (
    ACTOR_DEFAULTS,
    METHOD_DEFAULTS,
    TASK_DEFAULTS,
    actor_options,
    actor_resources,
    fixed_resources,
    merge_actor_options,
    merge_method_options,
    merge_task_options,
    method_options,
    task_options,
)
from eagleray.runtime_env import RuntimeEnv

TASK_NAMES = [
    "num_returns",
    "num_cpus",
    "num_gpus",
    "resources",
    "memory",
    "accelerator_type",
    "max_calls",
    "max_retries",
    "retry_exceptions",
    "runtime_env",
    "scheduling_strategy",
    "label_selector",
    "fallback_strategy",
    "name",
    "placement_group",
    "placement_group_bundle_index",
    "placement_group_capture_child_tasks",
    "enable_task_events",
    "_labels",
    "_generator_backpressure_num_objects",
    "_num_objects_per_yield",
    "object_store_memory",
]
ACTOR_NAMES = [
    "num_cpus",
    "num_gpus",
    "resources",
    "memory",
    "accelerator_type",
    "runtime_env",
    "scheduling_strategy",
    "label_selector",
    "fallback_strategy",
    "name",
    "placement_group",
    "placement_group_bundle_index",
    "placement_group_capture_child_tasks",
    "enable_task_events",
    "_labels",
    "max_restarts",
    "max_task_retries",
    "max_concurrency",
    "max_pending_calls",
    "concurrency_groups",
    "lifetime",
    "namespace",
    "get_if_exists",
    "allow_out_of_order_execution",
    "object_store_memory",
    "enable_tensor_transport",
]
METHOD_NAMES = ["num_returns", "concurrency_group", "max_task_retries", "retry_exceptions", "name"]


class PlacementGroup:
    bundle_count = 3


class PlacementGroupSchedulingStrategy:
    pass


def test_every_name_of_ray_is_known():
    assert set(TASK_NAMES) <= set(TASK_DEFAULTS)
    assert set(ACTOR_NAMES) <= set(ACTOR_DEFAULTS)
    assert set(METHOD_NAMES) <= set(METHOD_DEFAULTS)


def test_defaults():
    assert (TASK_DEFAULTS["num_cpus"], TASK_DEFAULTS["max_retries"], TASK_DEFAULTS["retry_exceptions"]) == (1, 3, False)
    assert (ACTOR_DEFAULTS["max_restarts"], ACTOR_DEFAULTS["max_task_retries"]) == (0, 0)
    assert (ACTOR_DEFAULTS["max_pending_calls"], ACTOR_DEFAULTS["lifetime"]) == (-1, None)


def test_only_what_was_given_comes_back():
    assert task_options() == {}
    assert task_options(num_cpus=2, name="x", max_retries=None) == {"num_cpus": 2, "name": "x", "max_retries": None}
    assert actor_options(max_restarts=-1) == {"max_restarts": -1}


def test_T10_gpu_task_has_max_calls_1():
    assert task_options(num_gpus=2) == {"max_calls": 1, "num_gpus": 2}
    assert task_options(num_gpus=2, max_calls=0) == {"max_calls": 0, "num_gpus": 2}
    assert task_options(num_gpus=0) == {"num_gpus": 0}
    assert merge_task_options({}, {"num_gpus": 1}) == {"max_calls": 1, "num_gpus": 1}
    assert merge_task_options({"max_calls": 5}, {"num_cpus": 1, "max_calls": None})["max_calls"] == 5


def test_what_dot_options_cannot_change():
    with pytest.raises(ValueError, match=r"Setting 'max_calls' is not supported in '\.options\(\)'\."):
        merge_task_options({}, {"max_calls": 2})
    with pytest.raises(ValueError, match=r"Setting 'concurrency_groups' is not supported in '\.options\(\)'\."):
        merge_actor_options({}, {"concurrency_groups": {"io": 1}})


def test_merging_leaves_the_base_alone():
    base = task_options(num_cpus=2, resources={"a": 1})
    assert merge_task_options(base, {"num_cpus": 3, "resources": {"b": 1}}) == {"num_cpus": 3, "resources": {"b": 1}}
    assert base == {"num_cpus": 2, "resources": {"a": 1}}
    assert merge_method_options({"num_returns": 2}, {"name": "m"}) == {"num_returns": 2, "name": "m"}


def test_later_changes_of_the_users_dict_are_not_seen():
    given = {"a": 1}
    options = task_options(resources=given)
    given["a"] = 2
    assert options["resources"] == {"a": 1}


@pytest.mark.parametrize(
    ("make", "name", "value", "types"),
    [
        (task_options, "max_retries", 1.5, (int, type(None))),
        (task_options, "max_calls", "1", (int, type(None))),
        (task_options, "max_retries", True, (int, type(None))),
        (task_options, "num_cpus", "1", (float, int, type(None))),
        (task_options, "memory", True, (float, int, type(None))),
        (task_options, "resources", [], (dict, type(None))),
        (task_options, "name", 1, (str, type(None))),
        (actor_options, "name", 1, (str, type(None))),
        (actor_options, "max_restarts", 0.0, (int, type(None))),
        (actor_options, "max_concurrency", 1.0, (int, type(None))),
        (actor_options, "get_if_exists", 1, bool),
        (method_options, "concurrency_group", 1, (str, type(None))),
    ],
)
def test_text_of_a_wrong_type(make, name, value, types):
    text = f"The type of keyword '{name}' must be {types}, but received type {type(value)}"
    with pytest.raises(TypeError, match=re.escape(text)):
        make(**{name: value})


@pytest.mark.parametrize(
    ("make", "given", "text"),
    [
        (
            task_options,
            {"max_retries": -2},
            "The keyword 'max_retries' only accepts None, 0, -1 or a positive integer, where -1 represents infinity.",
        ),
        (
            actor_options,
            {"max_restarts": -2},
            "The keyword 'max_restarts' only accepts None, 0, -1 or a positive integer, where -1 represents infinity.",
        ),
        (task_options, {"max_calls": -1}, "The keyword 'max_calls' only accepts None, 0 or a positive integer"),
        (actor_options, {"max_concurrency": -1}, "only accepts None, 0 or a positive integer"),
        (actor_options, {"max_concurrency": 0}, "max_concurrency must be greater than 0"),
        (actor_options, {"concurrency_groups": {"io": 0}}, "max_concurrency must be greater than 0"),
        (task_options, {"num_returns": -1}, "non-negative integer"),
        (task_options, {"num_returns": "stream"}, "'streaming' or 'dynamic'"),
        (task_options, {"num_cpus": -1}, "The quantity of resource num_cpus cannot be negative"),
        (
            task_options,
            {"num_gpus": 0.00001},
            "The precision of the fractional quantity of resource num_gpus cannot go beyond 0.0001",
        ),
        (
            task_options,
            {"resources": {"N": 0.00001}},
            "The precision of the fractional quantity of resource N cannot go beyond 0.0001",
        ),
        (
            task_options,
            {"resources": {"CPU": 1}},
            "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in 'resources' keyword",
        ),
        (task_options, {"resources": {"memory": 1}}, "Use the 'memory' keyword"),
        (actor_options, {"name": ""}, "Actor name cannot be an empty string"),
        (actor_options, {"namespace": ""}, "is not a valid namespace"),
        (actor_options, {"lifetime": "for ever"}, "must be one of 'detached', 'non_detached' and 'None'"),
        (task_options, {"scheduling_strategy": "SPRED"}, "Invalid scheduling_strategy"),
        (task_options, {"_generator_backpressure_num_objects": 0}, "is not allowed"),
        (task_options, {"_num_objects_per_yield": 0}, "positive integer"),
        (task_options, {"label_selector": {"a": "in(b"}}, "Invalid label selector"),
        (task_options, {"fallback_strategy": [{"labels": {}}]}, "label_selector"),
        (task_options, {"placement_group_bundle_index": 0}, "bundle index must be -1"),
        (
            task_options,
            {"placement_group": PlacementGroup(), "placement_group_bundle_index": 3},
            "bundle index 3 is invalid",
        ),
        (
            task_options,
            {"placement_group": PlacementGroup(), "scheduling_strategy": "SPREAD"},
            "not in both",
        ),
    ],
)
def test_text_of_a_wrong_value(make, given, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        make(**given)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**53, 10**400, -1, -0.5, 1e300])
def test_impossible_quantities(value):
    for given in ({"num_cpus": value}, {"num_gpus": value}, {"resources": {"a": value}}):
        with pytest.raises(ValueError, match="The quantity of resource"):
            task_options(**given)


def test_memory_has_room_for_a_large_machine():
    assert fixed_resources(task_options(memory=4 * 2**40, num_cpus=0)) == {"memory": 4 * 2**40}
    with pytest.raises(ValueError, match="too large"):
        task_options(memory=2**60)


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (task_options, {"num_gpus": True}),
        (task_options, {"retry_exceptions": [ValueError]}),
        (task_options, {"retry_exceptions": True}),
        (task_options, {"num_returns": "dynamic"}),
        (task_options, {"num_returns": 0}),
        (task_options, {"_generator_backpressure_num_objects": -1}),
        (task_options, {"runtime_env": {"env_vars": {}}}),
        (task_options, {"runtime_env": RuntimeEnv()}),
        (task_options, {"scheduling_strategy": PlacementGroupSchedulingStrategy()}),
        (task_options, {"scheduling_strategy": "SPREAD"}),
        (task_options, {"placement_group": "default", "placement_group_bundle_index": -1}),
        (task_options, {"placement_group": PlacementGroup(), "placement_group_bundle_index": 2}),
        (task_options, {"label_selector": {"ray.io/zone": "!in(a, b-1)", "x": "!v", "y": "v", "z": "in(a)"}}),
        (task_options, {"fallback_strategy": [{"label_selector": {"a": "b"}}]}),
        (actor_options, {"lifetime": "detached", "namespace": "n", "name": "a", "get_if_exists": True}),
        (actor_options, {"concurrency_groups": {"io": 2}, "max_concurrency": 5}),
    ],
)
def test_good_values_come_back_as_they_are(make, given):
    options = make(**given)
    assert {name: options[name] for name in given} == given


def test_concurrency_groups_as_a_list():
    options = actor_options(concurrency_groups=[{"name": "io", "max_concurrency": 2}])
    assert options == {"concurrency_groups": {"io": 2}}


@pytest.mark.parametrize("value", [[3], "all", [ValueError("x")]])
def test_retry_exceptions_wants_classes(value):
    with pytest.raises(TypeError, match="retry_exceptions"):
        task_options(retry_exceptions=value)


def test_wrong_objects():
    with pytest.raises(TypeError, match="runtime_env"):
        task_options(runtime_env="pip")
    with pytest.raises(TypeError, match="scheduling_strategy"):
        task_options(scheduling_strategy=3)
    with pytest.raises(TypeError, match="placement_group"):
        task_options(placement_group="other")
    with pytest.raises(TypeError, match="label_selector"):
        task_options(label_selector={"a": 1})
    with pytest.raises(TypeError, match="resources"):
        task_options(resources={1: 1})
    with pytest.raises(TypeError, match="resource a"):
        task_options(resources={"a": "1"})


@pytest.mark.parametrize("make", [task_options, actor_options, method_options])
def test_unknown_keyword(make):
    with pytest.raises(ValueError, match=r"Invalid option keyword nmae for .* Did you mean 'name'\? Valid ones are \["):
        make(nmae="x")
    with pytest.raises(ValueError, match="Invalid option keyword zzzzzzzz for") as caught:
        make(zzzzzzzz=1)
    assert "Did you mean" not in str(caught.value)


def test_options_of_the_other_kind_are_unknown():
    with pytest.raises(ValueError, match="max_restarts"):
        task_options(max_restarts=1)
    with pytest.raises(ValueError, match="max_retries"):
        actor_options(max_retries=1)
    with pytest.raises(ValueError, match="num_cpus"):
        method_options(num_cpus=1)


def test_counts_are_cut_to_what_the_core_can_hold():
    assert task_options(max_retries=2**40) == {"max_retries": 2**31 - 1}
    assert actor_options(max_restarts=2**63) == {"max_restarts": 2**31 - 1}


def test_D3_resources_in_fixed_point():
    options = task_options(num_cpus=0.29, num_gpus=1 / 3, memory=1000, resources={"a": 2, "none": 0})
    assert fixed_resources(options) == {"CPU": 2900, "GPU": 3333, "memory": 1000, "a": 20_000}
    assert fixed_resources({}) == {"CPU": 10_000}
    assert fixed_resources({"num_cpus": 0}) == {}
    assert fixed_resources({"num_cpus": None}) == {"CPU": 10_000}
    assert fixed_resources({"accelerator_type": "A100"}) == {"CPU": 10_000, "accelerator_type:A100": 10}
    assert fixed_resources({"num_cpus": True}) == {"CPU": 10_000}


def test_D3_equal_shares_of_one_fit_into_one():
    for count in range(1, 200):
        assert fixed_resources({"num_cpus": 0, "num_gpus": 1 / count})["GPU"] * count <= 10_000


def test_D3_decimal_fractions_are_exact():
    for parts in range(1, 10_001):
        assert fixed_resources({"num_cpus": parts / 10_000}) == {"CPU": parts}


def test_A2_actor_is_placed_by_a_cpu_and_holds_none():
    assert actor_resources({}) == ({"CPU": 10_000}, {})
    assert actor_resources({"memory": 5}) == ({"CPU": 10_000, "memory": 5}, {"memory": 5})
    assert actor_resources({"num_cpus": 0}) == ({}, {})
    assert actor_resources({"num_cpus": 2}) == ({"CPU": 20_000}, {"CPU": 20_000})
    both = {"CPU": 10_000, "GPU": 10_000}
    assert actor_resources({"num_gpus": 1}) == (both, both)


def test_A13_get_if_exists_needs_a_name():
    with pytest.raises(ValueError, match="name must be specified to use `get_if_exists`"):
        checking.check_creation({"get_if_exists": True}, is_async=False)
    checking.check_creation({"get_if_exists": True, "name": "a"}, is_async=False)


def test_C2_ordered_execution_needs_a_plain_actor():
    checking.check_creation({"allow_out_of_order_execution": False}, is_async=False)
    checking.check_creation({"allow_out_of_order_execution": True}, is_async=True)
    with pytest.raises(ValueError, match="allow_out_of_order_execution"):
        checking.check_creation({"allow_out_of_order_execution": False}, is_async=True)
    with pytest.raises(ValueError, match="allow_out_of_order_execution"):
        checking.check_creation({"allow_out_of_order_execution": False, "max_concurrency": 2}, is_async=False)


def test_what_is_no_generator_function_may_return_a_generator():
    assert checking.returns_of({"num_returns": "streaming"}, is_generator=False) == (1, "streaming", 0)
    assert checking.returns_of({"num_returns": "dynamic"}, is_generator=False) == (1, "dynamic", 0)
    assert checking.returns_of({}, is_generator=False) == (1, "", 0)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, (1, "streaming", 0)),
        ({"num_returns": "streaming", "_generator_backpressure_num_objects": 3}, (1, "streaming", 3)),
        ({"_generator_backpressure_num_objects": -1}, (1, "streaming", 0)),
        ({"num_returns": "dynamic"}, (1, "dynamic", 0)),
        ({"num_returns": 3}, (3, "", 0)),
    ],
)
def test_a_generator_streams_unless_told_otherwise(options, wanted):
    assert checking.returns_of(options, is_generator=True) == wanted
    assert checking.returns_of({}, is_generator=False) == (1, "", 0)


def test_E4_default_retries_come_from_the_environment(monkeypatch):
    for name in ("RAY_TASK_MAX_RETRIES", "EAGLERAY_TASK_MAX_RETRIES"):
        monkeypatch.delenv(name, raising=False)
    assert checking.default_max_retries() == 3
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "7")
    assert checking.default_max_retries() == 7
    monkeypatch.setenv("EAGLERAY_TASK_MAX_RETRIES", "0")
    assert checking.default_max_retries() == 0


@pytest.mark.parametrize("amount", ["1", None, [1], 1j])
def test_an_amount_is_a_number(amount):
    with pytest.raises(TypeError, match="The quantity of resource GPU must be a number, not"):
        option_tables.parts_of("GPU", amount)


def test_amounts_of_other_kinds_of_numbers_count_as_they_are():
    amounts = [1, 1.0, True, np.int64(1), np.float32(1), Fraction(1)]
    assert {option_tables.parts_of("CPU", amount) for amount in amounts} == {10_000}
