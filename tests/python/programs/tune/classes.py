"""A class as a trainable: steps, checkpoints, an end of its own, a new configuration for the same object."""

import os

import ray
from ray import tune

ray.init(num_cpus=2)


class Climber(tune.Trainable):
    def setup(self, config):
        self.height = 0

    def step(self):
        self.height += self.config["speed"]
        return {"height": self.height, "done": self.height >= 12}

    def save_checkpoint(self, folder):
        with open(os.path.join(folder, "height"), "w") as file:
            file.write(str(self.height))

    def load_checkpoint(self, folder):
        with open(os.path.join(folder, "height")) as file:
            self.height = int(file.read())

    def reset_config(self, config):
        self.height = 0
        return True


tuner = tune.Tuner(
    Climber,
    param_space={"speed": tune.grid_search([2, 3, 4])},
    tune_config=tune.TuneConfig(metric="height", mode="max", reuse_actors=True),
    run_config=tune.RunConfig(
        verbose=0,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, num_to_keep=1, checkpoint_at_end=True),
    ),
)
results = tuner.fit()
assert [result.metrics["height"] for result in results] == [12, 12, 12]
assert [result.metrics["training_iteration"] for result in results] == [6, 4, 3]
with results[0].checkpoint.as_directory() as folder, open(os.path.join(folder, "height")) as file:
    assert file.read() == "12"
print("ok")
