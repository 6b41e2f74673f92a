"""What a task finds in its worker: threads, title, priority, GPUs, modules, paths."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import eagleray as ray


def title():
    return Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode()


def title_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def comm_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""  # it is over


@pytest.fixture
def plain_environ(monkeypatch):
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def here(plain_environ, no_session):
    """Starts sessions in this process, whose environment says nothing about threads or GPUs."""
    return ray.init


class TestThreads:
    def test_T11a_threads_are_the_whole_part_of_num_cpus(self, here):
        here(num_cpus=4)
        task = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
        wanted = {0: "1", 0.5: "1", 1: "1", 1.9: "1", 2: "2", 3.5: "3", 4: "4"}
        assert {n: ray.get(task.options(num_cpus=n).remote()) for n in wanted} == wanted
        assert ray.get(task.remote()) == "1"

    def test_T11a_an_actor_gets_its_share_too(self, here):
        here(num_cpus=4)

        @ray.remote
        class Actor:
            def __init__(self):
                self.at_start = os.environ["OMP_NUM_THREADS"]

            def threads(self):
                return self.at_start, os.environ["OMP_NUM_THREADS"]

        assert ray.get(Actor.remote().threads.remote()) == ("1", "1")
        assert ray.get(Actor.options(num_cpus=3).remote().threads.remote()) == ("3", "3")

    def test_T11b_it_is_set_anew_for_each_task_on_the_same_worker(self, here):
        here(num_cpus=2, _prestart=1)

        @ray.remote
        def meddle():
            seen = os.environ["OMP_NUM_THREADS"]
            os.environ["OMP_NUM_THREADS"] = "77"
            return os.getpid(), seen

        seen = {}
        for _ in range(20):
            for cpus in (1, 2):
                pid, threads = ray.get(meddle.options(num_cpus=cpus).remote())
                assert threads == str(cpus)
                seen.setdefault(pid, set()).add(threads)
            if {"1", "2"} in seen.values():
                break
        assert {"1", "2"} in seen.values(), "one worker served both"

    @pytest.mark.one_node("hands one lease over a thousand times")
    def test_T11b_the_first_call_of_a_lease_finds_what_the_lease_gives(self, here):
        # What a lease gives comes through the node, its first call straight from the driver: the call came first at times.
        here(num_cpus=4)
        task = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
        one, four = task.options(num_cpus=1), task.options(num_cpus=4)
        assert [ray.get([one.remote(), four.remote()]) for _ in range(500)] == [["1", "4"]] * 500

    @pytest.mark.one_node("sets something in the environment of a node that the program hosts")
    def test_T11c_a_value_from_the_environment_is_kept(self, plain_environ, no_session):
        plain_environ.setenv("OMP_NUM_THREADS", "7")
        ray.init(num_cpus=2)
        task = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
        assert ray.get([task.remote(), task.options(num_cpus=2).remote()]) == ["7", "7"]

    def test_T11c_a_value_from_the_runtime_env_is_kept(self, here):
        here(num_cpus=2, runtime_env={"env_vars": {"OMP_NUM_THREADS": "5", "OTHER_NAME": "x=y"}})
        task = ray.remote(lambda: (os.environ["OMP_NUM_THREADS"], os.environ["OTHER_NAME"]))
        assert ray.get([task.remote(), task.options(num_cpus=2).remote()]) == [("5", "x=y")] * 2
        assert "OTHER_NAME" not in os.environ, "the driver's own environment is its own"

    def test_T11c_the_runtime_env_of_a_job_configuration_counts_too(self, here):
        from eagleray.job_config import JobConfig
        from eagleray.runtime_env import RuntimeEnv

        config = JobConfig(runtime_env=RuntimeEnv(env_vars={"OMP_NUM_THREADS": "6", "A": "config"}))
        here(num_cpus=2, job_config=config, runtime_env={"env_vars": {"A": "init"}})
        task = ray.remote(lambda: (os.environ["OMP_NUM_THREADS"], os.environ["A"]))
        assert ray.get(task.remote()) == ("6", "init")

    def test_T11c_the_next_job_on_the_same_node_does_not_see_it(self, drivers):
        assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
        code = """
            env = {"env_vars": {"OMP_NUM_THREADS": "9"}} if sys.argv[1] == "with" else None
            ray.init(address="auto", runtime_env=env)
            task = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
            print(ray.get(task.remote()))
        """
        outs = [drivers.run(code, which)[0].strip() for which in ("with", "without", "with")]
        assert outs == ["9", "1", "9"]


class TestTitle:
    pytestmark = pytest.mark.usefixtures("ray_session")

    def test_T11d_a_task_shows_its_name(self):
        @ray.remote
        def shows():
            comm = Path("/proc/self/comm").read_text().strip()
            return Path("/proc/self/cmdline").read_bytes(), comm

        assert ray.get(shows.remote()) == (b"ray::shows\0", "er::shows")
        assert ray.get(shows.options(name="another name").remote()) == (b"ray::another name\0", "er::another nam")
        assert ray.get(shows.remote())[0] == b"ray::shows\0"

    def test_T11d_an_actor_shows_its_class_and_method(self, wait_until):
        @ray.remote(num_cpus=0)
        class Shows:
            def __init__(self):
                self.at_start = title()

            def method(self):
                return self.at_start, title(), os.getpid()

            @ray.method(name="renamed")
            def other(self):
                return title()

        actor = Shows.remote()
        at_start, running, pid = ray.get(actor.method.remote())
        assert at_start == "ray::Shows.__init__"
        assert running == "ray::Shows.method"
        assert ray.get(actor.method.options(name="call").remote())[1] == "ray::call"
        assert ray.get(actor.other.remote()) == "ray::renamed"
        wait_until(lambda: title_of(pid) == "ray::Shows", what="the title of an idle actor")

    def test_T11d_an_idle_worker_says_so(self, wait_until):
        @ray.remote
        def shows():
            return os.getpid()

        pid = ray.get(shows.remote())
        wait_until(lambda: title_of(pid) == "ray::IDLE", what="the title of an idle worker")

    def test_T11d_no_process_has_a_short_name_that_ray_stop_looks_for(self, leaks):
        # `ray stop` of a real Ray on the same machine killed our workers: it ends whatever has one of these in its short name.
        @ray.remote(num_cpus=0)
        class Actor:
            def ready(self):
                return os.getpid()

        actor = Actor.remote()
        busy = ray.get(actor.ready.remote())
        names = {process.pid: comm_of(process.pid) for process in leaks.descendants(os.getpid())}
        assert names[busy].startswith("er::Actor")
        assert not [name for name in names.values() if any(word in name for word in ("ray::", "raylet", "gcs_server"))]

    def test_T11d_awkward_names_do_no_harm(self):
        shows = ray.remote(title)
        assert ray.get(shows.options(name="ü" * 5000).remote()).startswith("ray::üüü")
        assert ray.get(shows.options(name="a\0b").remote()) == "ray::a"
        assert ray.get(shows.options(name="next").remote()) == "ray::next"


def test_T11f_workers_are_nicer_than_their_driver(ray_session):
    @ray.remote
    def niceness():
        return os.getpriority(os.PRIO_PROCESS, 0)

    @ray.remote(num_cpus=0)
    class Actor:
        def niceness(self):
            return os.getpriority(os.PRIO_PROCESS, 0)

    wanted = min(os.getpriority(os.PRIO_PROCESS, 0) + 15, 19)
    assert ray.get([niceness.remote(), Actor.remote().niceness.remote()]) == [wanted, wanted]


def cuda():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "unset")


class TestDevices:
    def test_T11g_devices_are_set_for_tasks_with_gpus(self, here):
        here(num_cpus=2, num_gpus=3)
        seen = ray.remote(cuda)
        assert ray.get(seen.options(num_gpus=1).remote()) in ("0", "1", "2")
        assert sorted(ray.get(seen.options(num_gpus=3).remote()).split(",")) == ["0", "1", "2"]
        assert ray.get(seen.options(num_gpus=0.5).remote()) in ("0", "1", "2")

    def test_T11g_devices_are_set_for_actors_with_gpus(self, here):
        here(num_cpus=2, num_gpus=2)

        @ray.remote(num_gpus=2)
        class Actor:
            def __init__(self):
                self.at_start = os.environ["CUDA_VISIBLE_DEVICES"]

            def devices(self):
                return self.at_start, os.environ["CUDA_VISIBLE_DEVICES"], ray.get_gpu_ids()

        at_start, now, ids = ray.get(Actor.remote().devices.remote())
        assert sorted(at_start.split(",")) == ["0", "1"]
        assert now == at_start == ",".join(map(str, ids))

    def test_T11h_devices_are_left_alone_for_tasks_without_gpus(self, here):
        here(num_cpus=2, num_gpus=1)
        seen = ray.remote(cuda)
        assert ray.get([seen.remote(), seen.options(num_gpus=0).remote()]) == ["unset", "unset"]

    def test_T11h_a_worker_that_had_a_gpu_does_not_show_it_to_the_next_task(self, here):
        here(num_cpus=1, num_gpus=1, _prestart=1)
        seen = ray.remote(lambda: (os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES", "unset")))
        with_gpu = ray.remote(num_gpus=1, max_calls=0)(seen._function)
        pids = set()
        for _ in range(20):
            pid, devices = ray.get(with_gpu.remote())
            assert devices == "0"
            other, devices = ray.get(seen.remote())
            assert devices == "unset"
            pids.add(pid == other)
            if True in pids:
                break
        assert True in pids, "one worker served both"

    @pytest.mark.one_node("presets devices in the environment of a node that the program hosts")
    def test_T11h_what_the_environment_says_is_left_alone(self, plain_environ, no_session):
        plain_environ.setenv("CUDA_VISIBLE_DEVICES", "4,5")
        ray.init(num_cpus=2)
        assert ray.get(ray.remote(cuda).remote()) == "4,5"
        assert ray.get(ray.remote(num_gpus=1)(cuda).remote()) in ("4", "5")

    def test_T11h_devices_are_blank_where_that_is_asked_for(self, plain_environ, no_session):
        plain_environ.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
        ray.init(num_cpus=2, num_gpus=1)
        seen = ray.remote(cuda)
        assert ray.get([seen.remote(), seen.options(num_gpus=1).remote()]) == ["", "0"]


def test_T11i_a_worker_starts_without_heavy_modules(drivers):
    out, _ = drivers.run(
        """
        import numpy  # the driver's own imports are its own

        ray.init(num_cpus=1)

        @ray.remote
        def loaded():
            return sorted({name.partition(".")[0] for name in sys.modules} & {"numpy", "pydantic", "grpc", "pandas"})

        @ray.remote(num_cpus=0)
        class Actor:
            def loaded(self):
                return sorted({name.partition(".")[0] for name in sys.modules} & {"numpy", "pydantic", "grpc", "pandas"})

        print(ray.get(loaded.remote()), ray.get(Actor.remote().loaded.remote()))
        """
    )
    assert out.strip() == "[] []"


@pytest.fixture
def package(tmp_path):
    """A folder with a script and a module beside it; the module has a namesake in the folder above."""
    folder = tmp_path / "project" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "beside_script.py").write_text("WHERE = 'beside'")
    (folder / "main.py").write_text(
        textwrap.dedent(
            """
            import sys
            import eagleray as ray

            ray.init(num_cpus=1)

            @ray.remote
            def where():
                try:
                    import beside_script
                except ImportError:
                    return "cannot be imported"
                return beside_script.WHERE

            @ray.remote
            def paths():
                return sys.path

            print(ray.get(where.remote()), sys.argv[1] in ray.get(paths.remote()))
            """
        )
    )
    return folder


def run(arguments, cwd, folder):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "EAGLERAY_TMPDIR": str(folder)},
        text=True,
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_T11j_a_worker_imports_from_the_scripts_folder(package, drivers):
    assert run([package / "main.py", package], "/", drivers.folder) == "beside True"


def test_T11j_under_dash_m_the_packages_folder_is_not_on_the_path(package, drivers):
    out = run(["-m", "package.main", package], package.parent, drivers.folder)
    assert out == "cannot be imported False"


def test_T11j_under_dash_m_the_current_folder_is_on_the_path(package, drivers):
    out = run(["-m", "package.main", package.parent], package.parent, drivers.folder)
    assert out == "cannot be imported True"


def test_T11j_a_daemons_workers_import_from_each_drivers_own_folder(package, drivers, tmp_path):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "beside_script.py").write_text("WHERE = 'other'")
    script = (package / "main.py").read_text().replace("num_cpus=1", "address='auto'")
    for folder in (package, other):
        (folder / "joins.py").write_text(script)
    for folder, wanted in [(package, "beside True"), (other, "other True"), (package, "beside True")]:
        assert run([folder / "joins.py", folder], "/", drivers.folder) == wanted


def test_T11j_two_drivers_at_once_do_not_share_a_workers_modules(package, drivers, tmp_path):
    # A worker that had served one driver went back to the pool with that driver's modules loaded.
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "beside_script.py").write_text("WHERE = 'other'")
    code = """
        sys.path.insert(0, sys.argv[1])
        ray.init(address="auto")

        @ray.remote
        def where():
            import beside_script
            return beside_script.WHERE

        while True:
            print("where", ray.get(where.remote()), flush=True)
            input()
    """
    here = drivers.start(code, package)
    there = drivers.start(code, other)
    for _ in range(3):
        assert here.hear_until("where") == "beside"
        assert there.hear_until("where") == "other"
        here.say("again")
        there.say("again")
