"""The daemon: a node that outlives programs, shared by several of them, and gone without a trace when it ends."""

import fcntl
import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest

ACTOR = """
@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

    def pid(self):
        return os.getpid()
"""


class Daemon:
    def __init__(self, drivers, leaks):
        self.drivers = drivers
        self.leaks = leaks

    def start(self, *options):
        done = self.drivers.command("start", "--head", "--num-cpus", "2", *options)
        assert done.returncode == 0, done.stderr
        self.said = done.stdout
        return int(re.search(r"pid (\d+)", done.stdout).group(1))

    def stop(self):
        return self.drivers.command("stop")

    def status(self, *options):
        return self.drivers.command("status", *options)

    def everyone(self, pid):
        return [pid, *(process.pid for process in self.leaks.descendants(pid))]


@pytest.fixture
def daemon(drivers, leaks):
    return Daemon(drivers, leaks)


def test_start_status_and_stop(daemon, drivers, leaks):
    pid = daemon.start("--resources", '{"licence": 3}')
    socket = drivers.daemon_socket()
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600, "nobody else may come in"
    shown = daemon.status()
    assert shown.returncode == 0, shown.stderr
    assert f"pid {pid}" in shown.stdout
    assert re.search(r"CPU +0 / 2", shown.stdout), shown.stdout
    assert re.search(r"licence +0 / 3", shown.stdout), shown.stdout
    assert "object store" in shown.stdout
    everyone = daemon.everyone(pid)
    assert len(everyone) > 1
    stopped = daemon.stop()
    assert stopped.returncode == 0
    assert stopped.stdout.startswith(f"Node stopped (pid {pid}).\n")
    leaks.check(everyone, socket)


# proves: X6a
def test_a_daemon_has_the_labels_that_it_was_given(daemon, drivers):
    daemon.start("--labels", "zone=north, gpu=none,")
    code = """
    ray.init(address="auto")
    labels = ray.nodes()[0]["Labels"]
    assert labels == {"zone": "north", "gpu": "none", "ray.io/node-id": ray.get_runtime_context().get_node_id()}, labels

    @ray.remote(label_selector={"zone": "north"})
    def run():
        return "ran"

    assert ray.get(run.remote(), timeout=30) == "ran"
    """
    drivers.run(code)
    assert daemon.stop().returncode == 0


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ("zone", "'zone' is not"),
        ("=north", "'=north' is not"),
        ("a=1,a=2", "'a' is given twice"),
        ("ray.io/a=1", "the node's own"),
        ('{"a": 1}', "must be texts"),
    ],
)
def test_labels_that_are_none_are_refused(drivers, labels, error):
    done = drivers.command("start", "--head", "--labels", labels)
    assert done.returncode == 1
    assert error in done.stderr
    assert "Traceback" not in done.stderr
    assert drivers.command("stop").stdout.startswith("No daemon of yours is running")


def test_output_of_who_ran_to_the_end_or_crashed_stays_where_stop_says(daemon, drivers):
    daemon.start()
    code = """
    ray.init(address="auto")
    @ray.remote
    class Says:
        def say(self, then=int):
            print("to be read later", flush=True)
            then(3)
    for lifetime in ("detached", None):
        says = Says.options(lifetime=lifetime, name=f"{lifetime}").remote()
        ray.get(says.say.remote())
    try:
        ray.get(says.say.remote(os._exit))
    except ray.exceptions.ActorDiedError:
        pass
    """
    drivers.run(code)
    logs, daemon_log = re.search(r"output is in (\S+), its own in (\S+)\.\n", daemon.stop().stdout).groups()
    for names in ("worker-*.out", "crashed-*.out"):
        assert any("to be read later" in path.read_text() for path in Path(logs).glob(names))
    assert Path(daemon_log).exists()
    (session,) = drivers.folder.glob("session_*")
    assert [path.name for path in session.iterdir()] == ["logs"]
    assert "daemon.log" in drivers.command("stop", "--help").stdout


NOBODY = 2**22 + 1  # more than a pid can be


