"""What this node can never run waits, and the user is told why."""

import pytest

import eagleray as ray

TEXT = "No available node types can fulfill"


@pytest.mark.usefixtures("ray_session")
def test_D4a_infeasible_tasks_and_actors_wait_and_hold_up_nobody():
    @ray.remote
    def run():
        return "ran"

    @ray.remote
    class Actor:
        def ping(self):
            return "pong"

    stuck = [
        run.options(num_cpus=100).remote(),
        run.options(resources={"nothing": 1}).remote(),
        run.options(num_gpus=1).remote(),
        Actor.options(num_cpus=100).remote().ping.remote(),
        run.options(resources={"nothing": 1}).remote(),
    ]
    assert ray.get([run.remote() for _ in range(10)], timeout=30) == ["ran"] * 10
    assert ray.wait(stuck, num_returns=len(stuck), timeout=0.5) == ([], stuck)
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(stuck[0], timeout=0.1)
    assert ray.available_resources()["CPU"] == 2, "they hold nothing"


PROGRAM = """
ray.init(num_cpus=1)

@ray.remote(resources={"licence": 2})
def run():
    pass

@ray.remote(num_cpus=64)
class Actor:
    pass

refs = [run.remote() for _ in range(50)]
actor = Actor.remote()
ray.wait(refs, timeout=1)
"""


def test_D4c_the_driver_is_told_what_cannot_be_fulfilled(drivers):
    out, err = drivers.run(PROGRAM)
    said = [line for line in (out + err).splitlines() if TEXT in line]
    assert any("licence: 2" in line for line in said), (out, err)
    assert any("CPU: 64" in line for line in said), (out, err)
    assert all("autoscaler" in line for line in said)
    assert len(said) == 2, "once for each kind of request, not once for each request"
