"""How a program ends while daemon threads of it are in the API: with its own exit code, and in silence.

Python up to 3.13 ends such a thread by unwinding its stack; below a call of ours that aborted the process ("FATAL: exception not rethrown",
exit code 134), most often in a thread that began to start a session of its own while the program's was shut down.
"""

import subprocess
import sys

import pytest

HEAD = """
import threading, time
import eagleray as ray

@ray.remote
def echo(value):
    return value

@ray.remote
def slow():
    time.sleep(0.01)

class Odd:
    def __reduce__(self):
        for _ in range(2000):
            pass
        return Odd, ()

ray.init(num_cpus=2)
"""

LOOPS = {
    "put": "ray.put(1)",
    "pickle": "ray.get(ray.put([Odd() for _ in range(20)]))",
    "get": "ray.get([echo.remote(i) for i in range(20)])",
    "get_slow": "ray.get(slow.remote())",
    "wait": "ray.wait([slow.remote()])",
    "future": "slow.remote().future().result()",
    "remote": "echo.remote(1)",
    "caught": "\n        try: ray.get(echo.remote(1))\n        except Exception: pass",
}

TAIL = """
def work():
    while True: {loop}

for _ in range({threads}):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
{end}
print("end")
"""


def run(loop: str, *, threads: int = 1, end: str = "") -> subprocess.CompletedProcess[str]:
    program = HEAD + TAIL.format(loop=loop, threads=threads, end=end)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize("name", LOOPS)
def test_a_program_ends_in_silence_while_daemon_threads_call(name: str) -> None:
    for threads in (1, 3):
        done = run(LOOPS[name], threads=threads)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_daemon_threads_that_start_a_session_of_their_own_do_not_break_the_programs_end() -> None:
    for end in ("ray.shutdown()", "ray.shutdown(); time.sleep(0.05)"):
        done = run("\n        try: ray.put(1)\n        except Exception: pass", threads=2, end=end)
        assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
        assert "FATAL" not in done.stderr


def test_an_exit_handler_may_join_a_thread_that_still_calls() -> None:
    # Registered before eagleray's own handler, so it runs after the session is over.
    program = f"""
import atexit
threads = []
atexit.register(lambda: print([thread.join(20) or thread.is_alive() for thread in threads]))
{HEAD}
def work():
    try:
        while True: ray.get(slow.remote())
    except Exception as error:
        pass

threads.append(threading.Thread(target=work, daemon=True))
threads[0].start()
time.sleep(0.2)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (0, "[False]\n"), done.stderr
