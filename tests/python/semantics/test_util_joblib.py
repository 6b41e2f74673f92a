"""joblib on the processes of a session: rule U4."""

import os

import pytest

import eagleray as ray

joblib = pytest.importorskip("joblib")
from joblib import Parallel, delayed  # noqa: E402

from eagleray.util.joblib import register_ray  # noqa: E402


@pytest.fixture(autouse=True)
def registered(shared_ray):
    register_ray()


def square(number):
    return number * number


def test_U4a_calls_run_in_processes_of_the_session():
    with joblib.parallel_config(backend="ray"):
        assert Parallel()(delayed(square)(number) for number in range(20)) == [number**2 for number in range(20)]
        pids = Parallel(n_jobs=2, batch_size=1)(delayed(os.getpid)() for _ in range(20))
    assert len(set(pids)) == 2
    assert os.getpid() not in pids


def test_U4a_all_of_joblibs_ways_to_ask_for_it():
    with joblib.parallel_backend("ray", n_jobs=2):
        assert Parallel()(delayed(square)(number) for number in range(3)) == [0, 1, 4]
    assert Parallel(n_jobs=2, backend="ray")(delayed(square)(number) for number in range(3)) == [0, 1, 4]
    assert Parallel(n_jobs=1, backend="ray")(delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2
    one_by_one = Parallel(n_jobs=2, backend="ray", return_as="generator")(delayed(square)(n) for n in range(5))
    assert list(one_by_one) == [0, 1, 4, 9, 16]
    with Parallel(n_jobs=2, backend="ray") as parallel:
        assert parallel(delayed(square)(n) for n in range(2)) == [0, 1]
        assert parallel(delayed(square)(n) for n in range(2)) == [0, 1]


def test_U4a_a_parallel_within_a_parallel():
    def inner(number):
        return sum(Parallel(n_jobs=2)(delayed(square)(number) for _ in range(3)))

    assert Parallel(n_jobs=2, backend="ray")(delayed(inner)(number) for number in (1, 2)) == [3, 12]


def test_U4b_what_a_call_raised_is_raised_and_the_backend_is_usable_again():
    def fails(number):
        if number == 3:
            raise KeyError("the third")
        return number

    with joblib.parallel_config(backend="ray", n_jobs=2):
        with pytest.raises(KeyError, match="the third"):
            Parallel()(delayed(fails)(number) for number in range(10))
        assert Parallel()(delayed(fails)(number) for number in range(3)) == [0, 1, 2]


def test_U4b_a_process_that_dies_is_an_error():
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit code 1"):
        Parallel(n_jobs=2, backend="ray")(delayed(os._exit)(1) for _ in range(3))


def test_U4c_a_large_argument_of_many_calls_is_stored_once(monkeypatch):
    numpy = pytest.importorskip("numpy")
    data = numpy.arange(100_000)
    puts = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: puts.append(value) or put(value))
    sums = Parallel(n_jobs=2, backend="ray", batch_size=1)(
        delayed(lambda values, shift, more: int(values.sum() + shift + len(more)))(data, shift, more=data)
        for shift in range(10)
    )
    assert sums == [int(data.sum()) + shift + 100_000 for shift in range(10)]
    assert len(puts) == 1
    assert puts[0] is data


def test_U4c_refs_of_the_users_own_stay_refs():
    ref = ray.put(5)
    kinds = Parallel(n_jobs=2, backend="ray")(delayed(lambda given: type(given).__name__)(ref) for _ in range(3))
    assert kinds == ["ObjectRef"] * 3


def test_U4d_options_are_those_of_the_processes_and_cpus_those_of_the_session():
    options = {"runtime_env": {"env_vars": {"JOBLIB_SAYS": "yes"}}}
    with joblib.parallel_config(backend="ray", n_jobs=2, ray_remote_args=options):
        assert Parallel()(delayed(os.getenv)("JOBLIB_SAYS") for _ in range(3)) == ["yes"] * 3
    with joblib.parallel_config(backend="ray", n_jobs=-1, inner_max_num_threads=3):
        assert joblib.effective_n_jobs() == 2
        assert Parallel()(delayed(os.getenv)("OPENBLAS_NUM_THREADS") for _ in range(3)) == ["3"] * 3
    with joblib.parallel_config(backend="ray", n_jobs=7), pytest.raises(ValueError, match="there are only 2 CPUs"):
        Parallel()(delayed(square)(number) for number in range(3))
