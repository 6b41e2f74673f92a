"""Fractions are exact, and every GPU is given out once."""

import itertools
import os
import time

import pytest

import eagleray as ray


@pytest.fixture
def gpus():
    """Starts a session with so many GPUs, which need not exist."""
    ray.shutdown()
    yield lambda count, cpus=4: ray.init(num_cpus=cpus, num_gpus=count)
    ray.shutdown()


@ray.remote
class Holder:
    def ids(self):
        return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.usefixtures("no_session")
def test_D3a_many_tasks_with_fractions_leave_no_trace(wait_until):
    ray.init(num_cpus=1, resources={"licence": 1})

    @ray.remote(num_cpus=0.1, resources={"licence": 0.0001})
    def small():
        return ray.get_runtime_context().get_assigned_resources()

    @ray.remote(num_cpus=0.3333, resources={"licence": 0.7})
    def third():
        return ray.get_runtime_context().get_assigned_resources()

    for _ in range(30):
        small_ones = ray.get([small.remote() for _ in range(10)], timeout=30)
        thirds = ray.get([third.remote() for _ in range(3)], timeout=30)
        assert small_ones == [{"CPU": 0.1, "licence": 0.0001}] * 10
        assert thirds == [{"CPU": 0.3333, "licence": 0.7}] * 3

    def is_whole():
        free = ray.available_resources()
        return free.get("CPU") == 1.0 and free.get("licence") == 1.0

    wait_until(is_whole, what="exactly one CPU and one licence free")


@pytest.mark.usefixtures("no_session")
def test_D3a_a_ten_thousandth_is_counted():
    ray.init(num_cpus=1, resources={"licence": 1})
    actor = Holder.options(num_cpus=0.9999, resources={"licence": 0.9999}).remote()
    ray.get(actor.ids.remote())
    free = ray.available_resources()
    assert (free["CPU"], free["licence"]) == (0.0001, 0.0001)

    @ray.remote(num_cpus=0.0001, resources={"licence": 0.0001})
    def fits():
        return "ran"

    @ray.remote(num_cpus=0.0002)
    def does_not():
        return "ran"

    too_much = does_not.remote()
    assert ray.get(fits.remote(), timeout=30) == "ran"
    assert ray.wait([too_much], timeout=0.5)[0] == []


def test_D3b_fractions_share_one_gpu(gpus):
    gpus(2)
    halves = [Holder.options(num_gpus=0.5).remote() for _ in range(4)]
    ids = [ray.get(half.ids.remote(), timeout=30)[0] for half in halves]
    assert all(len(one) == 1 for one in ids), "a share lies on one device"
    assert sorted(one[0] for one in ids) == [0, 0, 1, 1]


def test_D3b_a_share_is_not_made_of_what_two_gpus_have_left(gpus):
    gpus(2)
    holders = [Holder.options(num_gpus=0.6).remote() for _ in range(2)]
    assert sorted(ray.get(holder.ids.remote(), timeout=30)[0][0] for holder in holders) == [0, 1]
    third = Holder.options(num_gpus=0.6).remote()
    call = third.ids.remote()
    assert ray.wait([call], timeout=0.5)[0] == [], "0.4 and 0.4 are free: on no device is there room"
    ray.kill(holders[0])
    assert len(ray.get(call, timeout=30)[0]) == 1


def test_D3c_whole_gpus_are_distinct(gpus):
    gpus(4)
    holders = [Holder.options(num_gpus=count).remote() for count in (1, 2, 1)]
    given = [ray.get(holder.ids.remote(), timeout=30) for holder in holders]
    assert [len(ids) for ids, _ in given] == [1, 2, 1]
    assert sorted(one for ids, _ in given for one in ids) == [0, 1, 2, 3]
    assert all(seen == ",".join(map(str, ids)) for ids, seen in given)


def test_D3c_tasks_at_the_same_time_never_share_a_whole_gpu(gpus):
    gpus(2)

    @ray.remote(num_gpus=1, num_cpus=0, max_calls=100)
    def hold():
        began = time.monotonic()
        time.sleep(0.02)
        return ray.get_gpu_ids()[0], began, time.monotonic()

    held = ray.get([hold.remote() for _ in range(30)], timeout=60)
    for gpu in (0, 1):
        times = sorted((began, ended) for one, began, ended in held if one == gpu)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(times)), times


def test_D3c_what_needs_none_gets_none(gpus):
    gpus(2)
    assert ray.get(Holder.remote().ids.remote(), timeout=30)[0] == []
    assert ray.get_gpu_ids() == []


@pytest.mark.parametrize(
    ("preset", "shown"), [("3,5", [3, 5]), ("GPU-aa11,GPU-bb22", ["GPU-aa11", "GPU-bb22"]), ("7", [7])]
)
@pytest.mark.one_node("presets devices in the environment of a node that the program hosts")
def test_D3d_preset_devices_are_the_ones_given_out(gpus, monkeypatch, preset, shown):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", preset)
    gpus(None)
    assert ray.cluster_resources()["GPU"] == len(shown)
    holders = [Holder.options(num_gpus=1).remote() for _ in shown]
    given = [ray.get(holder.ids.remote(), timeout=30) for holder in holders]
    assert sorted((ids[0] for ids, _ in given), key=str) == shown
    assert all(seen == str(ids[0]) for ids, seen in given)


@pytest.mark.one_node("presets devices in the environment of a node that the program hosts")
def test_D3d_an_empty_preset_means_no_gpu(gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpus(None)
    assert "GPU" not in ray.cluster_resources()


def test_D3e_an_actor_keeps_its_gpus_whatever_else_comes_and_goes(gpus):
    gpus(3)
    actor = Holder.options(num_gpus=1).remote()
    first = ray.get(actor.ids.remote(), timeout=30)

    @ray.remote(num_gpus=1, num_cpus=0)
    def other():
        return ray.get_gpu_ids()

    for _ in range(5):
        others = ray.get([other.remote(), other.remote()], timeout=30)
        assert first[0] not in others
        assert ray.get(actor.ids.remote(), timeout=30) == first
