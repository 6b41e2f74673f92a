"""The process that forks workers. Single-threaded, started by exec, with everything imported that every worker needs."""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str]) -> None:
    """Fork workers until the node is gone."""
    node_pid, session_dir, keep_session = int(arguments[0]), arguments[1], arguments[2] == "1"
    # What every worker needs: imported once, shared by all.
    import eagleray._values.pickling
    import eagleray._worker.process
    from eagleray import _native
    from eagleray._common.settings import from_env

    if _native.thread_count() != 1:
        _name_hooks()
    _preload(from_env("PRELOAD") or from_env("preload_python_modules") or "")
    # The node's thread, which started this process, blocks all signals.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    os.set_blocking(read_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        launcher = _native.Launcher(node_pid, read_fd, session_dir, keep_session)
    except ProcessLookupError:
        # The driver was killed while this process started: there is nobody to tell.
        if not keep_session:
            _native.remove_session(session_dir)
        os._exit(0)
    import gc

    gc.collect()
    gc.freeze()
    while (request := launcher.next()) is not None:
        slot, epoch, socket_fd = request
        try:
            pid = os.fork()
        except OSError as error:
            launcher.fork_failed(slot, error.errno or 0)
            os.close(socket_fd)
            continue
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(read_fd)
            os.close(write_fd)
            _native.die_with_parent()
            if os.getppid() == 1:
                os._exit(1)
            eagleray._worker.process.run(socket_fd, slot, epoch, session_dir, NOTICES)
            os._exit(0)
        os.close(socket_fd)
        launcher.forked(slot, epoch, pid)
    os._exit(0)


#: What users should know about this process. Workers are copies of it, and tell the driver that they first work for.
NOTICES: list[str] = []


def _warn_of_threads(who: str) -> None:
    NOTICES.append(
        f"Warning: {who} started threads in the process that workers are forked from. Workers do not have these threads, and what they "
        "held at that moment stays locked there."
    )


def _name_hooks() -> None:
    """Say which hook of this environment has started threads before anything of ours ran."""
    from eagleray._node import start_hooks

    names = start_hooks.guilty()
    if not names and "threading" in sys.modules:
        main = sys.modules["threading"].main_thread()
        names = [f"thread {each.name!r}" for each in sys.modules["threading"].enumerate() if each is not main]
    _warn_of_threads(f"a start-up hook of this environment ({', '.join(names) or 'of unknown name'}) has")


def _preload(names: str) -> None:
    """Import what the user names, once for all workers. Libraries that start threads when imported are asked not to."""
    if not names:
        return
    import importlib

    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    missing = {name: value for name, value in threads.items() if name not in os.environ}
    os.environ.update(missing)
    from eagleray import _native

    for name in filter(None, (each.strip() for each in names.split(","))):
        before = _native.thread_count()
        try:
            importlib.import_module(name)
        except Exception as error:
            NOTICES.append(f"Warning: {name} of EAGLERAY_PRELOAD cannot be imported: {error!r}")
        if _native.thread_count() > before:
            _warn_of_threads(f"{name} of EAGLERAY_PRELOAD has")
    for name in missing:
        del os.environ[name]
