"""Ctrl-C, and what a notebook does: an event loop that runs already, cells that are interrupted, classes that are defined again."""

import asyncio
import os
import re
import signal
import threading
import time

import pytest

import eagleray as ray

BLOCKING = {
    "get": "ray.get(ref)",
    "get a list": "ray.get([ref, ref])",
    "wait": "ray.wait([ref])",
    "get with a timeout": "ray.get(ref, timeout=500)",
    "get of an actor that never comes": "ray.get(Actor.options(num_gpus=99).remote().pid.remote())",
}


@pytest.mark.parametrize("call", BLOCKING.values(), ids=BLOCKING.keys())
def test_ctrl_c_ends_a_blocked_call_at_once(drivers, call):
    code = f"""
    ray.init(num_cpus=1)
    @ray.remote
    def sleep():
        time.sleep(600)
    @ray.remote
    def works():
        return 1
    @ray.remote(num_cpus=0)
    class Actor:
        def pid(self):
            return os.getpid()
    actor = Actor.remote()
    ray.get(actor.pid.remote())
    ref = sleep.remote()
    try:
        print("ready")
        {call}
    except KeyboardInterrupt:
        print("interrupted", time.monotonic())
    # The session lives on.
    print("pid", ray.get(actor.pid.remote()))
    ray.cancel(ref)
    print("works", ray.get(works.remote()))
    """
    driver = drivers.start(code)
    driver.hear_until("ready")
    time.sleep(0.5)
    sent = time.monotonic()
    driver.kill(signal.SIGINT)
    interrupted = float(driver.hear_until("interrupted"))
    # A tenth of a second is the promise.
    assert interrupted - sent < 1.0
    code, out, err = driver.end()
    assert code == 0, err
    assert "works 1" in out


def test_ctrl_c_ends_an_await_and_the_session_lives_on(drivers):
    code = """
    import asyncio
    ray.init(num_cpus=2)
    @ray.remote
    def sleep(seconds):
        time.sleep(seconds)
        return seconds
    async def wait():
        ref = sleep.remote(600)
        print("ready")
        await ref
    try:
        asyncio.run(wait())
    except KeyboardInterrupt:
        print("interrupted")
    async def again():
        return await sleep.remote(0)
    print("works", asyncio.run(again()))
    """
    driver = drivers.start(code)
    driver.hear_until("ready")
    time.sleep(0.3)
    driver.kill(signal.SIGINT)
    driver.hear_until("interrupted")
    code, out, err = driver.end()
    assert code == 0, err
    assert "works 0" in out


@pytest.mark.parametrize("call", ["ray.init(num_cpus=2)", "ray.shutdown()"])
@pytest.mark.parametrize("delay_ms", [0, 3, 6, 10, 15, 25])
def test_ctrl_c_in_the_middle_of_init_or_shutdown_leaves_a_program_that_can_start_again(drivers, call, delay_ms):
    code = f"""
    @ray.remote
    def works():
        return 1
    if "shutdown" in {call!r}:
        ray.init(num_cpus=2)
        ray.get(works.remote())
    try:
        print("ready")
        {call}
        # If it was quicker than the interrupt.
        time.sleep(1)
    except (KeyboardInterrupt, RuntimeError) as error:
        # What comes while a class of the standard library is being made, Python 3.11 wraps.
        assert isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)
    ray.shutdown()
    assert not ray.is_initialized()
    ray.init(num_cpus=1)
    print("works", ray.get(works.remote()))
    """
    driver = drivers.start(code)
    driver.hear_until("ready")
    time.sleep(delay_ms / 1000)
    driver.kill(signal.SIGINT)
    code, out, err = driver.end()
    assert code == 0, err
    assert "works 1" in out
    assert not list(drivers.folder.glob("session_*"))


def test_ctrl_c_that_nobody_catches_ends_the_driver_and_all_it_started(drivers, leaks):
    code = """
    ray.init(num_cpus=2)
    @ray.remote
    def sleep():
        time.sleep(600)
    refs = [sleep.remote() for _ in range(2)]
    print("session", ray.get_runtime_context().get_session_name())
    ray.get(refs)
    """
    driver = drivers.start(code)
    session = drivers.folder / driver.hear_until("session")
    time.sleep(0.3)
    everyone = [process.pid for process in leaks.descendants(driver.pid)]
    assert everyone
    driver.kill(signal.SIGINT)
    code, _, err = driver.end()
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    leaks.check(everyone, session)


def test_ctrl_c_on_the_terminal_does_not_reach_the_workers(drivers):
    # A terminal sends it to everyone in the foreground group.
    code = """
    ray.init(num_cpus=1)
    @ray.remote(num_cpus=0)
    class Actor:
        def pid(self):
            return os.getpid()
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    try:
        print("ready")
        time.sleep(600)
    except KeyboardInterrupt:
        pass
    print("same", ray.get(actor.pid.remote()) == pid)
    """
    driver = drivers.start(code, start_new_session=True)
    driver.hear_until("ready")
    time.sleep(0.2)
    os.killpg(driver.pid, signal.SIGINT)
    code, out, err = driver.end()
    assert code == 0, err
    assert "same True" in out


