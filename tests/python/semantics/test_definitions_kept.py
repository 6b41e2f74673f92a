"""What a program keeps of the functions that it defines, calls and forgets."""

import gc
import weakref

import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("shared_ray")


def made(number):
    space = {}
    exec(f"def f(x): return x + {number}", space)
    return space["f"]


@pytest.mark.parametrize("is_called", [False, True])
@pytest.mark.parametrize("has_options", [False, True])
def test_a_remote_function_that_nobody_holds_is_forgotten(is_called, has_options):
    # Its native part and its Python part held each other, out of the garbage collector's sight: 2.6 KB for each definition.
    body = made(1)
    seen = weakref.ref(body)
    function = ray.remote(body)
    if has_options:
        function = function.options(num_cpus=0)
    if is_called:
        assert ray.get(function.remote(1)) == 2
    del body, function
    gc.collect()
    assert seen() is None


def test_a_worker_keeps_a_bounded_number_of_functions_and_finds_the_others_again():
    @ray.remote(max_retries=0)
    def functions():
        import gc

        return sum(1 for one in gc.get_objects() if getattr(one, "__name__", "") == "of_this_test")

    def one(number):
        # With a module: pickling would look for its name in all modules that there are.
        space = {"__name__": __name__}
        exec(f"def of_this_test(x): return x + {number}", space)
        return ray.remote(space["of_this_test"])

    first = one(-1)
    assert ray.get(first.remote(1)) == 0
    for start in range(0, 1_600, 100):
        assert ray.get([one(number).remote(1) for number in range(start, start + 100)]) == list(
            range(start + 1, start + 101)
        )
    assert max(ray.get([functions.remote() for _ in range(20)])) <= 1_024
    assert ray.get(first.remote(1)) == 0
