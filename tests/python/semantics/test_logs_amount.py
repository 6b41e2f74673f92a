"""However much workers print, and however slowly it is taken, it reaches the driver's terminal (L4h to L4j)."""

import re
import signal

import pytest

SPEAKS = """
@ray.remote
class Speaker:
    def count(self, number, width=0):
        for line in range(number):
            print("line", line, "x" * width)
        return os.getpid()
    def say(self, folder, *words):
        for word in words:
            sys.stdout.write(word)
            while not os.path.exists(folder + "/go on"):
                time.sleep(0.01)
            os.unlink(folder + "/go on")
"""


@pytest.fixture
def daemon(drivers):
    done = drivers.command("start", "--head", "--num-cpus", "2")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("daemon")
def test_L4h_nothing_is_lost_while_the_driver_does_not_run(drivers, wait_until):
    # What came while it had not read two hundred messages was dropped without a word.
    code = f"""{SPEAKS}
ray.init(address="auto")
speaker = Speaker.remote()
ray.get(speaker.__ray_ready__.remote())
ref = speaker.count.remote(100_000)
sys.stdout.write("submitted\\n")
ray.get(ref)
"""
    driver = drivers.start(code, env={"RAY_DEDUP_LOGS": 0})
    driver.hear_until("submitted")
    driver.kill(signal.SIGSTOP)
    (logs,) = drivers.folder.glob("session_*/logs")
    try:
        wait_until(lambda: any("line 99999 " in path.read_text() for path in logs.glob("worker-*.out")))
    finally:
        driver.kill(signal.SIGCONT)
    _, out, _ = driver.end()
    numbers = [int(number) for number in re.findall(r"\) line (\d+) *$", out, re.MULTILINE)]
    assert len(numbers) > 90_000, "it was stopped too late to prove anything"
    assert numbers == list(range(100_000))[-len(numbers) :]


def test_L4i_long_lines_come_whole(drivers):
    # Whatever was left at the end of the program was cut wherever the reader's buffer ended.
    code = f"""{SPEAKS}
ray.init(num_cpus=1)
ray.get(Speaker.remote().count.remote(3_000, 10_000))
"""
    out, _ = drivers.run(code, env={"RAY_DEDUP_LOGS": 0})
    lines = re.findall(r"^\(Speaker pid=\d+, ip=[\d.]+\) line (\d+) x{10000}$", out, re.MULTILINE)
    assert [int(line) for line in lines] == list(range(3_000))
    assert len(out.splitlines()) == 3_000


def test_L4j_what_has_no_end_of_line_appears_while_its_call_runs(drivers, wait_until, tmp_path):
    code = f"""{SPEAKS}
ray.init(num_cpus=1)
ray.get(Speaker.remote().say.remote(sys.argv[1], "loading ...", " done\\n", "\\r10%", "\\r20%", "\\n", "last\\n"))
"""
    driver = drivers.start(code, tmp_path)
    for wanted in (r"loading \.\.\.", " done", "10%", "20%"):
        assert re.fullmatch(rf"pid=\d+, ip=[\d.]+\) {wanted}", driver.hear_until("(Speaker "))
        (tmp_path / "go on").touch()
    # The end of a line that was shown is no line of its own.
    wait_until(lambda: not (tmp_path / "go on").exists())
    (tmp_path / "go on").touch()
    assert driver.hear_until("(Speaker ").endswith(" last")
    (tmp_path / "go on").touch()
    assert driver.end()[0] == 0


def test_L4j_native_code_that_holds_the_interpreter_does_not_hold_output_up(drivers, tmp_path):
    code = """
    ray.init(num_cpus=1)
    @ray.remote
    def work(path):
        import ctypes
        print("working", end="")
        libc = ctypes.PyDLL(None)
        while not os.path.exists(path):
            libc.usleep(500_000)
    ray.get(work.remote(sys.argv[1]))
    """
    driver = drivers.start(code, tmp_path / "enough")
    assert driver.hear_until("(work ").endswith("working")
    (tmp_path / "enough").touch()
    assert driver.end()[0] == 0
