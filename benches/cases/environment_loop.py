"""A reinforcement-learning rollout: environments are actors, and whichever is ready first is stepped next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases.catalog import Ray, case
from measure import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENVIRONMENTS = 8


@case("environment-stepping loop over wait, 8 actors", unit="steps/s", goal_times_ray=40)
def environment_stepping(ray: Ray) -> Job:
    """The environments do next to nothing, so that the loop itself is measured."""

    class Environment:
        def __init__(self) -> None:
            import numpy as np

            self.observation = np.zeros(4)

        def step(self, action: int) -> tuple[NDArray[np.float64], float, bool]:
            return self.observation, float(action), False

    actor = ray.remote(Environment)
    environments = [actor.remote() for _ in range(ENVIRONMENTS)]

    def job(repeats: int) -> None:
        stepping = {environment.step.remote(0): environment for environment in environments}
        for _ in range(repeats):
            (ready,), _ = ray.wait(list(stepping), num_returns=1)
            environment = stepping.pop(ready)
            observation, _reward, _done = ray.get(ready)
            action = int(observation[0] > 0)
            stepping[environment.step.remote(action)] = environment
        ray.get(list(stepping))

    return job
