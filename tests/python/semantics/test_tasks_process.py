"""What importing the package and starting a session do to the driver's own process."""

import signal
import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=40, check=True).stdout


def test_T12a_importing_does_not_import_grpc():
    out = run(
        """
import sys
import eagleray
import eagleray.exceptions, eagleray.actor, eagleray.util
print([name for name in sys.modules if name.partition(".")[0] in ("grpc", "numpy", "pydantic")])
"""
    )
    assert out.strip() == "[]"


def test_T12b_importing_leaves_sigterm_alone():
    out = run(
        """
import signal
before = signal.getsignal(signal.SIGTERM)
import eagleray
print(signal.getsignal(signal.SIGTERM) is before, before is signal.SIG_DFL)
handler = lambda *_: None
signal.signal(signal.SIGTERM, handler)
import eagleray.actor, eagleray.remote_function
print(signal.getsignal(signal.SIGTERM) is handler)
"""
    )
    assert out.split() == ["True", "True", "True"]


def test_T12c_after_init_a_sigterm_ends_the_driver_with_its_number(drivers, leaks):
    driver = drivers.start(
        """
        import atexit
        ray.init(num_cpus=1)

        @ray.remote
        def never():
            time.sleep(1000)

        atexit.register(lambda: print("exit handlers ran", flush=True))
        ref = never.remote()
        print("waiting", flush=True)
        ray.get(ref)
        """
    )
    driver.hear_until("waiting")
    left = [process.pid for process in leaks.descendants(driver.pid)]
    assert left
    driver.kill(signal.SIGTERM)
    code, out, err = driver.end()
    assert code == signal.SIGTERM, err
    assert "exit handlers ran" in out
    leaks.check(left)


def test_T12c_a_program_that_does_not_wait_ends_the_same_way(drivers, leaks):
    driver = drivers.start(
        """
        ray.init(num_cpus=1)
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
        """
    )
    driver.hear_until("ready")
    left = [process.pid for process in leaks.descendants(driver.pid)]
    driver.kill(signal.SIGTERM)
    assert driver.end()[0] == signal.SIGTERM
    leaks.check(left)


def test_T12d_a_sigterm_ends_a_worker_that_has_nothing_to_do(drivers, tmp_path):
    # It waited in native code, where what the handler raised was lost: the signal had no effect at all.
    drivers.run(
        """
        import atexit, select, signal
        ray.init(num_cpus=1)
        mark = sys.argv[1]

        @ray.remote
        def register(path):
            atexit.register(lambda: open(path, "w").close())
            return os.getpid()

        pid = ray.get(register.remote(mark))
        worker = os.pidfd_open(pid)
        os.kill(pid, signal.SIGTERM)
        assert select.select([worker], [], [], 30)[0], "it did not end"
        assert os.path.exists(mark)
        assert ray.get(register.remote(mark)) != pid
        """,
        tmp_path / "mark",
    )


def test_a_programs_own_sigterm_handler_comes_back_after_shutdown():
    out = run(
        """
import signal
import eagleray as ray
ray.init(num_cpus=1)
during = signal.getsignal(signal.SIGTERM)
ray.shutdown()
print(during is not signal.SIG_DFL, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
handler = lambda *_: None
signal.signal(signal.SIGTERM, handler)
ray.init(num_cpus=1)
print(signal.getsignal(signal.SIGTERM) is handler)
ray.shutdown()
print(signal.getsignal(signal.SIGTERM) is handler)
"""
    )
    assert out.split() == ["True"] * 4


def test_modules_of_the_users_choice_are_imported_once_for_all_workers(drivers):
    code = """
    @ray.remote
    def imported():
        return "fractions" in sys.modules, os.environ.get("OPENBLAS_NUM_THREADS")
    ray.init(num_cpus=1)
    print("imported", ray.get(imported.remote()))
    """
    assert "imported (False, None)" in drivers.run(code)[0]
    out, _ = drivers.run(code, env={"EAGLERAY_PRELOAD": "fractions, no_such_module"})
    assert "imported (True, None)" in out
