"""What a task gives back."""

import pytest

import eagleray as ray

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote
def give(value):
    return value


def test_T5a_no_returns_gives_none():
    @ray.remote(num_returns=0)
    def nothing():
        return "ignored"

    assert nothing.remote() is None
    assert give.options(num_returns=0).remote(1) is None


def test_T5a_a_task_without_returns_runs(tmp_path):
    import time

    path = tmp_path / "ran"

    @ray.remote(num_returns=0)
    def touch(path):
        path.touch()

    @ray.remote(num_returns=0)
    def fail():
        raise RuntimeError("nobody can see this")

    assert fail.remote() is None
    assert touch.remote(path) is None
    while not path.exists():
        time.sleep(0.01)


def test_T5b_one_return_is_a_ref():
    for function in (give, give.options(num_returns=1), give.options(num_returns=None)):
        ref = function.remote([1, 2])
        assert isinstance(ref, ray.ObjectRef)
        assert ray.get(ref) == [1, 2]


def test_T5c_several_returns_are_a_list_of_refs():
    @ray.remote(num_returns=3)
    def three():
        return "a", "b", "c"

    refs = three.remote()
    assert isinstance(refs, list)
    assert all(isinstance(ref, ray.ObjectRef) for ref in refs)
    assert ray.get(refs) == ["a", "b", "c"]
    assert ray.get(give.options(num_returns=500).remote(list(range(500)))) == list(range(500))


def test_T5c_an_actor_method_may_return_several():
    @ray.remote(num_cpus=0)
    class Actor:
        @ray.method(num_returns=2)
        def pair(self):
            return 1, 2

        def values(self, count):
            return tuple(range(count))

    actor = Actor.remote()
    first, second = actor.pair.remote()
    assert ray.get([first, second]) == [1, 2]
    assert ray.get(actor.values.options(num_returns=4).remote(4)) == [0, 1, 2, 3]
    assert actor.values.options(num_returns=0).remote(4) is None


@pytest.mark.parametrize("value", [(1,), (1, 2, 3), (), 7, None], ids=["few", "many", "empty", "int", "none"])
def test_T5d_a_result_of_the_wrong_length_raises_at_get(value):
    refs = give.options(num_returns=2).remote(value)
    assert len(refs) == 2
    for ref in refs:
        with pytest.raises(ValueError, match="num_returns=2"):
            ray.get(ref)


def test_T5e_a_failing_task_fails_in_each_of_its_refs():
    @ray.remote(num_returns=3)
    def fail():
        raise KeyError("lost")

    for ref in fail.remote():
        with pytest.raises(KeyError, match="lost"):
            ray.get(ref)


def test_T5e_a_crashing_task_fails_in_each_of_its_refs():
    @ray.remote(num_returns=2, max_retries=0)
    def crash():
        import os

        os._exit(3)

    for ref in crash.remote():
        with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 3"):
            ray.get(ref)
