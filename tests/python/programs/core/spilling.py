"""More values than the store has room for: they go to files, and come back."""

import tempfile

import numpy as np
import ray

with tempfile.TemporaryDirectory() as folder:
    ray.init(num_cpus=1, object_store_memory=80 * 2**20, object_spilling_directory=folder)
    refs = [ray.put(np.full(2_000_000, number)) for number in range(10)]
    assert [int(ray.get(ref)[-1]) for ref in refs] == list(range(10))
    assert "on disk" in ray._private.internal_api.memory_summary(stats_only=True)
    ray.shutdown()
print("ok")
