"""An actor that comes back with its state from a file, and calls that are tried again."""

import os
import tempfile
from pathlib import Path

import ray
from _expect import error_of
from ray.exceptions import RayActorError


@ray.remote(max_restarts=1, max_task_retries=-1)
class Survivor:
    def __init__(self, path):
        self.path = path
        self.value = int(Path(path).read_text()) if os.path.exists(path) else 0

    def add(self):
        self.value += 1
        with open(self.path, "w") as file:
            file.write(str(self.value))
        return self.value

    def was_restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed

    def crash_once(self, mark):
        if not os.path.exists(mark):
            Path(mark).touch()
            os._exit(1)
        return "survived"


with tempfile.TemporaryDirectory() as folder:
    actor = Survivor.remote(os.path.join(folder, "state"))
    assert ray.get([actor.add.remote(), actor.was_restarted.remote()]) == [1, False]
    assert ray.get(actor.crash_once.remote(os.path.join(folder, "mark"))) == "survived"
    assert ray.get([actor.add.remote(), actor.was_restarted.remote()]) == [2, True]
    ray.kill(actor)
    error_of(lambda: ray.get(actor.add.remote()), RayActorError)
print("ok")