def test_signal_handler_of_the_users_own_runs_while_get_blocks(ray_session, tmp_path):
    gate = tmp_path / "gate"

    @ray.remote
    def hold():
        while not gate.exists():
            time.sleep(0.01)
        return "done"

    seen = []

    def handler(number, _frame):
        seen.append(number)
        gate.touch()

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        ref = hold.remote()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert ray.get(ref, timeout=40) == "done"
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, old)


@ray.remote
def double(value):
    time.sleep(0.05)
    return 2 * value


async def test_get_and_wait_work_inside_a_running_loop(ray_session):
    # What a notebook's cell is: code on a thread whose loop already runs.
    assert ray.get(double.remote(4)) == 8
    refs = [double.remote(number) for number in range(4)]
    ready, waiting = ray.wait(refs, num_returns=4)
    assert len(ready) == 4
    assert not waiting
    assert await refs[0] == 0
    assert await asyncio.gather(*refs) == [0, 2, 4, 6]


async def test_loop_goes_on_while_a_ref_is_awaited(ray_session):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    ticking = asyncio.ensure_future(tick())
    assert await double.remote(5) == 10
    ticking.cancel()
    assert ticks >= 2


async def test_get_in_a_thread_of_the_loop_leaves_the_loop_free(ray_session):
    loop = asyncio.get_running_loop()
    value, _ = await asyncio.gather(loop.run_in_executor(None, ray.get, double.remote(6)), asyncio.sleep(0.01))
    assert value == 12


def test_interrupted_cell_leaves_a_session_that_works(drivers):
    # A kernel runs cell after cell; the interrupt of one ends that cell only.
    code = r"""
    import asyncio, traceback
    cells = [
        "ray.init(num_cpus=2)\n@ray.remote\ndef slow(seconds):\n    time.sleep(seconds)\n    return seconds",
        "@ray.remote\nclass Counter:\n    def __init__(self):\n        self.count = 0\n"
        "    def add(self):\n        self.count += 1\n        return self.count\ncounter = Counter.remote()",
        "print('count', ray.get(counter.add.remote()))",
        "print('blocked')\nray.get(slow.remote(600))",
        "print('count', ray.get(counter.add.remote()))",
        # Defined again, with another body: new actors have it, the old one keeps what it has.
        "@ray.remote\nclass Counter:\n    def add(self):\n        return 'new'\nanother = Counter.remote()",
        "print('counts', ray.get(counter.add.remote()), ray.get(another.add.remote()))",
        "@ray.remote\ndef slow(seconds):\n    return 'at once'",
        "print('slow', ray.get(slow.remote(600)))",
    ]
    names = {"ray": ray, "time": time, "__name__": "__main__"}
    async def kernel():
        for cell in cells:
            try:
                exec(compile(cell, "<cell>", "exec"), names)
            except KeyboardInterrupt:
                print("interrupted")
    # Whoever interrupts a kernel does not end its loop.
    loop = asyncio.new_event_loop()
    loop.run_until_complete(kernel())
    """
    driver = drivers.start(code)
    driver.hear_until("blocked")
    time.sleep(0.3)
    driver.kill(signal.SIGINT)
    code, out, err = driver.end()
    assert code == 0, out + err
    assert re.findall(r"interrupted|count.*|slow.*", out) == ["interrupted", "count 2", "counts 3 new", "slow at once"]


# The first signal ended the program by way of its exit handlers; the second one broke those off, with "Exception ignored ... SystemExit".
@pytest.mark.parametrize("delay_ms", [0, 1, 3, 10, 30, 100])
def test_a_second_sigterm_neither_breaks_off_nor_garbles_the_end(drivers, leaks, delay_ms):
    driver = drivers.start(
        """
        ray.init(num_cpus=1)
        @ray.remote
        def sleep():
            time.sleep(600)
        ref = sleep.remote()
        print("ready")
        ray.get(ref)
        """
    )
    driver.hear_until("ready")
    everyone = [process.pid for process in leaks.descendants(driver.pid)]
    driver.kill(signal.SIGTERM)
    time.sleep(delay_ms / 1000)
    driver.kill(signal.SIGTERM)
    code, _, err = driver.end()
    # Behind the end of the session the signal's own meaning holds again.
    assert code in (signal.SIGTERM, -signal.SIGTERM)
    assert err == ""
    leaks.check(everyone)
    assert not list(drivers.folder.glob("session_*"))


# Of Ctrl-C while the interpreter waits for threads Python itself tells.
@pytest.mark.parametrize(("name", "place"), [("SIGTERM", "leave"), ("SIGTERM", "thread"), ("SIGINT", "leave")])
def test_a_signal_in_the_middle_of_the_end_changes_nothing(drivers, name, place):
    out, err = drivers.run(
        f"""
        import threading
        from eagleray import _native
        def signalled():
            os.kill(os.getpid(), signal.{name})
            time.sleep(0.01)
        def until_main_sleeps():
            # Python itself misses a signal that comes between its last look and the sleep.
            time.sleep(0.1)
            while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "S":
                time.sleep(0.1)
        if {place!r} == "leave":
            leave = _native.leave
            _native.leave = lambda: (signalled(), leave(), print("left"))
        else:
            # The interpreter waits for it at its end, until it is told otherwise.
            def after_main():
                threading.main_thread().join()
                until_main_sleeps()
                signalled()
                time.sleep(600)
            threading.Thread(target=after_main).start()
            sys.modules["atexit"].register(print, "left")
        ray.init(num_cpus=1)
        """
    )
    assert out == "left\n"
    assert err == ""
