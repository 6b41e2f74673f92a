"""References that hang in cycles, and a store that fills up."""

import gc

import numpy as np
import pytest

import eagleray as ray

MIB = 1024 * 1024


@pytest.fixture
def small_store(no_session):
    ray.init(num_cpus=2, object_store_memory=100 * MIB)


class Cycle:
    def __init__(self, value):
        self.value = value
        self.me = self


@ray.remote(num_cpus=0)
class Hoarder:
    """Holds what it gets by nothing but cycles."""

    def __init__(self):
        gc.disable()

    def hang(self, value):
        Cycle(value)

    def put(self, size):
        Cycle(ray.put(np.ones(size, dtype=np.uint8)))

    def call(self, size):
        ref = make.remote(size)
        ray.wait([ref])
        Cycle(ref)

    def nap(self, signs):
        signs.set("asleep")
        signs.wait("go")


@ray.remote
def make(size):
    return np.ones(size, dtype=np.uint8)


@pytest.mark.usefixtures("small_store")
def test_R7a_values_that_a_worker_holds_by_cycles_make_room():
    hoarder = Hoarder.remote()
    for _ in range(30):
        ray.get(hoarder.put.remote(20 * MIB), timeout=30)


@pytest.mark.usefixtures("small_store")
def test_R7a_also_while_the_worker_has_nothing_to_do():
    hoarder = Hoarder.remote()
    for _ in range(3):
        ray.get(hoarder.put.remote(20 * MIB))
    refs = [ray.put(np.ones(20 * MIB, dtype=np.uint8)) for _ in range(4)]
    assert ray.get(refs[3])[-1] == 1


@pytest.mark.usefixtures("small_store")
def test_R7a_also_while_it_runs_something(signs):
    hoarder = Hoarder.remote()
    for _ in range(3):
        ray.get(hoarder.put.remote(20 * MIB))
    nap = hoarder.nap.remote(signs)
    signs.wait("asleep")
    refs = [ray.put(np.ones(20 * MIB, dtype=np.uint8)) for _ in range(4)]
    signs.set("go")
    ray.get(nap)
    del refs


@pytest.mark.usefixtures("small_store")
def test_R7b_values_that_a_worker_borrows_or_had_made_by_others_too():
    hoarder = Hoarder.remote()
    for round_ in range(20):
        if round_ % 2:
            ray.get(hoarder.call.remote(20 * MIB), timeout=30)
        else:
            ray.get(hoarder.hang.remote([ray.put(np.ones(20 * MIB, dtype=np.uint8))]), timeout=30)


@pytest.mark.usefixtures("small_store")
def test_R7c_and_those_that_the_driver_holds():
    gc.disable()
    try:
        for _ in range(20):
            Cycle(ray.put(np.ones(20 * MIB, dtype=np.uint8)))
    finally:
        gc.enable()
