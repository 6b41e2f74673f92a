r"""Network namespaces on one bridge: machines with addresses of their own, as far as sockets can tell.

They need no name in the system, so that nothing is left behind: each lives as long as the process that holds it, which waits at a pipe of
this program. As root they are made directly, else below a user namespace of their own, in which this user is root.

    python tests/python/cluster/namespaces.py \
        'eagleray start --head --node-ip-address 10.77.0.1 --block' 'eagleray start --address 10.77.0.1:6379 --block'
"""

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.python.tools import path_of

#: What a holder runs: it says that it is there, and ends with this program.
_HOLD = "echo here; read -r _ || true"


class NotPermitted(Exception):
    """This machine does not let this user make namespaces."""


class Namespaces:
    """So many namespaces, each with an address on a bridge that joins them, and with a loopback of its own."""

    def __init__(self, count):
        self._holders = []
        self._made = []
        try:
            is_root = os.geteuid() == 0
            #: Holds the bridge; for others than root also the user namespace.
            self._bridge = self._hold([path_of("unshare"), "-n" if is_root else "-Urn"])
            self._enter = [path_of("nsenter"), f"--target={self._bridge.pid}"]
            if not is_root:
                self._enter += ["--user", "--preserve-credentials"]
            self._ip("link add br0 type bridge", "link set br0 up")
            self._nodes = [self._join(index) for index in range(count)]
        except BaseException:
            self.close()
            raise
        #: Addresses, one of each namespace.
        self.addresses = [f"10.77.0.{index + 1}" for index in range(count)]
        self.addresses6 = [f"fd77::{index + 1}" for index in range(count)]

    def _hold(self, command):
        holder = subprocess.Popen(
            [*command, "/bin/sh", "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._holders.append(holder)
        if holder.stdout.readline() != b"here\n":
            raise NotPermitted(f"namespaces cannot be made here: {holder.stderr.read().decode().strip()}")
        return holder

    def _ip(self, *commands, pid=None):
        """Runs commands of `ip` in the bridge's namespace, or in the one of another holder."""
        target = [*self._enter, "--net" if pid is None else f"--net=/proc/{pid}/ns/net"]
        text = "\n".join(commands)
        done = subprocess.run(
            [*target, path_of("ip"), "-batch", "-"], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotPermitted(f"`ip {text}` fails in a namespace: {done.stderr.strip()}")

    def _join(self, index):
        holder = self._hold([*self._enter, "--net", path_of("unshare"), "-n"])
        self._ip(
            f"link add name port{index} type veth peer name eth0 netns {holder.pid}",
            f"link set port{index} master br0",
            f"link set port{index} up",
        )
        self._ip(
            "link set lo up",
            "link set eth0 up",
            f"address add 10.77.0.{index + 1}/24 dev eth0",
            # There is nobody else who might have that address.
            f"address add fd77::{index + 1}/64 dev eth0 nodad",
            pid=holder.pid,
        )
        return holder

    def command(self, index, arguments):
        """The arguments by which a command runs in a namespace; the process itself is the command's."""
        return [*self._enter, f"--net=/proc/{self._nodes[index].pid}/ns/net", *map(str, arguments)]

    def run(self, index, arguments, **options):
        """Runs a command in a namespace to its end."""
        return subprocess.run(self.command(index, arguments), **{"check": True, "text": True, **options})

    def start(self, index, arguments, **options):
        """Starts a command in a namespace; `close` ends it."""
        process = subprocess.Popen(self.command(index, arguments), **{"text": True, **options})
        self._made.append(process)
        return process

    def cut(self, index):
        """Pulls the plug of a namespace: what is sent to it or from it is lost without a word."""
        self._ip(f"link set port{index} nomaster")

    def mend(self, index):
        """Puts the plug in again."""
        self._ip(f"link set port{index} master br0")

    def close(self):
        """Ends what was started here, then the namespaces."""
        for process in self._made:
            if process.poll() is None:
                process.kill()
        for process in self._made:
            process.wait(20)
        # The bridge's holder goes last: the others live below it.
        for holder in reversed(self._holders):
            with contextlib.suppress(OSError):
                holder.stdin.close()
            holder.wait(20)
            holder.stdout.close()
            holder.stderr.close()
        self._made, self._holders = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main(commands):
    """Runs each command in a namespace of its own, until one of them ends or Ctrl-C."""
    if not commands or commands[0].startswith("-"):
        sys.exit(
            f"usage: namespaces.py COMMAND...: each runs in a namespace of its own; the first one's address is 10.77.0.1\n{__doc__}"
        )
    with Namespaces(len(commands)) as made:
        started = [made.start(index, shlex.split(command)) for index, command in enumerate(commands)]
        with contextlib.suppress(KeyboardInterrupt):
            while not any(process.poll() is not None for process in started):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    started[0].wait(0.2)


if __name__ == "__main__":
    main(sys.argv[1:])
