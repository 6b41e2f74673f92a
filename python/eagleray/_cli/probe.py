"""`eagleray status --probe`: whether a node is there, for those who look after processes: Kubernetes, scripts of Slurm, health checks.

A node is listed once it belongs to its cluster, and ends when it does not any more. So one that answers is ready, and alive. What other nodes do
counts only for who asks for their number: a probe that fails because of others would have all of them started again.
"""

from __future__ import annotations

import time

#: Between two looks of one who waits.
_AGAIN_SECONDS = 0.2


def probe(address: str | None, nodes: int | None, wait: float) -> int:
    """Look until all is as wanted or the time is over; say which in one line. Gives the exit status."""
    until = time.monotonic() + wait
    while True:
        problem, word = _look(address, nodes)
        if problem is None or time.monotonic() >= until:
            break
        time.sleep(_AGAIN_SECONDS)
    print(word if problem is None else problem)
    return 0 if problem is None else 1


def _look(address: str | None, wanted: int | None) -> tuple[str | None, str]:
    """Say what is missing, if anything is, and what is there."""
    from eagleray._node import addresses, finding

    try:
        # A program's own node does not count: it ends with that program.
        found = (
            finding.first_that_answers(finding.of_cluster(addresses.parse(address))) if address else finding.daemon()
        )
        if found is None:
            return f"no node of yours answers{f' that belongs to the cluster at {address}' if address else ''}", ""
        word = f"the node answers (pid {found.pid})"
        if wanted is None:
            return None, word
        rows = finding.ask(found.path, "status")["nodes"]
    except ConnectionError as error:
        return str(error), ""
    there = sum(1 for row in rows if row["alive"] and not row["is_guest"])
    word = f"{word}; nodes of its cluster: {there}"
    return (None if there >= wanted else f"{word}, of {wanted}"), word
