"""Counts of references, as tests and people see them."""

import copy
import gc
import pickle

import numpy as np
import pytest

import eagleray as ray
from eagleray import testing

pytestmark = pytest.mark.usefixtures("shared_ray")


def counts(ref):
    seen = testing.reference_counts().get(ref if isinstance(ref, str) else ref.hex())
    return None if seen is None else (seen["local"], seen["submitted"])


@ray.remote
def hold(signs, value, *_):
    signs.wait("go")


def test_R2a_a_ref_that_was_put_counts_one():
    ref = ray.put(1)
    assert counts(ref) == (1, 0)
    name = ref.hex()
    del ref
    assert counts(name) is None


@pytest.mark.parametrize("value", [1, np.zeros(1_000_000)], ids=["small", "large"])
def test_R2b_an_argument_of_a_pending_task_is_counted_until_its_end(value, signs):
    ref = ray.put(value)
    task = hold.remote(signs, ref)
    assert counts(ref) == (1, 1)
    second = hold.remote(signs, [ref], ref)
    assert counts(ref) == (1, 3)
    signs.set("go")
    ray.get([task, second])
    assert counts(ref) == (1, 0)


def test_R2b_the_task_alone_keeps_it_too(signs):
    ref = ray.put(1)
    name = ref.hex()
    task = hold.remote(signs, ref)
    del ref
    assert counts(name) == (0, 1)
    signs.set("go")
    ray.get(task)
    assert counts(name) is None


def test_R2c_a_copy_counts_one_more():
    ref = ray.put(1)
    copies = [copy.copy(ref), copy.deepcopy([ref])]
    assert counts(ref) == (3, 0)
    del copies
    assert counts(ref) == (1, 0)


def test_R2d_a_ref_inside_a_value_is_held_by_it():
    inner = ray.put(1)
    outer = ray.put([inner])
    assert counts(inner) == (1, 1)
    name = inner.hex()
    del inner
    assert counts(name) == (0, 1)
    del outer
    assert counts(name) is None


@pytest.mark.parametrize("dumps", [ray.cloudpickle.dumps, pickle.dumps], ids=["cloudpickle", "pickle"])
def test_R2e_a_ref_that_leaves_by_plain_pickle_counts_for_ever(dumps):
    ref = ray.put(1)
    blob = dumps(ref)
    assert counts(ref) == (2, 0)
    name = ref.hex()
    del ref
    gc.collect()
    assert counts(name) == (1, 0)
    assert ray.get(pickle.loads(blob)) == 1
    del blob
    assert counts(name) == (1, 0)


@pytest.mark.parametrize("name", ["RAY", "EAGLERAY"])
def test_R2f_that_can_be_refused(monkeypatch, name):
    monkeypatch.setenv(f"{name}_allow_out_of_band_object_ref_serialization", "0")
    ref = ray.put(1)
    with pytest.raises(ray.exceptions.OufOfBandObjectRefSerializationException):
        ray.cloudpickle.dumps(ref)
    with pytest.raises(ray.exceptions.OufOfBandObjectRefSerializationException):
        pickle.dumps({"ref": ref})
    assert counts(ref) == (1, 0)

    @ray.remote
    def read(refs):
        return ray.get(refs[0])

    assert ray.get(read.remote([ref])) == 1, "what the system pickles itself goes on"