def is_locked(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def test_of_dead_sessions_the_newest_ten_are_kept(daemon, drivers, wait_until):
    def made(day, pid):
        folder = drivers.folder / f"session_2020-01-{day:02}_00-00-00_{pid}_000000"
        (folder / "logs").mkdir(parents=True)
        return folder

    spill = drivers.folder / "disk"
    dead = [made(day, NOBODY) for day in range(5, 18)]
    alive, elsewhere, in_a_bucket = made(1, os.getpid()), made(2, NOBODY), made(3, NOBODY)
    (in_a_bucket / "folders").write_text("s3://bucket/eagleray-x")
    left = spill / f"eagleray-{dead[0].name}"
    left.mkdir(parents=True)
    (dead[0] / "folders").write_text(f"{left}\n{drivers.folder / 'precious'}\n")
    (drivers.folder / "precious").mkdir()
    (drivers.folder / "session_mine").mkdir()
    held = os.open(elsewhere, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    daemon.start()
    (own,) = set(drivers.folder.glob("session_202[1-9]*"))
    kept = {alive, elsewhere, in_a_bucket, *dead[3:], drivers.folder / "session_mine", own}
    assert set(drivers.folder.glob("session_*")) == kept
    assert not left.exists()
    assert (drivers.folder / "precious").exists()
    wait_until(lambda: is_locked(own))
    daemon.stop()
    os.close(held)
    daemon.start()
    # Two more are dead by now: the one before, and the one that was held.
    (new,) = set(drivers.folder.glob("session_202[1-9]*")) - {own}
    kept = {alive, in_a_bucket, *dead[4:], drivers.folder / "session_mine", own, new}
    assert set(drivers.folder.glob("session_*")) == kept


def test_status_says_who_waits_for_what(daemon, drivers, wait_until):
    daemon.start()
    driver = drivers.start(
        ACTOR
        + """
ray.init(address="auto")

@ray.remote(num_cpus=64)
def never():
    pass

@ray.remote
def inner():
    time.sleep(600)

@ray.remote
def outer():
    return ray.get(inner.remote())

counter = Counter.options(name="shown").remote()
ray.get(counter.add.remote())
refs = [never.remote(), outer.remote()]
try:
    ray.get(refs, timeout=0.1)
except ray.exceptions.GetTimeoutError as error:
    print("told", error, flush=True)
print("ready", flush=True)
ray.get(refs)
"""
    )
    assert "`eagleray status -v` shows what runs and what waits" in driver.hear_until("told")
    driver.hear_until("ready")
    wait_until(lambda: "outer" in daemon.status().stdout, what="the task in the list of processes")
    plain = daemon.status().stdout
    assert "Actors (1):" in plain
    assert re.search(r"Counter +shown +ALIVE", plain), plain
    assert "driver" in plain
    assert "1 x task {CPU: 64}" in plain, "what can never be had is for all to see"
    assert "Waiting for resources" not in plain
    detailed = daemon.status("-v").stdout
    assert "Waiting for resources" in detailed
    assert "CPU: 64" in detailed
    assert " MB  " not in plain
    wait_until(lambda: "waits for" in daemon.status("-v").stdout, what="who waits for which value")
    assert '"processes"' in daemon.status("--json").stdout


def test_status_shows_the_memory_of_each_process_that_is_its_own(daemon, drivers, wait_until):
    daemon.start()
    driver = drivers.start(
        """
        ray.init(address="auto")

        @ray.remote
        class Hoarder:
            def grow(self, megabytes):
                self.kept = bytearray(os.urandom(1 << 20) * megabytes)
                return os.getpid()

        hoarder = Hoarder.remote()
        for megabytes in (1, 200):
            print("pid", ray.get(hoarder.grow.remote(megabytes)), flush=True)
            sys.stdin.readline()
        """
    )

    def megabytes():
        (shown,) = re.findall(rf"^ +{pid} +([\d.]+) MB  Hoarder", daemon.status("-v").stdout, re.MULTILINE)
        return float(shown)

    pid = driver.hear_until("pid")
    small = megabytes()
    driver.say("")
    assert driver.hear_until("pid") == pid
    assert 0 < small < 200 < megabytes() - small + 10 < 300
    shown = json.loads(daemon.status("--json").stdout)
    assert shown["own_bytes"][pid] > 200 << 20
    assert set(shown["own_bytes"]) == {str(pid) for pid, _, _ in shown["processes"]}


def test_a_second_start_at_the_same_port_is_refused(daemon, leaks):
    pid = daemon.start()
    port = re.search(r"at 127\.0\.0\.1:(\d+)", daemon.said).group(1)
    again = daemon.drivers.command("start", "--head", "--port", port)
    assert again.returncode == 1
    assert re.search(rf"port {port} at 127\.0\.0\.1 is taken.*--port.*a head of yours", again.stderr)
    assert leaks.is_alive(pid)


def test_start_without_head_and_with_bad_resources(daemon):
    plain = daemon.drivers.command("start")
    assert (plain.returncode, "--head" in plain.stderr) == (1, True)
    bad = daemon.drivers.command("start", "--head", "--num-cpus", "-1")
    assert bad.returncode == 1
    assert "cannot be negative" in bad.stderr
    assert "Traceback" not in bad.stderr


def test_stop_and_status_with_nothing_running(daemon):
    stopped = daemon.stop()
    assert (stopped.returncode, stopped.stdout) == (0, "No daemon of yours is running.\n")
    shown = daemon.status()
    assert shown.returncode == 1
    assert shown.stderr == "eagleray: no node of yours is running; start one with `eagleray start --head`\n"


def test_auto_with_nothing_running(drivers):
    _, err = drivers.run('ray.init(address="auto")', code_wanted=1)
    assert "ConnectionError: Could not find any running" in err


def test_two_drivers_at_once(daemon, drivers, leaks):
    pid = daemon.start()
    program = """
ray.init(address="auto")
WHO = sys.argv[1]

@ray.remote
def same_name(number):
    return WHO, number

first = ray.get([same_name.remote(number) for number in range(20)], timeout=30)
print("ready", os.getpid(), ray.get_runtime_context().get_node_id(), flush=True)
sys.stdin.readline()
assert ray.get([same_name.remote(number) for number in range(20)], timeout=30) == first
assert first == [(WHO, number) for number in range(20)]
"""
    one, two = drivers.start(program, "one"), drivers.start(program, "two")
    nodes = {driver.hear_until("ready").split()[1] for driver in (one, two)}
    assert len(nodes) == 1
    shown = daemon.status().stdout
    assert shown.count("  driver\n") == 2, shown
    one.say("go")
    code, _, err = one.end()
    assert code == 0, err
    two.say("go")
    code, _, err = two.end()
    assert code == 0, err
    assert leaks.is_alive(pid)


def test_resources_of_a_daemon_are_not_a_drivers_to_set(daemon, drivers):
    daemon.start()
    _, err = drivers.run('ray.init(address="auto", num_cpus=4)', code_wanted=1)
    assert "num_cpus and num_gpus must not be provided" in err


def test_init_without_an_address_joins_and_local_does_not(daemon, drivers):
    daemon.start("--resources", '{"mark": 1}')
    out, _ = drivers.run("""
        ray.init()
        print("mark" in ray.cluster_resources())
        ray.shutdown()
        ray.init(address="local", num_cpus=1)
        print("mark" in ray.cluster_resources())
        """)
    assert out.split() == ["True", "False"]


def test_a_detached_actor_outlives_its_driver(daemon, drivers):
    daemon.start()
    out, _ = drivers.run(
        ACTOR
        + """
ray.init(address="auto", namespace="shared")
counter = Counter.options(name="kept", lifetime="detached").remote()
short = Counter.options(name="short").remote()
print(ray.get([counter.add.remote(), short.add.remote()], timeout=30))
"""
    )
    assert out.split("\n")[0] == "[1, 1]"
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        counter = ray.get_actor("kept")
        print(ray.get(counter.add.remote(), timeout=30))
        try:
            ray.get_actor("short")
        except ValueError as error:
            print("gone")
        ray.kill(counter)
        """)
    assert out.split() == ["2", "gone"]


def test_what_a_detached_actor_starts_later_still_knows_where_it_came_from(daemon, drivers, tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 42\n")
    daemon.start()
    program = """
sys.path.insert(0, sys.argv[1])
ray.init(address="auto", namespace="shared")

@ray.remote
def look():
    import beside
    return beside.VALUE, ray.get_runtime_context().namespace

@ray.remote(max_restarts=1, max_task_retries=1)
class Asks:
    def ask(self):
        import beside
        return ray.get(look.remote(), timeout=20), beside.VALUE

    def pid(self):
        return os.getpid()

actor = Asks.options(name="asks", lifetime="detached").remote()
print("pid", ray.get(actor.pid.remote(), timeout=30))
"""
    out, _ = drivers.run(program, tmp_path)
    os.kill(int(out.split()[1]), signal.SIGKILL)
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        print(ray.get(ray.get_actor("asks").ask.remote(), timeout=30))
        """)
    assert out.strip() == "((42, 'shared'), 42)"


def test_a_killed_drivers_tasks_and_actors_are_gone(daemon, drivers, leaks, wait_until):
    pid = daemon.start()
    driver = drivers.start(
        ACTOR
        + """
ray.init(address="auto", namespace="shared")

@ray.remote
def busy(path):
    open(path, "w").write(str(os.getpid()))
    time.sleep(600)

plain = Counter.options(name="plain").remote()
kept = Counter.options(name="kept", lifetime="detached").remote()
refs = [busy.remote(sys.argv[1] + str(number)) for number in range(4)]
print("pids", *ray.get([plain.pid.remote(), kept.pid.remote()], timeout=30), flush=True)
time.sleep(600)
""",
        drivers.folder / "busy-",
    )
    plain, kept = map(int, driver.hear_until("pids").split())
    files = wait_until(lambda: [path for path in drivers.folder.glob("busy-*") if path.read_text()], what="a task")
    busy = [int(path.read_text()) for path in files]
    driver.kill()
    leaks.check([plain, *busy])
    assert leaks.is_alive(pid)
    assert leaks.is_alive(kept)
    wait_until(lambda: re.search(r"CPU +0 / 2", daemon.status().stdout), what="all CPUs free again")
    out, _ = drivers.run("""
        ray.init(address="auto", namespace="shared")
        print(ray.get(ray.get_actor("kept").add.remote(), timeout=30))
        try:
            ray.get_actor("plain")
        except ValueError:
            print("gone")
        """)
    assert out.split() == ["1", "gone"]


# The whole time that an actor may take to end was given to one whose caller had left: half a minute on cores that others waited for.
def test_a_departed_drivers_busy_actor_is_not_waited_for(daemon, drivers, leaks, monkeypatch):
    monkeypatch.setenv("EAGLERAY_actor_graceful_shutdown_timeout_ms", "600000")
    daemon.start()
    out, _ = drivers.run("""
        ray.init(address="auto")

        @ray.remote(num_cpus=1)
        class Busy:
            def pid(self):
                return os.getpid()

            def work(self):
                end = time.monotonic() + 600
                while time.monotonic() < end:
                    pass

        busy = Busy.remote()
        pid = ray.get(busy.pid.remote(), timeout=30)
        busy.work.remote()
        print(pid)
        """)
    leaks.check([int(out)])


def test_a_killed_daemon_leaves_no_process_and_the_next_one_starts(daemon, drivers, leaks, wait_until):
    pid = daemon.start()
    driver = drivers.start(
        ACTOR
        + """
ray.init(address="auto")
counter = Counter.options(name="kept", lifetime="detached").remote()
ray.get(counter.add.remote())
print("ready", flush=True)
try:
    while True:
        ray.get(counter.add.remote(), timeout=20)
except Exception as error:
    print("told", type(error).__name__, flush=True)
"""
    )
    driver.hear_until("ready")
    everyone = daemon.everyone(pid)
    assert len(everyone) >= 3
    os.kill(pid, signal.SIGKILL)
    leaks.check(everyone, seconds=5)
    assert driver.hear_until("told") == "LocalRayletDiedError"
    assert driver.end()[0] == 0
    assert drivers.daemon_socket().exists(), "nobody was left to remove it"
    assert daemon.status().returncode == 1
    assert daemon.stop().returncode == 0
    again = daemon.start()
    assert again != pid
    assert daemon.status().returncode == 0


def test_stop_ends_drivers_sessions_too(daemon, drivers, leaks):
    pid = daemon.start()
    driver = drivers.start("""
        ray.init(address="auto")

        @ray.remote
        def busy():
            time.sleep(600)

        ref = busy.remote()
        print("ready", flush=True)
        try:
            ray.get(ref)
        except Exception as error:
            print("told", type(error).__name__, flush=True)
        """)
    driver.hear_until("ready")
    everyone = daemon.everyone(pid)
    assert daemon.stop().returncode == 0
    leaks.check(everyone)
    assert driver.hear_until("told") == "LocalRayletDiedError"
    assert driver.end()[0] == 0
