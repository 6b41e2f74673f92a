"""One actor for all who ask for a name at once."""

import os
import threading

import pytest

import eagleray as ray

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@pytest.fixture
def Single(tmp_path):
    @ray.remote(num_cpus=0)
    class Single:
        def __init__(self):
            (tmp_path / f"built-{os.getpid()}-{id(self)}").touch()

        def pid(self):
            return os.getpid()

    return Single


def built(folder):
    return len(list(folder.glob("built-*")))


def test_A13a_ten_threads_get_one_actor(Single, tmp_path):
    handles, errors = [], []
    barrier = threading.Barrier(10)

    def ask():
        barrier.wait()
        try:
            handles.append(Single.options(name="threads", get_if_exists=True).remote())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(set(handles)) == 1
    assert len(set(ray.get([handle.pid.remote() for handle in handles]))) == 1
    assert built(tmp_path) == 1


def test_A13a_four_tasks_get_one_actor(Single, tmp_path):
    @ray.remote(num_cpus=0)
    def ask(number):
        actor = Single.options(name="tasks", lifetime="detached", get_if_exists=True).remote()
        return ray.get(actor.pid.remote())

    for _ in range(5):
        assert len(set(ray.get([ask.remote(number) for number in range(4)]))) == 1
    assert built(tmp_path) == 1
    ray.kill(ray.get_actor("tasks"))


def test_A13a_the_actor_that_is_there_keeps_its_arguments_and_state():
    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self, start):
            self.value = start

        def add(self):
            self.value += 1
            return self.value

    first = Counter.options(name="counter", get_if_exists=True).remote(10)
    assert ray.get(first.add.remote()) == 11
    second = Counter.options(name="counter", get_if_exists=True).remote(99)
    assert ray.get(second.add.remote()) == 12
    assert first == second


def test_A13a_after_kill_a_new_actor_is_made(Single, tmp_path):
    first = Single.options(name="killed", get_if_exists=True).remote()
    pid = ray.get(first.pid.remote())
    ray.kill(first)
    second = Single.options(name="killed", get_if_exists=True).remote()
    assert ray.get(second.pid.remote()) != pid
    assert built(tmp_path) == 2


def test_A13b_it_needs_a_name(Single):
    with pytest.raises(ValueError, match="name must be specified"):
        Single.options(get_if_exists=True).remote()
