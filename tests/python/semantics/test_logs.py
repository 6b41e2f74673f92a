"""What workers print appears on the driver's terminal (L4)."""

import os
import re

import pytest

PREFIX = r"\({} pid=\d+, ip=[\d.]+\) "

TASKS = """
ray.init(num_cpus=2)
@ray.remote
def speak(out=None, err=None, **how):
    if out is not None:
        print(out, **how)
    if err is not None:
        print(err, file=sys.stderr, **how)
    return os.getpid()
@ray.remote
class Speaker:
    def say(self, text):
        print(text)
        return os.getpid()
    def whisper(self, text, **how):
        print(text, **how)
@ray.remote
class Async:
    async def whisper(self, text, **how):
        print(text, **how)
"""


def test_L4a_output_has_the_prefix_of_its_task(drivers):
    out, _ = drivers.run(f"{TASKS}\nprint('pid', ray.get(speak.remote('hello')))")
    pid = re.search(r"^pid (\d+)$", out, re.MULTILINE)[1]
    assert re.search(rf"^\(speak pid={pid}, ip=[\d.]+\) hello$", out, re.MULTILINE), out


def test_L4a_output_of_an_actor_names_its_class(drivers):
    out, _ = drivers.run(f"{TASKS}\nactor = Speaker.remote()\nray.get(actor.say.remote('hello'))")
    assert re.search("^" + PREFIX.format("Speaker") + "hello$", out, re.MULTILINE), out


def test_L4a_name_is_of_who_printed_although_another_task_runs_by_then(drivers):
    code = """
    ray.init(num_cpus=1)
    @ray.remote
    def first(number):
        print("from first", number)
    @ray.remote
    def second(number):
        print("from second", number)
    for number in range(200):
        first.remote(number)
        last = second.remote(number)
    ray.get(last)
    """
    out, _ = drivers.run(code, env={"RAY_DEDUP_LOGS": 0})
    lines = [line for line in out.splitlines() if "from" in line]
    assert len(lines) == 400
    for line in lines:
        assert re.match(PREFIX.format(r"(first|second)") + r"from \1 \d+$", line), line


def test_L4a_lines_come_whole_and_in_order(drivers):
    code = f"""{TASKS}
ray.get(speak.remote("\\n".join(f"line {{number}}" for number in range(5000))))
ray.get(speak.remote("x" * 10_000))
ray.get(speak.remote("Grüße, 世界"))
"""
    out, _ = drivers.run(code, env={"RAY_DEDUP_LOGS": 0})
    numbers = [int(number) for number in re.findall(r"\) line (\d+)$", out, re.MULTILINE)]
    assert numbers == list(range(5000))
    assert re.search(r"\) x{10000}$", out, re.MULTILINE)
    assert re.search(r"\) Grüße, 世界$", out, re.MULTILINE)


def test_L4a_much_output_at_once_comes_although_nothing_follows_it(drivers):
    # What did not fit into one look at the file was passed on only when the worker printed again, or died.
    driver = drivers.start(
        """
        ray.init(num_cpus=1)
        @ray.remote
        def speak():
            sys.stdout.write(("x" * 99 + "\\n") * 10_000 + "the end\\n")
            sys.stdout.flush()
            time.sleep(600)
        ref = speak.remote()
        ray.wait([ref])
        """,
        env={"RAY_DEDUP_LOGS": 0},
    )
    lines = 0
    while "the end" not in driver.hear_until("(speak "):
        lines += 1
    assert lines == 10_000


def test_L4b_stdout_goes_to_stdout_and_stderr_to_stderr(drivers):
    out, err = drivers.run(f"{TASKS}\nray.get(speak.remote('to out', 'to err'))")
    assert re.search("^" + PREFIX.format("speak") + "to out$", out, re.MULTILINE)
    assert re.search("^" + PREFIX.format("speak") + "to err$", err, re.MULTILINE)
    assert "to err" not in out
    assert "to out" not in err


def test_L4b_output_of_subprocesses_and_of_native_code_counts(drivers):
    code = """
    ray.init(num_cpus=1)
    @ray.remote
    def run():
        import subprocess
        subprocess.run(["echo", "from a subprocess"], check=True)
        os.write(1, b"from below\\n")
    ray.get(run.remote())
    """
    out, _ = drivers.run(code)
    assert re.search("^" + PREFIX.format("run") + "from a subprocess$", out, re.MULTILINE)
    assert re.search("^" + PREFIX.format("run") + "from below$", out, re.MULTILINE)


@pytest.mark.parametrize("what", ["task", "actor", "async"])
def test_L4c_what_was_not_flushed_is_not_lost(drivers, what):
    call = {
        "task": "speak.remote('no end', end='')",
        "actor": "Speaker.remote().whisper.remote('no end', end='')",
        "async": "Async.remote().whisper.remote('no end', end='')",
    }[what]
    out, _ = drivers.run(f"{TASKS}\nray.get({call})")
    assert re.search(r"\) no end$", out, re.MULTILINE), out


