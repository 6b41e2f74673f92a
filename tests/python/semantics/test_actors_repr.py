"""Where an actor's `__repr__` is seen."""

import pytest

import eagleray as ray
from eagleray.exceptions import RayTaskError

pytestmark = pytest.mark.two_nodes

PROGRAM = """
ray.init(num_cpus=1)

class Named:
    def __init__(self, number):
        self.number = number
        print("from the constructor", flush=True)

    def __repr__(self):
        return f"Named(number={self.number})"

    def speak(self):
        print("from a method", flush=True)

class Plain:
    def speak(self):
        print("from a plain one", flush=True)

class Broken(Plain):
    def __repr__(self):
        raise ValueError("no repr")

class Async(Named):
    async def speak(self):
        print("from a coroutine", flush=True)

actors = [ray.remote(Named).remote(7), ray.remote(Plain).remote(), ray.remote(Broken).remote()]
actors += [ray.remote(Async).remote(8), ray.remote(max_concurrency=2)(Named).remote(9)]
ray.get([actor.speak.remote() for actor in actors])
ray.shutdown()
"""


@pytest.mark.usefixtures("shared_ray")
def test_A16a_the_repr_appears_in_tracebacks():
    @ray.remote(num_cpus=0)
    class Named:
        def __repr__(self):
            return "Named(number=7)"

        def fail(self):
            raise ValueError("failed")

        async def fail_async(self):
            raise ValueError("failed")

    actor = Named.remote()
    for call in (actor.fail.remote(), actor.fail_async.remote()):
        with pytest.raises(RayTaskError, match=r"repr=Named\(number=7\)") as raised:
            ray.get(call)
        assert "repr=Named(number=7)" in str(raised.value)
        assert "ray::Named.fail" in str(raised.value)


@pytest.mark.usefixtures("shared_ray")
def test_A16a_a_repr_that_fails_does_not_hide_the_error():
    @ray.remote(num_cpus=0)
    class Broken:
        def __repr__(self):
            raise KeyError("no repr")

        def fail(self):
            raise ValueError("failed")

    with pytest.raises(ValueError, match="failed") as raised:
        ray.get(Broken.remote().fail.remote())
    assert "Broken" in str(raised.value)


def test_A16b_the_repr_appears_in_the_prefix_of_the_actors_output(drivers):
    out, _ = drivers.run(PROGRAM, env={"RAY_DEDUP_LOGS": "0"})

    def speakers(text):
        return sorted(line.partition(" pid=")[0] for line in out.splitlines() if line.endswith(text))

    assert speakers("from a method") == ["(Named(number=7)", "(Named(number=9)"]
    assert speakers("from a coroutine") == ["(Named(number=8)"]
    assert speakers("from a plain one") == ["(Broken", "(Plain"], "without one it is the class"
    # Lines from before it stands may be marked either way.
    assert len(speakers("from the constructor")) == 3
