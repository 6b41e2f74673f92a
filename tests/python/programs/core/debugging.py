"""Looking inside: local mode, the context of a call, memory, what a call's process printed, loggers, bars, counts."""

import logging
import os

import ray
from ray.experimental import tqdm_ray
from ray.util.metrics import Counter, Gauge, Histogram


@ray.remote
def pid():
    return os.getpid()


ray.init(local_mode=True)
assert ray.get(pid.remote()) == os.getpid()
ray.shutdown()

ray.init(num_cpus=2, logging_config=ray.LoggingConfig(encoding="TEXT", log_level="INFO"))
assert ray.get(pid.remote()) != os.getpid()


@ray.remote
class Observed:
    def context(self):
        context = ray.get_runtime_context()
        return context.get_task_function_name(), context.get_actor_name(), context.get_task_id()

    def log(self):
        logging.getLogger("observed").info("a line from an actor")
        for _ in tqdm_ray.tqdm(range(3), desc="steps", flush_interval_s=0):
            pass

    def measure(self):
        calls = Counter("calls", description="how many", tag_keys=("kind",)).set_default_tags({"kind": "test"})
        calls.inc()
        Gauge("level").set(3)
        Histogram("seconds", boundaries=[0.1, 1]).observe(0.5)
        return calls.recorded


observed = Observed.options(name="observed").remote()
call = observed.context.remote()
function, actor, task_id = ray.get(call)
assert function == "debugging.Observed.context", function
assert (actor, task_id) == ("observed", call.task_id().hex())
ray.get(observed.log.remote())
assert ray.get(observed.measure.remote()) == {(("kind", "test"),): 1.0}
held = ray.put(b"x" * 1_000_000)
assert held.hex() in ray._private.internal_api.memory_summary()
assert ray.util.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"]
print("ok")
