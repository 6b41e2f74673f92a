"""`multiprocessing.Pool` on actors: rule U2."""

import multiprocessing
import os
import threading

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, RayActorError
from eagleray.util.multiprocessing import Pool, TimeoutError


@pytest.fixture
def pool(shared_ray):
    with Pool(2) as made:
        yield made


def odd_fails(number):
    if number % 2:
        raise ValueError(number)
    return number * 10


def add(left, right=1):
    return left + right


@pytest.mark.parametrize("chunksize", [None, 1, 7])
def test_U2i_map_async_calls_back_once_with_the_whole_list(pool, chunksize):
    called = []
    result = pool.map_async(add, range(20), chunksize, callback=called.append)
    assert result.get(30) == list(range(1, 21))
    assert called == [list(range(1, 21))], "before the result is ready, and never again"
    result.wait()
    assert result.ready()
    assert result.successful()
    assert len(called) == 1


def test_U2i_of_failing_calls_the_first_error_is_told_once(pool):
    called, failed = [], []
    result = pool.map_async(odd_fails, range(6), 1, callback=called.append, error_callback=failed.append)
    with pytest.raises(ValueError, match="^1$"):
        result.get(30)
    assert called == []
    assert [str(error) for error in failed] == ["1"]
    assert not result.successful()


def test_U2i_an_empty_list_is_told_too(pool):
    told = threading.Event()
    assert pool.map_async(add, [], callback=lambda values: values or told.set()).get(30) == []
    assert told.is_set()


def test_U2i_a_callback_that_raises_does_not_hang_who_waits(pool, monkeypatch, wait_until):
    told = []
    monkeypatch.setattr(threading, "excepthook", lambda about: told.append(about.exc_type))
    result = pool.apply_async(add, (1,), callback=lambda _: 1 / 0)
    assert result.get(30) == 2
    wait_until(lambda: told == [ZeroDivisionError])


@pytest.mark.parametrize("chunksize", [1, 3])
def test_U2j_imap_gives_exceptions_as_values_in_their_place(pool, chunksize):
    values = list(pool.imap(odd_fails, range(6), chunksize))
    assert [value if isinstance(value, int) else repr(value) for value in values] == [
        0,
        "ValueError(1)",
        20,
        "ValueError(3)",
        40,
        "ValueError(5)",
    ]


def test_U2j_imap_unordered_gives_them_as_they_come(pool, signs):
    def last(number):
        if number == 0:
            signs.wait("go")
        return odd_fails(number)

    results = pool.imap_unordered(last, range(4))
    early = [results.next(30) for _ in range(3)]
    assert sorted(map(str, early)) == ["1", "20", "3"]
    with pytest.raises(TimeoutError):
        results.next(timeout=0.1)
    signs.set("go")
    assert results.next() == 0
    with pytest.raises(StopIteration):
        results.next()


def test_imap_takes_items_as_it_goes(pool):
    def endless():
        number = 0
        while True:
            taken.append(number)
            yield number
            number += 1

    taken = []
    results = pool.imap(add, endless())
    assert [next(results) for _ in range(3)] == [1, 2, 3]
    assert len(taken) < 20


def test_U2k_close_lets_calls_end_and_join_waits_for_them(shared_ray, signs):
    pool = Pool(2)
    results = [pool.apply_async(signs.wait, ("go",)) for _ in range(4)]
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    for call in (pool.apply_async, pool.map_async, pool.imap):
        with pytest.raises(ValueError, match="Pool not running"):
            call(add, (1,))
    joined = threading.Thread(target=pool.join)
    joined.start()
    assert not results[0].ready()
    assert joined.is_alive()
    signs.set("go")
    joined.join(30)
    assert not joined.is_alive()
    assert all(result.successful() for result in results)


