"""A queue that tasks, actors and drivers share."""

import asyncio
import queue

import pytest

import eagleray as ray
from eagleray.util.queue import Empty, Full, Queue

pytestmark = pytest.mark.usefixtures("shared_ray")


def test_U2a_items_come_out_in_the_order_in_which_they_went_in():
    shared = Queue()
    items = [1, "two", None, [3, 4]]
    for item in items:
        shared.put(item)
    assert (len(shared), shared.size(), shared.qsize(), shared.empty(), shared.full()) == (4, 4, 4, False, False)
    assert [shared.get() for _ in items] == items
    assert shared.empty()


def test_U2b_a_negative_timeout_raises():
    shared = Queue()
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        shared.put(1, timeout=-1)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        shared.get(timeout=-1)
    assert shared.empty()


def test_U2c_a_full_queue_and_an_empty_one_raise():
    shared = Queue(maxsize=1)
    with pytest.raises(Empty):
        shared.get_nowait()
    with pytest.raises(queue.Empty):
        shared.get(timeout=0.05)
    shared.put(1)
    assert shared.full()
    with pytest.raises(Full):
        shared.put_nowait(2)
    with pytest.raises(queue.Full):
        shared.put(2, timeout=0.05)
    with pytest.raises(Full):
        shared.put(2, block=False)
    assert shared.get() == 1
    assert shared.empty()


def test_U2d_a_batch_is_put_as_a_whole_or_not_at_all():
    shared = Queue(maxsize=5)
    shared.put_nowait_batch(range(3))
    with pytest.raises(Full):
        shared.put_nowait_batch([3, 4, 5])
    assert shared.size() == 3
    shared.put_nowait_batch([3, 4])
    with pytest.raises(Empty):
        shared.get_nowait_batch(6)
    assert shared.size() == 5
    assert shared.get_nowait_batch(5) == [0, 1, 2, 3, 4]
    assert shared.get_nowait_batch(0) == []
    with pytest.raises(TypeError, match="'items' must be an Iterable"):
        shared.put_nowait_batch(1)
    with pytest.raises(TypeError, match="'num_items' must be an int"):
        shared.get_nowait_batch("1")
    with pytest.raises(ValueError, match="nonnegative"):
        shared.get_nowait_batch(-1)


def test_U2e_the_queue_holds_no_cpu():
    before = ray.available_resources().get("CPU")
    queues = [Queue() for _ in range(4)]
    assert [made.size() for made in queues] == [0] * 4
    assert ray.available_resources().get("CPU") == before


def test_U2f_who_waits_is_served_when_there_is_something():
    shared = Queue(maxsize=1)

    @ray.remote
    def produce(shared, count):
        for item in range(count):
            shared.put(item)

    @ray.remote
    def consume(shared, count):
        return [shared.get(timeout=30) for _ in range(count)]

    consumed = consume.remote(shared, 50)
    ray.get(produce.remote(shared, 50), timeout=40)
    assert ray.get(consumed, timeout=40) == list(range(50))


def test_U2f_more_may_wait_than_an_async_actor_serves_by_default(wait_until):
    shared = Queue()
    refs = [shared.actor.get.remote(None) for _ in range(1500)]
    shared.put_nowait_batch(range(1500))
    assert sorted(ray.get(refs, timeout=40)) == list(range(1500))


async def test_U2g_coroutines_may_put_and_get():
    shared = Queue(maxsize=2)
    got = asyncio.gather(*(shared.get_async() for _ in range(5)))
    await asyncio.gather(*(shared.put_async(item) for item in range(5)))
    assert sorted(await got) == [0, 1, 2, 3, 4]
    with pytest.raises(Empty):
        await shared.get_async(timeout=0.05)
    with pytest.raises(Empty):
        await shared.get_async(block=False)
    with pytest.raises(ValueError, match="non-negative"):
        await shared.put_async(1, timeout=-1)


@pytest.mark.parametrize("force", [False, True])
def test_U2h_shutdown_ends_the_actor(force):
    shared = Queue(actor_options={"name": f"queue-{force}"})
    actor = ray.get_actor(f"queue-{force}")
    assert actor == shared.actor
    shared.put(1)
    shared.shutdown(force=force)
    assert shared.actor is None
    with pytest.raises(ray.exceptions.ActorDiedError, match="killed by `ray.kill`" if force else "exited by itself"):
        ray.get(actor.qsize.remote(), timeout=40)
    shared.shutdown()


def test_U2m_the_methods_of_the_actor_have_the_names_that_programs_call():
    shared = Queue(maxsize=3)
    actor = shared.actor
    assert ray.get(actor.empty.remote())
    ray.get(actor.put.remote("a"))
    ray.get(actor.put_nowait.remote("b"))
    ray.get(actor.put_nowait_batch.remote(["c"]))
    assert ray.get([actor.full.remote(), actor.qsize.remote()]) == [True, 3]
    with pytest.raises(Full):
        ray.get(actor.put.remote("d", 0.01))
    assert ray.get([actor.get.remote(), actor.get_nowait.remote()]) == ["a", "b"]
    assert ray.get(actor.get_nowait_batch.remote(1)) == ["c"]


def test_U2d_a_batch_that_does_not_fit_is_told_in_numbers():
    shared = Queue(maxsize=2)
    shared.put(0)
    with pytest.raises(Full, match=r"Cannot add 2 items to queue of size 1 and maxsize 2\."):
        shared.put_nowait_batch([1, 2])
    with pytest.raises(Empty, match=r"Cannot get 3 items from queue of size 1\."):
        shared.get_nowait_batch(3)
    with pytest.raises(TypeError, match="Argument 'items' must be an Iterable"):
        shared.put_nowait_batch(7)
    with pytest.raises(TypeError, match="Argument 'num_items' must be an int"):
        shared.get_nowait_batch("one")
    with pytest.raises(ValueError, match="'num_items' must be nonnegative"):
        shared.get_nowait_batch(-1)


def test_U2n_actor_options_are_those_of_the_actor(wait_until):
    shared = Queue(actor_options={"num_cpus": 1, "name": "the queue", "max_concurrency": 2})
    shared.put(5)
    wait_until(lambda: ray.available_resources().get("CPU") == 1.0)
    assert ray.get(ray.get_actor("the queue").qsize.remote()) == 1
    shared.shutdown()
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0)


def test_U2h_a_queue_that_was_shut_down_has_no_actor_and_its_old_handle_fails():
    shared = Queue()
    actor = shared.actor
    shared.shutdown()
    assert shared.actor is None
    shared.shutdown()
    with pytest.raises(ray.exceptions.ActorDiedError, match="exited by itself"):
        ray.get(actor.empty.remote())


def test_U2h_without_force_what_waits_has_the_grace_period():
    shared = Queue()
    actor = shared.actor
    late = actor.get.remote()
    shared.shutdown(grace_period_s=0.1)
    with pytest.raises(ray.exceptions.ActorDiedError, match="killed by `ray.kill`"):
        ray.get(late, timeout=20)