def test_L4c_last_words_at_the_end_of_the_program_are_not_lost(drivers):
    # The driver ends as soon as it has the result, a hundred lines behind the output.
    code = f"""{TASKS}
ray.get([speak.remote("\\n".join(f"{{task}}-{{number}}" for number in range(100))) for task in range(20)])
"""
    for _ in range(3):
        out, _ = drivers.run(code, env={"RAY_DEDUP_LOGS": 0})
        lines = re.findall(r"\) (\d+-\d+)$", out, re.MULTILINE)
        assert len(lines) == 2000
        assert len(set(lines)) == 2000


@pytest.mark.parametrize("end", ["os._exit(1)", "os.kill(os.getpid(), 9)", "sys.exit(1)", "ray.actor.exit_actor()"])
def test_L4c_last_words_of_a_worker_that_ends_are_not_lost(drivers, end):
    code = f"""
    ray.init(num_cpus=1)
    @ray.remote
    class Actor:
        def end(self):
            print("last words")
            {end}
    actor = Actor.remote()
    try:
        ray.get(actor.end.remote())
    except ray.exceptions.RayActorError:
        sys.stdout.write("it is dead\\n")  # in one piece, or output of others comes between the line and its end
    """
    out, _ = drivers.run(code)
    assert "it is dead" in out
    assert re.search("^" + PREFIX.format("Actor") + "last words$", out, re.MULTILINE), out


def test_L4d_repeated_lines_are_merged_with_one_hint(drivers):
    code = """
    ray.init(num_cpus=4)
    @ray.remote
    class Speaker:
        def say(self, text):
            print(text)
    speakers = [Speaker.remote() for _ in range(4)]
    for speaker in speakers:
        ray.get(speaker.say.remote("the same"))
    for speaker in speakers:
        ray.get(speaker.say.remote("another"))
    time.sleep(0.5)
    print("now")
    sys.stdout.flush()
    ray.shutdown()
    """
    out, _ = drivers.run(code)
    lines = [line for line in out.splitlines() if "the same" in line or "another" in line]
    # The first at once, the other three as one, at the end.
    assert len(lines) == 4, out
    firsts, merged = lines[:2], lines[2:]
    assert [line.rpartition(") ")[2] for line in firsts] == ["the same", "another"]
    assert all("[repeated 3x across cluster]" in line for line in merged)
    assert sum("RAY_DEDUP_LOGS" in line for line in lines) == 1
    assert "RAY_DEDUP_LOGS" in merged[0]
    assert out.index(firsts[1]) < out.index("now") < out.index(merged[0])


def test_L4d_merging_can_be_switched_off(drivers):
    code = """
    ray.init(num_cpus=4)
    @ray.remote
    class Speaker:
        def say(self, text):
            print(text)
    speakers = [Speaker.remote() for _ in range(4)]
    ray.get([speaker.say.remote("the same") for speaker in speakers])
    """
    out, _ = drivers.run(code, env={"RAY_DEDUP_LOGS": 0})
    assert len(re.findall(r"\) the same$", out, re.MULTILINE)) == 4
    assert "repeated" not in out


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_L4e_log_to_driver_false_is_silent(drivers, how):
    argument = ", log_to_driver=False" if how == "argument" else ""
    code = f"{TASKS}\nray.get(speak.remote('to out', 'to err'))\nprint('the driver itself')"
    code = code.replace("ray.init(num_cpus=2)", f"ray.init(num_cpus=2{argument})")
    env = {"RAY_LOG_TO_DRIVER": 0} if how == "environment" else None
    out, err = drivers.run(code, env=env)
    assert out == "the driver itself\n"
    assert err == ""


@pytest.fixture
def vanished(tmp_path):
    """A module that the driver can import and no worker can."""
    (tmp_path / "vanished.py").write_text(
        "def function():\n    return 1\n\nclass Plain:\n    def method(self):\n        return 1\n"
    )
    return f"""
import pathlib
sys.path.insert(0, {str(tmp_path)!r})
import vanished
pathlib.Path({str(tmp_path / "vanished.py")!r}).unlink()
import shutil
shutil.rmtree({str(tmp_path / "__pycache__")!r}, ignore_errors=True)
ray.init(num_cpus=1)
"""


def test_L4f_function_that_cannot_be_imported_says_so(drivers, vanished):
    code = f"""{vanished}
try:
    ray.get(ray.remote(vanished.function).remote())
except RuntimeError as error:
    assert isinstance(error, ray.exceptions.RayTaskError)
    print("told:", error)
"""
    out, _ = drivers.run(code)
    assert "The remote function failed to import" in out
    assert "No module named 'vanished'" in out


def test_L4g_class_that_cannot_be_imported_says_so(drivers, vanished):
    code = f"""{vanished}
actor = ray.remote(vanished.Plain).remote()
for _ in range(2):
    try:
        ray.get(actor.method.remote())
    except ray.exceptions.RayActorError as error:
        print("told:", error)
"""
    out, _ = drivers.run(code)
    assert out.count("The actor with name Plain failed to import") >= 2
    assert "No module named 'vanished'" in out


def test_driver_whose_output_nobody_reads_any_more_goes_on(drivers):
    code = f"""{TASKS}
for number in range(50):
    ray.get(speak.remote("x" * 1000))
sys.stderr.write("went on\\n")
"""
    read, write = os.pipe()
    driver = drivers.start(code, stdout=write)
    os.close(write)
    os.close(read)
    assert "went on" in driver.end()[2]
