"""Threads and forks that need a session of their own: the first calls without init, and children of a process that had one."""

import subprocess
import sys


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=55, check=False)


# All but one failed: "Maybe you called ray.init twice by accident?".
def test_first_calls_of_several_threads_start_one_session():
    done = run("""
import asyncio, concurrent.futures as futures
import eagleray as ray

@ray.remote
class Actor:
    def m(self): return 1

@ray.remote
def f(x): return x

def call(k):
    return ray.get([lambda: f.remote(1), lambda: ray.put(1), lambda: Actor.remote().m.remote()][k % 3]())

with futures.ThreadPoolExecutor(6) as pool:
    print(list(pool.map(call, range(6))))
ray.shutdown()

async def main():
    return await asyncio.gather(*(asyncio.to_thread(call, k) for k in range(6)))

print(asyncio.run(main()))
""")
    assert (done.returncode, done.stdout) == (0, f"{[1] * 6}\n{[1] * 6}\n"), done.stderr


# A child of a process that had ever run a session was refused one of its own.
def test_a_child_forked_after_shutdown_may_run_a_session():
    done = run("""
import multiprocessing
import eagleray as ray

def child(x):
    ray.init(num_cpus=1, ignore_reinit_error=True)
    f = ray.remote(lambda y: y + 1)
    return ray.get(f.remote(x))

if __name__ == "__main__":
    ray.init(num_cpus=1)
    kept = ray.put(1)
    ray.shutdown()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(child, [1, 2]))
    del kept
    print(child(3))
""")
    assert (done.returncode, done.stdout) == (0, "[2, 3]\n4\n"), done.stderr


def test_a_child_forked_in_a_session_is_told_what_to_do():
    done = run("""
import os, sys
import eagleray as ray

ray.init(num_cpus=1)
if os.fork() == 0:
    for call in (ray.init, lambda: ray.put(1), ray.shutdown, ray.init):
        try:
            call()
        except ray.exceptions.RaySystemError as error:
            print("shut the session down before the fork" in str(error), flush=True)
    os._exit(0)
os.wait()
print(ray.get(ray.put(5)))
""")
    assert (done.returncode, done.stdout) == (0, "True\nTrue\nTrue\n5\n"), done.stderr
