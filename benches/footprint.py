"""What `init()` alone takes of the system: threads, descriptors and TCP ports of the driver and of each process that it starts.

python benches/footprint.py; PYTHONPATH=build/ab/<commit>/python tells it of an older build.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from processes import descendants
from table import plain

SETTLE_SECONDS = 1.0
LISTENS = "0A"


def main() -> None:
    """Import, look, init, look again, print."""
    import eagleray

    before = footprint(os.getpid())
    eagleray.init(num_cpus=2, log_to_driver=False)
    time.sleep(SETTLE_SECONDS)
    others = sorted(descendants(os.getpid()))
    rows = [["driver before init()", *before], ["driver", *footprint(os.getpid())]]
    rows += [[command(pid), *footprint(pid)] for pid in others]
    print(Path(eagleray.__file__).parent)
    print(plain(["process", "threads", "descriptors", "ports", "names of threads"], rows))
    eagleray.shutdown()


def footprint(pid: int) -> list[str]:
    """Numbers of threads, of descriptors and of ports that it listens at; then the threads by name."""
    names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        # That which the listing itself is read by is gone.
        with contextlib.suppress(OSError):
            targets.append(str(descriptor.readlink()))
    ports = len(set(targets) & listening())
    return [str(len(names)), str(len(targets)), str(ports), ", ".join(sorted(names))]


def listening() -> set[str]:
    """The sockets that listen at a TCP port, as descriptors show them."""
    lines = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    return {f"socket:[{fields[9]}]" for fields in lines if fields[3] == LISTENS}


def command(pid: int) -> str:
    """The name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


if __name__ == "__main__":
    main()
