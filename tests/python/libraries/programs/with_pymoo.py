"""A multi-objective search whose individuals are judged by tasks."""

import ray
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.problem import ElementwiseProblem
from pymoo.optimize import minimize
from pymoo.parallelization.ray import RayParallelization


class Sphere(ElementwiseProblem):
    def __init__(self, **kwargs):
        super().__init__(n_var=3, n_obj=1, xl=-2.0, xu=2.0, **kwargs)

    def _evaluate(self, x, out, *args, **kwargs):
        out["F"] = float((x**2).sum())


if __name__ == "__main__":
    ray.init(num_cpus=2)
    problem = Sphere(elementwise_runner=RayParallelization(job_resources={"num_cpus": 1}))
    found = minimize(problem, GA(pop_size=20), termination=("n_gen", 10), seed=1)
    assert found.F[0] < 1.0, found.F
    print("pymoo ran on eagleray", ray.__name__, found.F)