def test_U2k_terminate_ends_what_runs(shared_ray, signs, wait_until):
    pool = Pool(1)
    result = pool.apply_async(lambda: (signs.set("runs"), signs.wait("never")))
    signs.wait("runs")
    pool.terminate()
    with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
        result.get(30)
    pool.join()
    wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_U2l_successful_before_the_result_is_ready_raises(pool, signs):
    result = pool.apply_async(signs.wait, ("go",))
    assert not result.ready()
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    with pytest.raises(multiprocessing.TimeoutError):
        result.get(timeout=0.1)
    signs.set("go")
    assert result.get(30) is None
    assert result.successful()


def test_apply_map_and_starmap(pool):
    assert pool.apply(add, (1,), {"right": 5}) == 6
    assert pool.map(add, [1, 2, 3]) == [2, 3, 4]
    assert pool.starmap(add, [(1, 2), (3,)]) == [3, 4]
    with pytest.raises(ValueError, match="3"):
        pool.apply(odd_fails, (3,))
    assert len(set(pool.map(lambda _: os.getpid(), range(40), 1))) == 2


def test_initializer_runs_in_each_process_and_children_are_replaced(shared_ray):
    def begin(value):
        os.environ["BEGUN"] = value

    with Pool(1, initializer=begin, initargs=("yes",), maxtasksperchild=2) as pool:
        seen = pool.map(lambda _: (os.environ.get("BEGUN"), os.getpid()), range(6), 1)
    assert {begun for begun, _ in seen} == {"yes"}
    assert len({pid for _, pid in seen}) == 3


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"processes": 0}, ValueError, "Processes in the pool must be >0"),
        ({"processes": 99}, ValueError, "a pool with 99 processes .* there are only 2 CPUs"),
        ({"initializer": 1}, TypeError, "initializer must be a callable"),
    ],
)
def test_what_makes_no_sense_is_refused(shared_ray, options, error, text):
    with pytest.raises(error, match=text):
        Pool(**options)


def test_a_pool_starts_a_session_where_there_is_none(no_session):
    with Pool(3) as pool:
        assert pool.map(add, range(3)) == [1, 2, 3]
        assert ray.cluster_resources()["CPU"] == 3


def test_U2o_the_initializer_has_run_once_in_each_process_when_the_pool_is_there(shared_ray, tmp_path):
    def begin(folder):
        with open(os.path.join(folder, str(os.getpid())), "a") as file:
            file.write("begun\n")

    with Pool(2, initializer=begin, initargs=(str(tmp_path),)) as pool:
        begun = {path.name: path.read_text() for path in tmp_path.iterdir()}
        pids = set(pool.map(lambda _: os.getpid(), range(20), 1))
    assert len(begun) == 2
    assert set(begun.values()) == {"begun\n"}
    # One of the two may be so much quicker that it serves all.
    assert pids <= {int(name) for name in begun}


def test_U2o_what_the_initializer_raised_is_raised(shared_ray):
    def begin():
        raise KeyError("no beginning")

    with pytest.raises(RayActorError, match="no beginning"):
        Pool(1, initializer=begin)


def test_U2p_what_a_process_of_the_pool_calls_finds_a_cpu(shared_ray):
    task = ray.remote(add)

    with Pool(2) as pool:
        assert pool.apply(ray.available_resources)["CPU"] == 2
        assert pool.map(lambda value: ray.get(task.remote(value)), [1, 2, 3, 4]) == [2, 3, 4, 5]


def test_U2i_apply_async_calls_back_once_with_the_value_or_the_error(pool):
    told = multiprocessing.JoinableQueue()
    pool.apply_async(add, (1,), callback=told.put, error_callback=told.put).wait()
    assert told.get(timeout=20) == 2
    failed = pool.apply_async(odd_fails, (3,), callback=told.put, error_callback=told.put)
    with pytest.raises(ValueError, match="3"):
        failed.get()
    assert isinstance(told.get(timeout=20), ValueError)
    assert told.empty()


def test_joinable_queues_are_those_of_multiprocessing():
    from eagleray.util.multiprocessing import JoinableQueue

    queue = JoinableQueue()
    queue.put(1)
    assert queue.get(timeout=20) == 1
    queue.task_done()
    queue.join()
