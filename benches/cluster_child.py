"""The child of `cluster.py`: runs one case over two nodes of one system in this interpreter, or weighs idle nodes, and writes JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cluster_cases import AWAY, NODE_CASES, Nodes
from measure import Job, Timing
from one_case import close, time_case
from processes import adopt_orphans, descendants
from systems import RAY_LIKE, Session
from weight import cpu_percent, memory_of

STORE_BYTES = 1 << 30
#: A node's thread that talks with other nodes; the kernel keeps fifteen characters of a name.
CARRIER = "eagleray-carrie"
#: Until nodes have done what they do after their start.
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 20.0


def open_nodes(system: str) -> Session:
    """Start two nodes and a driver on the first one, which has no processors: what is asked of the cluster is done on the other."""
    ray = importlib.import_module(system)
    cluster = cluster_of(system)
    cluster.add_node(num_cpus=0, object_store_memory=STORE_BYTES)
    cluster.add_node(num_cpus=2, resources=dict.fromkeys(AWAY, 1_000), object_store_memory=STORE_BYTES)
    ray.init(address=cluster.address)

    @ray.remote(resources=AWAY)
    def where() -> str:
        return str(ray.get_runtime_context().get_node_id())

    assert ray.get(where.remote()) != ray.get_runtime_context().get_node_id(), "tasks run on the driver's node"

    def end() -> None:
        ray.shutdown()
        cluster.shutdown()

    return Session(Nodes(ray, cluster), lambda _: set(), end)


def cluster_of(system: str) -> Any:
    """An empty `Cluster` of the system's."""
    return importlib.import_module(f"{system}.cluster_utils").Cluster()


def set_apart(nodes: Nodes) -> None:
    """Let each hand-over of a call wake another core: caller, its carrier, the other carrier and callee are on two of them by turns."""
    cores = os.sched_getaffinity(0)
    first, last = {min(cores)}, {max(cores)}
    (away,) = nodes.cluster.worker_nodes
    for thread in threads_of(os.getpid()):
        os.sched_setaffinity(thread, first)
    for pid in descendants(away.pid):
        for thread in threads_of(pid):
            os.sched_setaffinity(thread, last)
    for node, where in ((nodes.cluster.head_node, last), (away, first)):
        (carrier,) = threads_of(node.pid, CARRIER)
        os.sched_setaffinity(carrier, where)


def threads_of(pid: int, name: str = "") -> list[int]:
    """The threads of a process; only those of that name, if one is given."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(task.name) for task in tasks if name in (task / "comm").read_text()]


def weigh_idle(system: str, count: int) -> dict[str, float]:
    """What so many nodes take that nobody asks anything of: processor time of all their processes, and private memory of each node."""
    adopt_orphans()
    before = descendants(os.getpid())
    cluster = cluster_of(system)
    for _ in range(count):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    time.sleep(SETTLE_SECONDS)
    pids = descendants(os.getpid()) - before
    cpu = cpu_percent(pids, IDLE_SECONDS)
    memory = memory_of(pids)
    return {"cpu_percent": cpu, "private_mib_each": memory.private / count, "processes": memory.processes}


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=RAY_LIKE, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--case", choices=list(NODE_CASES))
    what.add_argument("--idle", type=int, help="so many nodes are weighed")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--asleep", choices=("apart", "together"), help="nobody spins; where eagleray's processes run")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.asleep:
        os.environ["EAGLERAY_SPIN"] = "never"
    if options.asleep == "together":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if options.idle:
        options.out.write_text(json.dumps(weigh_idle(options.system, options.idle)))
        # Whoever started us ends the rest; nodes that leave one by one would only take time.
        os._exit(0)
    case = NODE_CASES[options.case]
    timing = Timing(options.seconds, options.rounds)

    def prepare(nodes: Nodes) -> Job:
        job = case.prepare(nodes)
        if options.asleep == "apart":
            set_apart(nodes)
        return job

    outcome, session = time_case(case, prepare, lambda: open_nodes(options.system), timing)
    options.out.write_text(json.dumps(asdict(outcome)))
    if session is not None:
        close(session)


if __name__ == "__main__":
    main()
