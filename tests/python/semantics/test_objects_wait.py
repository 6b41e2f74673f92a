"""wait, and refs that hold errors or are of another session."""

import time

import numpy as np
import pytest

import eagleray as ray

pytestmark = pytest.mark.two_nodes


@ray.remote
def give(value):
    return value


@ray.remote(num_cpus=0)
def held(gate, value=None):
    while not gate.exists():
        time.sleep(0.01)
    return value


@ray.remote
def fail():
    raise ValueError("failed")


@pytest.fixture
def gate(tmp_path):
    """Tasks that wait for this file end at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()


@pytest.mark.usefixtures("shared_ray")
class TestWait:
    def test_O4a_at_most_num_returns_are_ready(self):
        refs = [ray.put(index) for index in range(10)]
        for count in range(1, 11):
            ready, rest = ray.wait(refs, num_returns=count)
            assert (len(ready), len(rest)) == (count, 10 - count)
        assert ray.wait(refs) == (refs[:1], refs[1:])
        assert ray.wait(refs, num_returns=4, timeout=0) == (refs[:4], refs[4:])

    def test_O4b_ready_and_remaining_keep_the_order_of_the_input(self, gate):
        hanging = [held.remote(gate) for _ in range(3)]
        done = [give.remote(index) for index in range(3)]
        ray.get(done)
        refs = [done[2], hanging[0], done[0], hanging[2], hanging[1], done[1]]
        assert ray.wait(refs, num_returns=3) == ([done[2], done[0], done[1]], [hanging[0], hanging[2], hanging[1]])
        assert ray.wait(refs, num_returns=2) == (
            [done[2], done[0]],
            [hanging[0], hanging[2], hanging[1], done[1]],
        )

    def test_O4b_what_finishes_later_does_not_change_the_order(self, gate, tmp_path):
        first_gate = tmp_path / "first"
        late, early = held.remote(gate, "late"), held.remote(first_gate, "early")
        first_gate.touch()
        assert ray.wait([late, early]) == ([early], [late])
        gate.touch()
        assert ray.wait([late, early], num_returns=2) == ([late, early], [])

    def test_O4c_an_empty_list_gives_two_empty_lists(self):
        assert ray.wait([]) == ([], [])
        assert ray.wait([], num_returns=1, timeout=0) == ([], [])

    def test_O4d_a_doubled_ref_raises(self):
        ref = ray.put(1)
        with pytest.raises(ValueError, match="Wait requires a list of unique ray_waitables"):
            ray.wait([ref, ray.put(2), ref])
        assert ray.wait([ref]) == ([ref], [])

    @pytest.mark.parametrize("timeout", [0, 0.3])
    def test_O4e_a_timeout_is_kept(self, timeout, gate):
        ref = held.remote(gate)
        start = time.monotonic()
        assert ray.wait([ref], timeout=timeout) == ([], [ref])
        waited = time.monotonic() - start
        # The rule says a tenth of a second; ten times that still tells a kept timeout from a lost one.
        assert timeout <= waited < timeout + 1

    def test_O4e_a_timeout_ends_early_when_enough_is_ready(self):
        start = time.monotonic()
        refs = [give.remote(index) for index in range(4)]
        assert ray.wait(refs, num_returns=4, timeout=50) == (refs, [])
        assert time.monotonic() - start < 25

    def test_O4f_a_timeout_of_zero_returns_finished_tasks_as_ready(self):
        refs = [give.remote(index) for index in range(20)]
        ray.get(refs)
        assert ray.wait(refs, num_returns=20, timeout=0) == (refs, [])

    def test_O4f_a_timeout_of_zero_sees_results_that_nobody_asked_for(self, wait_until):
        refs = [give.remote(index) for index in range(20)]
        wait_until(lambda: ray.wait(refs, num_returns=20, timeout=0) == (refs, []))

    def test_wrong_arguments_of_wait_raise(self):
        refs = [ray.put(1), ray.put(2)]
        with pytest.raises(
            TypeError, match=r"wait\(\) expected a list of ray\.ObjectRef or ray\.ObjectRefGenerator, got"
        ):
            ray.wait(refs[0])
        with pytest.raises(TypeError, match="expected a list of"):
            ray.wait(tuple(refs))
        with pytest.raises(TypeError, match=r"expected a list of .*got list containing <class 'int'>"):
            ray.wait([refs[0], 1])
        with pytest.raises(ValueError, match="Invalid number of objects to return"):
            ray.wait(refs, num_returns=0)
        with pytest.raises(ValueError, match="Invalid number of objects to return"):
            ray.wait(refs, num_returns=-1)
        with pytest.raises(ValueError, match="num_returns cannot be greater than the number of ray_waitables"):
            ray.wait(refs, num_returns=3)
        with pytest.raises(ValueError, match="The 'timeout' argument must be nonnegative"):
            ray.wait(refs, timeout=-0.1)
        with pytest.raises(
            TypeError, match="'timeout' argument must be a number of seconds, or None, not <class 'str'>"
        ):
            ray.wait(refs, timeout="soon")
        with pytest.raises(TypeError, match="'float' object"):
            ray.wait(refs, num_returns=1.5)

    @pytest.mark.parametrize("value", ["small", np.zeros(1_000_000)], ids=["small", "large"])
    def test_O5a_O5b_an_object_of_this_node_is_ready_either_way(self, value, gate):
        made, hanging = give.remote(value), held.remote(gate)
        for fetch_local in (False, True):
            assert ray.wait([hanging, made], fetch_local=fetch_local) == ([made], [hanging])

    @pytest.mark.parametrize("fetch_local", [False, True])
    def test_O5a_O5b_an_object_of_another_process_is_ready_once_it_exists(self, fetch_local, gate):
        @ray.remote
        def outer(gate):
            return [held.remote(gate, "inner"), ray.put("put")]

        inner, put = ray.get(outer.remote(gate))
        assert ray.wait([inner, put], fetch_local=fetch_local) == ([put], [inner])
        assert ray.wait([inner], timeout=0.05, fetch_local=fetch_local) == ([], [inner])
        gate.touch()
        assert ray.wait([inner], fetch_local=fetch_local) == ([inner], [])
        assert ray.get(inner) == "inner"

    def test_O6a_a_ref_that_holds_an_error_is_ready(self, gate):
        hanging, failed = held.remote(gate), fail.remote()
        assert ray.wait([hanging, failed]) == ([failed], [hanging])
        with pytest.raises(ValueError, match="failed"):
            ray.get(failed)

    def test_O6a_a_ref_whose_worker_died_is_ready(self, gate):
        @ray.remote(max_retries=0)
        def crash():
            import os

            os._exit(1)

        hanging, crashed = held.remote(gate), crash.remote()
        assert ray.wait([hanging, crashed]) == ([crashed], [hanging])


@pytest.fixture
def old_refs(no_session):
    """Refs of an earlier session: a small value, a large one, an error, and one that never had a value."""
    ray.init(num_cpus=2)

    @ray.remote
    def never():
        time.sleep(1000)

    refs = [ray.put(1), ray.put(np.zeros(1_000_000)), fail.remote(), never.remote()]
    ray.wait(refs[:3], num_returns=3)
    ray.shutdown()
    ray.init(num_cpus=2)
    return refs


UNKNOWN_MADE = [ray.ObjectRef.from_random, lambda: ray.ObjectRef(b"x" * 28), ray.ObjectRef.nil]


def test_O6b_wait_takes_old_refs_beside_good_ones(old_refs):
    good = [give.remote(1), ray.put(2)]
    assert ray.wait([old_refs[0], good[0], old_refs[3], good[1]], num_returns=2) == (good, [old_refs[0], old_refs[3]])
    assert ray.wait([*old_refs, *good], num_returns=3, timeout=0.1) == (good, old_refs)


def test_O6b_a_doubled_old_ref_raises(old_refs):
    with pytest.raises(ValueError, match="unique"):
        ray.wait([ray.put(1), old_refs[0], old_refs[0]])


def test_O6c_wait_for_nothing_but_unknown_refs_raises(old_refs):
    for refs in (old_refs, old_refs[:1], old_refs[3:]):
        with pytest.raises(ValueError, match="Ray object whose owner is unknown"):
            ray.wait(refs, timeout=1)
    for make in UNKNOWN_MADE:
        with pytest.raises(ValueError, match="Ray object whose owner is unknown"):
            ray.wait([make()])


def test_O6d_get_of_an_unknown_ref_raises(old_refs):
    for ref in [*old_refs, *(make() for make in UNKNOWN_MADE)]:
        with pytest.raises(ValueError, match="Ray objects whose owner is unknown"):
            ray.get(ref)
        with pytest.raises(ValueError, match="Ray objects whose owner is unknown"):
            ray.get([ray.put(1), ref], timeout=5)


def test_O6d_awaiting_an_unknown_ref_raises(old_refs):
    import asyncio

    async def read(ref):
        return await ref

    for ref in [*old_refs, *(make() for make in UNKNOWN_MADE)]:
        with pytest.raises(ValueError, match="Ray objects whose owner is unknown"):
            asyncio.run(read(ref))
        with pytest.raises(ValueError, match="Ray objects whose owner is unknown"):
            ref.future().result(10)


def test_O6e_passing_an_unknown_ref_raises_and_crashes_nothing(old_refs):
    @ray.remote(num_cpus=0)
    class Actor:
        def __init__(self, value=None):
            self.value = value

        def method(self, value):
            return value

    actor = Actor.remote()
    for ref in [*old_refs, *(make() for make in UNKNOWN_MADE)]:
        for call in (give.remote, actor.method.remote, Actor.remote):
            with pytest.raises(ValueError, match="owner is unknown"):
                call(ref)
            with pytest.raises(ValueError, match="owner is unknown"):
                call(value=ref)
    assert ray.get([give.remote(1), actor.method.remote(2)]) == [1, 2]


def test_O6e_an_unknown_ref_inside_a_value_stays_unknown(old_refs):
    @ray.remote
    def read(refs):
        texts = []
        for ref in refs:
            try:
                texts.append(ray.get(ref))
            except ValueError as error:
                texts.append(str(error))
        return texts

    mixed = [old_refs[0], ray.put("good"), old_refs[3], old_refs[1]]
    texts = ray.get(read.remote(mixed))
    assert texts[1] == "good"
    assert all("owner is unknown" in texts[index] for index in (0, 2, 3))
    back = ray.get(ray.put(mixed))
    assert back == mixed
    assert ray.get(back[1]) == "good"
    with pytest.raises(ValueError, match="owner is unknown"):
        ray.get(back[0])
