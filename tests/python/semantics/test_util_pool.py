"""Pools of actors, and results as they come."""

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, ActorUnavailableError
from eagleray.util import ActorPool, as_completed, map_unordered

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote(num_cpus=0)
class Member:
    def double(self, value):
        return 2 * value

    def when(self, signs, value):
        signs.wait(str(value))
        return value

    def note(self, signs, value):
        signs.set(f"began {value}")
        signs.wait("go")
        return value

    def fail(self):
        raise ValueError("no")

    def die(self, signs=None):
        import os

        if signs is not None:
            signs.set("died")
        os._exit(1)


def members(count):
    return [Member.remote() for _ in range(count)]


def test_U1a_results_come_in_the_order_of_submission(signs):
    pool = ActorPool(members(2))
    for value in range(3):
        pool.submit(lambda actor, value: actor.when.remote(signs, value), value)
    signs.set("1")
    with pytest.raises(TimeoutError, match="Timed out waiting for result"):
        pool.get_next(timeout=0.1)
    signs.set("0")
    signs.set("2")
    assert [pool.get_next(timeout=30) for _ in range(3)] == [0, 1, 2]
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()


def test_U1b_unordered_results_come_as_they_are_ready(signs):
    pool = ActorPool(members(2))
    for value in range(2):
        pool.submit(lambda actor, value: actor.when.remote(signs, value), value)
    with pytest.raises(TimeoutError):
        pool.get_next_unordered(timeout=0.05)
    signs.set("1")
    assert pool.get_next_unordered() == 1
    signs.set("0")
    assert pool.get_next_unordered() == 0
    with pytest.raises(StopIteration):
        pool.get_next_unordered()


def test_U1c_map_submits_everything_at_once_and_keeps_the_order(signs):
    pool = ActorPool(members(2))
    results = pool.map(lambda actor, value: actor.note.remote(signs, value), range(2))
    signs.wait("began 0")
    signs.wait("began 1")
    signs.set("go")
    assert list(results) == [0, 1]
    assert list(pool.map(lambda actor, value: actor.double.remote(value), range(20))) == [2 * v for v in range(20)]
    assert sorted(pool.map_unordered(lambda a, v: a.double.remote(v), range(20))) == [2 * v for v in range(20)]


def test_U1c_map_leaves_earlier_results_aside():
    pool = ActorPool(members(1))
    for value in range(3):
        pool.submit(lambda actor, value: actor.double.remote(value), value)
    assert list(pool.map(lambda actor, value: actor.double.remote(value), [10, 11])) == [20, 22]


def test_U1d_push_of_a_member_raises():
    first, second = members(2)
    pool = ActorPool([first])
    with pytest.raises(ValueError, match="Actor already belongs to current ActorPool"):
        pool.push(first)
    pool.submit(lambda actor, value: actor.double.remote(value), 1)
    with pytest.raises(ValueError, match="Actor already belongs to current ActorPool"):
        pool.push(first)
    pool.submit(lambda actor, value: actor.double.remote(value), 2)
    pool.push(second)
    assert [pool.get_next(), pool.get_next()] == [2, 4]


def test_U1e_free_members_can_be_taken_out():
    pool = ActorPool(members(1))
    assert pool.has_free()
    pool.submit(lambda actor, value: actor.double.remote(value), 1)
    assert not pool.has_free()
    assert pool.pop_idle() is None
    pool.get_next()
    assert pool.pop_idle() is not None
    assert not pool.has_free()


def test_U1f_a_member_that_died_leaves_the_pool():
    alive, dying = members(2)
    pool = ActorPool([alive, dying])
    pool.submit(lambda actor, _: actor.die.remote(), None)
    with pytest.raises(ActorDiedError, match="exit code 1"):
        pool.get_next()
    assert pool.pop_idle() == alive
    assert pool.pop_idle() is None


def test_U1f_what_no_member_is_left_to_run_fails_once():
    pool = ActorPool(members(1))
    for _ in range(3):
        pool.submit(lambda actor, _: actor.die.remote(), None)
    with pytest.raises(ActorDiedError, match="exit code 1"):
        pool.get_next()
    for _ in range(2):
        assert pool.has_next()
        with pytest.raises(RuntimeError, match="have died"):
            pool.get_next()
    assert not pool.has_next()


