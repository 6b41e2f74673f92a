"""A node that ends with the program that started it, however that ends; then nothing of the node is left, its folder neither.

python -m eagleray._node.tied PID FOLDER start --head --block ...
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import threading

#: How long a node may take to end by itself once its program has.
_ENDING_SECONDS_MAX = 10.0


class _Tie:
    """Waits for the end of the parent process.

    Not the kernel's signal for that: it comes when the thread that started this process ends. Nor a pipe: forks of the program keep that open.
    """

    def __init__(self, parent: int) -> None:
        self.is_cut = False
        self._fd = -1
        with contextlib.suppress(ProcessLookupError):
            self._fd = os.pidfd_open(parent)
        # Whoever has that pid now is the parent only if this process still is its child.
        if self._fd < 0 or os.getppid() != parent:
            sys.exit("the program that started this node has ended")
        threading.Thread(target=self._watch, name="eagleray-tie", daemon=True).start()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll()
        self.is_cut = True
        # To the main thread itself, whose sleep it ends.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        threading.Event().wait(_ENDING_SECONDS_MAX)
        os._exit(1)


def main(arguments: list[str]) -> None:
    """Run a command of `eagleray` until it ends or the parent does."""
    parent, folder, *command = arguments
    tie = _Tie(int(parent))
    from eagleray._cli import main as cli

    try:
        cli.main(command)
    finally:
        if tie.is_cut:
            shutil.rmtree(folder, ignore_errors=True)
            # The last node of a cluster takes the cluster's folder along.
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
