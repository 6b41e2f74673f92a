"""Trials that fail are tried again from their checkpoint; an experiment is restored."""

import os
import tempfile

import ray
from ray import tune

ray.init(num_cpus=2)
FOLDER = tempfile.mkdtemp()


def fragile(config):
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "step")) as file:
            start = int(file.read())
    for step in range(start, 4):
        mark = os.path.join(FOLDER, f"broken-{config['x']}-{step}")
        if step == 2 and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("once")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "step"), "w") as file:
                file.write(str(step + 1))
            tune.report({"step": step, "start": start}, checkpoint=tune.Checkpoint.from_directory(folder))


def tuner(name, failures):
    return tune.Tuner(
        fragile,
        param_space={"x": tune.grid_search([name + "1", name + "2"])},
        run_config=tune.RunConfig(
            name=name,
            storage_path=FOLDER,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=failures),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
        ),
    )


results = tuner("again", 1).fit()
assert [(result.metrics["step"], result.metrics["start"]) for result in results] == [(3, 2), (3, 2)]
assert len(results[0].best_checkpoints) == 2

results = tuner("later", 0).fit()
assert results.num_errors == 2
assert "once" in str(results.errors[0])
where = os.path.join(FOLDER, "later")
assert tune.Tuner.can_restore(where)
results = tune.Tuner.restore(where, trainable=fragile, resume_errored=True).fit()
assert not results.errors
assert [result.metrics["step"] for result in results] == [3, 3]
print("ok")