def test_U1g_a_member_whose_method_raised_stays():
    pool = ActorPool(members(1))
    pool.submit(lambda actor, _: actor.fail.remote(), None)
    with pytest.raises(ValueError, match="no"):
        pool.get_next()
    assert pool.has_free()


def test_U1g_a_member_that_cannot_be_reached_just_now_stays():
    actor = Member.options(max_restarts=-1).remote()
    pool = ActorPool([actor])
    pool.submit(lambda actor, _: actor.die.remote(), None)
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        pool.get_next()
    assert pool.has_free()


def test_U1h_a_result_that_takes_too_long_can_be_skipped(signs):
    pool = ActorPool(members(2))
    for value in range(2):
        pool.submit(lambda actor, value: actor.when.remote(signs, value), value)
    signs.set("1")
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.05, ignore_if_timedout=True)
    assert pool.get_next() == 1
    signs.set("0")


@ray.remote
def when(signs, value):
    signs.wait(str(value))
    return value


def test_U1i_as_completed_gives_values_as_they_are_ready(signs):
    refs = [when.remote(signs, value) for value in range(2)]
    signs.set("1")
    values = as_completed(refs)
    assert next(values) == 1
    signs.set("0")
    assert list(values) == [0]


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_U1i_in_chunks_of_any_size(chunk_size):
    refs = [ray.put(value) for value in range(10)]
    assert sorted(as_completed(refs, chunk_size=chunk_size)) == list(range(10))
    assert set(as_completed(refs, chunk_size=chunk_size, yield_obj_refs=True)) == set(refs)
    with pytest.raises(ValueError, match="chunk_size"):
        as_completed(refs, chunk_size=0)


def test_U1j_map_unordered_keeps_only_so_many_calls_under_way(signs):
    taken = []

    def items():
        for item in range(6):
            taken.append(item)
            yield item

    signs.set("1")
    values = map_unordered(lambda item: (signs.wait(str(item)), item)[1], items(), backpressure_size=2, chunk_size=1)
    assert next(values) == 1
    assert taken == [0, 1]
    for item in range(6):
        signs.set(str(item))
    assert sorted(values) == [0, 2, 3, 4, 5]


def test_U1j_a_remote_function_and_refs_are_welcome(signs):
    refs = list(map_unordered(when, [], yield_obj_refs=True))
    assert refs == []

    @ray.remote
    def double(value):
        return 2 * value

    refs = list(map_unordered(double, range(30), yield_obj_refs=True))
    assert sorted(ray.get(refs)) == [2 * value for value in range(30)]
    with pytest.raises(ValueError, match="backpressure_size"):
        map_unordered(double, range(3), backpressure_size=1)


def test_U1k_a_call_with_several_returns_gives_the_list_of_its_values():
    @ray.remote(num_cpus=0)
    class Pairs:
        @ray.method(num_returns=2)
        def pair(self, value):
            return value, -value

        @ray.method(num_returns=2)
        def fail(self, value):
            raise KeyError(value)

    pool = ActorPool([Pairs.remote(), Pairs.remote()])
    assert list(pool.map(lambda actor, value: actor.pair.remote(value), [1, 2, 3])) == [[1, -1], [2, -2], [3, -3]]
    unordered = pool.map_unordered(lambda actor, value: actor.pair.remote(value), [1, 2, 3])
    assert sorted(unordered) == [[1, -1], [2, -2], [3, -3]]
    pool.submit(lambda actor, value: actor.pair.remote(value), 4)
    assert pool.get_next(timeout=20) == [4, -4]
    pool.submit(lambda actor, value: actor.fail.remote(value), 5)
    with pytest.raises(KeyError):
        pool.get_next_unordered(timeout=20)
    assert pool.has_free()


def test_U1l_what_programs_look_at_in_a_pool_is_there():
    first, second = Member.remote(), Member.remote()
    pool = ActorPool([first])
    assert pool._idle_actors == [first]
    for value in (1, 2):
        pool.submit(lambda actor, value: actor.double.remote(value), value)
    assert (len(pool._pending_submits), len(pool._future_to_actor), len(pool._index_to_future)) == (1, 1, 1)
    pool.push(second)
    assert (len(pool._pending_submits), len(pool._future_to_actor)) == (0, 2)
    assert [pool.get_next(), pool.get_next()] == [2, 4]
    assert (pool._next_task_index, pool._next_return_index) == (2, 2)
