"""Environment variables of a job, a task and an actor."""

import os

import ray
from _expect import error_of
from ray.runtime_env import RuntimeEnv

ray.init(num_cpus=2, runtime_env={"env_vars": {"COLOUR": "red", "SHAPE": "round"}})


@ray.remote
def look():
    return os.environ["COLOUR"], os.environ["SHAPE"]


@ray.remote(runtime_env=RuntimeEnv(env_vars={"COLOUR": "blue"}))
class Looker:
    def look(self):
        return os.environ["COLOUR"], os.environ["SHAPE"]


assert ray.get(look.remote()) == ("red", "round")
assert ray.get(look.options(runtime_env={"env_vars": {"SHAPE": "square"}}).remote()) == ("red", "square")
assert ray.get(Looker.remote().look.remote()) == ("blue", "round")
refused = error_of(lambda: look.options(runtime_env={"pip": ["a-package"]}), NotImplementedError)
assert "install the packages" in str(refused)
print("ok")
