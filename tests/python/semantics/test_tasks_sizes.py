"""Functions and classes that capture too much."""

import re

import numpy as np
import pytest

import eagleray as ray
from eagleray._driver import notices as channel

pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.fixture
def notices():
    heard = []

    def hear(kind, text):
        heard.append((kind, text))

    channel.subscribe(hear)
    yield heard
    channel.unsubscribe(hear)


def test_T7a_a_function_over_the_limit_is_refused():
    huge = np.zeros(10**8 + 1, dtype=np.uint8)

    @ray.remote
    def captures():
        return huge.size

    with pytest.raises(
        ValueError, match=r"The remote function .*captures is too large .*FUNCTION_SIZE_ERROR_THRESHOLD=95 MiB"
    ):
        captures.remote()

    @ray.remote
    def plain():
        return "fine"

    assert ray.get(plain.remote()) == "fine"


def test_T7b_an_actor_class_over_the_limit_is_refused():
    huge = np.zeros(10**8 + 1, dtype=np.uint8)

    @ray.remote
    class Captures:
        def size(self):
            return huge.size

    with pytest.raises(ValueError, match=r"The actor .*Captures is too large"):
        Captures.remote()


@pytest.mark.filterwarnings("ignore:The remote function", "ignore:The actor")
def test_T7c_a_large_function_or_class_warns_and_runs(notices):
    large = np.zeros(10**7 + 1, dtype=np.uint8)

    @ray.remote
    def captures():
        return large.size

    @ray.remote(num_cpus=0)
    class Captures:
        def size(self):
            return large.size

    assert ray.get(captures.remote()) == 10**7 + 1
    assert ray.get(Captures.remote().size.remote()) == 10**7 + 1
    kinds = [kind for kind, _ in notices]
    assert kinds == ["pickling_large_object"] * 2
    assert re.search(r"remote function .*captures is very large", notices[0][1])
    assert re.search(r"actor .*Captures is very large", notices[1][1])


@pytest.mark.filterwarnings("error:The remote function")
def test_T7c_a_function_below_the_limit_does_not_warn(notices):
    modest = np.zeros(10**7 - 10**5, dtype=np.uint8)

    @ray.remote
    def captures():
        return modest.size

    assert ray.get(captures.remote()) == modest.size
    assert notices == []


def test_T7c_the_warning_of_a_task_reaches_the_driver(drivers):
    _, err = drivers.run(
        """
        ray.init(num_cpus=2)

        @ray.remote
        def outer():
            large = bytes(10**7 + 1)

            @ray.remote
            def captures():
                return len(large)

            return ray.get(captures.remote())

        assert ray.get(outer.remote()) == 10**7 + 1
        """
    )
    assert re.search(r"remote function .*captures is very large", err), err
