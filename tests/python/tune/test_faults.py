"""Experiments whose driver or trials are killed, whose disk is full, whose trials misbehave."""

import json
import math
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from tests.python.tune.trials import iterations, rows_of

import eagleray as ray
from eagleray import tune
from eagleray._native import tune as native
from eagleray.tune._repair import repair
from eagleray.tune.error import JournalError, JournalLocked, TuneError
from eagleray.tune.schedulers import ASHAScheduler
from eagleray.tune.search import TPESearch

#: Points at which a driver, a trial or a node is killed.
KILLS = int(os.environ.get("EAGLERAY_TUNE_KILLS", "8"))

#: A program with a seeded experiment: each trial is a function of its configuration and of how far it is.
PROGRAM = """
from pathlib import Path
from eagleray import tune
from eagleray.tune.schedulers import ASHAScheduler
from eagleray.tune.search import TPESearch

def curve(config):
    checkpoint = tune.get_checkpoint()
    start = 0 if checkpoint is None else int((Path(checkpoint.path) / "n").read_text())
    for step in range(start, 6):
        if config["saves"]:
            Path("made").mkdir(exist_ok=True)
            Path("made/n").write_text(str(step + 1))
            tune.report({"loss": config["x"] ** 2 + 1 / (step + 1)}, checkpoint=tune.Checkpoint.from_directory("made"))
        else:
            tune.report({"loss": config["x"] ** 2 + 1 / (step + 1)})

class Curve(tune.Trainable):
    def setup(self, config):
        self.n = 0
    def step(self):
        self.n += 1
        return {"loss": self.config["x"] ** 2 + 1 / self.n, "done": self.n == 6}
    def save_checkpoint(self, folder):
        Path(folder, "n").write_text(str(self.n))
    def load_checkpoint(self, folder):
        self.n = int(Path(folder, "n").read_text())

def main(folder, kind):
    ray.init(num_cpus=2)
    where = Path(folder) / "exp"
    trainable = Curve if kind == "class" else curve
    if tune.Tuner.can_restore(str(where)):
        tuner = tune.Tuner.restore(str(where), trainable)
    else:
        # One at a time: what a searcher hears does not depend on who is faster.
        limit = None if kind == "class" else 1
        config = tune.TuneConfig(metric="loss", mode="min", num_samples=8, max_concurrent_trials=limit)
        space = {"x": tune.uniform(-2, 2), "saves": kind == "saves"}
        if kind == "class":
            config.search_alg = tune.search.BasicVariantGenerator(random_state=3)
        else:
            config.search_alg = TPESearch(seed=3, n_startup_trials=3)
            config.scheduler = ASHAScheduler(max_t=6, grace_period=2, reduction_factor=2)
        kept = tune.CheckpointConfig(num_to_keep=1, checkpoint_frequency=2 if kind == "class" else 0)
        run = tune.RunConfig(
            name="exp", storage_path=folder, verbose=0, checkpoint_config=kept,
            failure_config=tune.FailureConfig(max_failures=-1),
        )
        tuner = tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run)
    print("begins", flush=True)
    grid = tuner.fit()
    assert not grid.errors, grid.errors
    print("done", flush=True)

main(sys.argv[1], sys.argv[2])
"""


def story(folder):
    """Each trial's configuration and all that it reported, in order; and what a reader of results sees of it."""
    told = []
    # Sorted by name: all have the experiment's id, then their number.
    for path in sorted((Path(folder) / "exp").glob("*/")):
        rows = [json.loads(line) for line in (path / "result.json").read_text().splitlines()]
        told.append((rows[0]["config"]["x"], [(row["training_iteration"], row["loss"]) for row in rows]))
        csv = (path / "progress.csv").read_text().splitlines()
        assert len(csv) == len(rows) + 1
    return told


def journal_story(folder):
    """The same, from the journal."""
    told = {}
    for event in native.read_journal(Path(folder) / "exp" / "journal.eagleray"):
        if event[0] == "result":
            told.setdefault(event[1], []).append((event[2]["training_iteration"], event[2]["loss"]))
    return [told[number] for number in sorted(told)]


def killed_again_and_again(drivers, tmp_path, kind, begin, codes):
    """Runs the program and kills what `begin` says at random points, again and again; in the end it has to be as if nothing had been."""
    whole = tmp_path / "whole"
    drivers.run(PROGRAM, whole, kind)
    wanted = story(whole)
    assert len(wanted) == 8
    size = (whole / "exp" / "journal.eagleray").stat().st_size
    chance = random.Random(kind)
    kills = max(-(-KILLS // 3), 2)
    folder, at = tmp_path / "0", 0
    while kills:
        # The point is a length of the journal: how fast this machine is does not matter.
        journal = folder / "exp" / "journal.eagleray"
        begun = journal.stat().st_size if journal.exists() else 0
        point = begun + chance.randrange(1, max(size // 2, 2))
        driver, kill = begin(folder)
        while driver.process.poll() is None and (not journal.exists() or journal.stat().st_size < point):
            time.sleep(0.001)
        kills -= driver.process.poll() is None
        kill()
        code, _, err = driver.end()
        assert code in codes, err
        if code == 0:
            assert story(folder) == wanted
            at += 1
            folder = tmp_path / str(at)
    drivers.run(PROGRAM, folder, kind)
    assert story(folder) == wanted
    assert journal_story(folder) == [rows for _, rows in wanted]


@pytest.mark.parametrize("kind", ["saves", "plain", "class"])
@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_counts_nothing_twice(drivers, tmp_path, kind):
    def begin(folder):
        driver = drivers.start(PROGRAM, folder, kind)
        return driver, driver.process.kill

    killed_again_and_again(drivers, tmp_path, kind, begin, (0, -signal.SIGKILL))


@pytest.mark.timeout(1800)
def test_a_node_that_is_killed_again_and_again_loses_nothing_and_counts_nothing_twice(drivers, tmp_path):
    program = PROGRAM.replace("ray.init(num_cpus=2)", 'ray.init(address="auto")')

    def begin(folder):
        pid = start_daemon(drivers)
        return drivers.start(program, folder, "saves"), lambda: os.kill(pid, signal.SIGKILL)

    killed_again_and_again(drivers, tmp_path, "saves", begin, (0, 1))


def start_daemon(drivers):
    done = drivers.command("start", "--head", "--num-cpus", "2")
    assert done.returncode == 0, done.stderr
    return int(re.search(r"pid (\d+)", done.stdout).group(1))


def mortal(config):
    """Is killed so many times at any point of its life, each time by another process of its own making: no code of its own notices."""
    life = Path(config["folder"]) / tune.get_context().get_trial_id()
    lives = life.stat().st_size if life.exists() else 0
    is_last = lives >= config["kills"]
    if not is_last:
        with life.open("a") as file:
            file.write("x")
        delay = random.Random(f"{life.name[-5:]} {lives}").uniform(0, 0.06)
        subprocess.Popen(["sh", "-c", f"sleep {delay}; kill -9 {os.getpid()}"])
    checkpoint = tune.get_checkpoint() if config["saves"] else None
    start = 0 if checkpoint is None else int((Path(checkpoint.path) / "n").read_text())
    for step in range(start, 8):
        Path("made").mkdir(exist_ok=True)
        Path("made/n").write_text(str(step + 1))
        kept = tune.Checkpoint.from_directory("made") if config["saves"] else None
        tune.report({"value": config["x"] * (step + 1)}, checkpoint=kept)
        time.sleep(0.005)
    while not is_last:
        time.sleep(0.01)


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.timeout(1800)
def test_trials_whose_processes_are_killed_go_on_and_report_once(ray_session, tmp_path, saves):
    lives = tmp_path / "lives"
    lives.mkdir()
    run = config_of(tmp_path, failure_config=tune.FailureConfig(max_failures=-1))
    space = {"x": tune.grid_search([1, 2, 3]), "folder": str(lives), "saves": saves, "kills": max(KILLS // 6, 1)}
    grid = tune.Tuner(mortal, param_space=space, run_config=run).fit()
    assert sum(file.stat().st_size for file in lives.iterdir()) == 3 * max(KILLS // 6, 1)
    assert not grid.errors
    for result in grid:
        assert iterations(result) == list(range(1, 9))
        assert [row["value"] for row in rows_of(result)] == [result.config["x"] * step for step in range(1, 9)]


def config_of(tmp_path, **more):
    return tune.RunConfig(**{"name": "exp", "storage_path": str(tmp_path), "verbose": 0, **more})


def test_a_second_program_on_an_experiment_is_told_who_works_on_it(shared_ray, drivers, tmp_path):
    first = drivers.start(
        """
        from eagleray import tune
        def waits(config):
            tune.report({"x": 1})
            print("runs", flush=True)
            while not os.path.exists(config["end"]):
                time.sleep(0.01)
        ray.init(num_cpus=1)
        run = tune.RunConfig(name="exp", storage_path=sys.argv[1], verbose=0)
        tune.Tuner(waits, param_space={"end": sys.argv[1] + "/end"}, run_config=run).fit()
        """,
        tmp_path,
    )

    def waits(config):
        return 1

    journal = tmp_path / "exp" / "journal.eagleray"
    while not journal.exists() or len(native.read_journal(journal)) < 2:
        assert first.process.poll() is None
        time.sleep(0.01)
    tuner = tune.Tuner.restore(str(tmp_path / "exp"), waits)
    assert len(tuner.get_results()) == 1
    with pytest.raises(JournalLocked, match=f"pid {first.pid}"):
        tuner.fit()
    (tmp_path / "end").touch()
    code, _, err = first.end()
    assert code == 0, err
    # The other one has gone on since the tuner was made: it sees that.
    [result] = tuner.fit()
    assert result.metrics["done"] is True
    assert iterations(result) == [1]


def test_a_full_disk_is_told_and_the_experiment_goes_on_when_there_is_room(drivers, shared_ray, tmp_path):
    code = """
        from eagleray import tune
        from eagleray.tune.error import TuneError
        import resource
        def many(config):
            for step in range(40):
                tune.report({"x": step})
        ray.init(num_cpus=1)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        run = tune.RunConfig(name="exp", storage_path=sys.argv[1], verbose=0)
        try:
            tune.Tuner(many, run_config=run).fit()
        except TuneError as error:
            print("told", type(error).__name__, error, flush=True)
    """
    out, _ = drivers.run(code, tmp_path)
    assert "told JournalError" in out
    assert "journal.eagleray" in out

    def many(config):
        for step in range(40):
            tune.report({"x": step})

    [result] = tune.Tuner.restore(str(tmp_path / "exp"), many).fit()
    assert [row["x"] for row in rows_of(result)] == list(range(40))


@pytest.mark.parametrize("cut", [1, 9, 150, 700])
def test_a_torn_end_of_the_journal_is_cut_off_and_told_again(shared_ray, tmp_path, cut):
    def three(config):
        for step in range(3):
            tune.report({"x": step})

    space = {"y": tune.grid_search([1, 2, 3])}
    tune.Tuner(three, param_space=space, run_config=config_of(tmp_path)).fit()
    journal = tmp_path / "exp" / "journal.eagleray"
    os.truncate(journal, journal.stat().st_size - cut)
    grid = tune.Tuner.restore(str(tmp_path / "exp"), three).fit()
    assert [result.config["y"] for result in grid] == [1, 2, 3]
    assert [iterations(result) for result in grid] == [[1, 2, 3]] * 3


def test_damage_in_the_middle_of_the_journal_is_told(shared_ray, tmp_path):
    tune.Tuner(lambda config: 1, tune_config=tune.TuneConfig(num_samples=4), run_config=config_of(tmp_path)).fit()
    journal = tmp_path / "exp" / "journal.eagleray"
    text = bytearray(journal.read_bytes())
    text[len(text) // 2] ^= 0xFF
    journal.write_bytes(text)
    with pytest.raises(JournalError, match="damaged at byte"):
        tune.Tuner.restore(str(tmp_path / "exp"), lambda config: 1)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.95])
def test_a_damaged_experiment_goes_on_once_it_is_repaired(shared_ray, tmp_path, share):
    def saves(config):
        start = 0
        if tune.get_checkpoint() is not None:
            start = int(Path(tune.get_checkpoint().path, "at").read_text())
        for step in range(start, 4):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "at").write_text(str(step + 1))
                tune.report({"x": config["y"] * step}, checkpoint=tune.Checkpoint.from_directory(folder))

    def run(where):
        search = TPESearch(seed=3, n_startup_trials=3)
        config = tune.TuneConfig(metric="x", mode="min", num_samples=8, search_alg=search, max_concurrent_trials=1)
        space = {"y": tune.uniform(0, 1)}
        return tune.Tuner(saves, param_space=space, tune_config=config, run_config=config_of(where)).fit()

    whole = run(tmp_path / "whole")
    run(tmp_path / "hurt")
    folder = tmp_path / "hurt" / "exp"
    journal = folder / "journal.eagleray"
    text = bytearray(journal.read_bytes())
    text[int(len(text) * share)] ^= 0xFF
    journal.write_bytes(text)
    done = repair(folder)
    assert done.kept > 0
    assert done.dropped > 0
    # What was reported behind the damage is run again, with the configurations that it had.
    grid = tune.Tuner.restore(str(folder), saves).fit()
    assert not grid.errors
    assert [result.config for result in grid] == [result.config for result in whole]
    assert [iterations(result) for result in grid] == [[1, 2, 3, 4]] * 8
    assert len(tune.ExperimentAnalysis(str(folder)).trials) == 8
    moved = list(done.aside.iterdir()) if done.moved else []
    assert len(moved) == done.moved


def test_resources_that_are_never_there_are_refused_at_once(shared_ray, tmp_path):
    for at, resources in enumerate(({"cpu": 3}, {"gpu": 1}, {"cpu": 1, "custom": 1})):
        trainable = tune.with_resources(lambda config: 1, resources)
        with pytest.raises(TuneError, match="a trial needs"):
            tune.Tuner(trainable, run_config=config_of(tmp_path, name=f"e{at}")).fit()


@pytest.mark.parametrize("worst", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_end_nothing(shared_ray, tmp_path, worst):
    def noisy(config):
        for step in range(4):
            tune.report({"loss": worst if config["x"] < 0 else config["x"] + step})

    config = tune.TuneConfig(
        metric="loss",
        mode="min",
        search_alg=TPESearch(seed=1, n_startup_trials=4),
        scheduler=ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
        num_samples=12,
    )
    space = {"x": tune.uniform(-1, 1)}
    grid = tune.Tuner(noisy, param_space=space, tune_config=config, run_config=config_of(tmp_path)).fit()
    assert len(grid) == 12
    assert grid.num_errors == 0
    assert grid.get_best_result().config["x"] >= 0
    again = tune.Tuner.restore(str(tmp_path / "exp"), noisy).get_results()
    assert [len(rows_of(result)) for result in again] == [len(rows_of(result)) for result in grid]


def test_a_metric_that_is_never_reported_ends_nothing_if_nothing_is_reported(shared_ray, tmp_path):
    config = tune.TuneConfig(metric="loss", mode="min", num_samples=3, search_alg=TPESearch(seed=1))
    space = {"x": tune.uniform(0, 1)}
    grid = tune.Tuner(lambda config: None, param_space=space, tune_config=config, run_config=config_of(tmp_path)).fit()
    assert grid.num_terminated == 3
    with pytest.raises(RuntimeError, match="No best trial found"):
        grid.get_best_result()


def stubborn(config):
    step = 0
    while True:
        step += 1
        try:
            tune.report({"x": step})
        except BaseException:
            time.sleep(0.01)


def test_a_trial_that_ignores_its_end_holds_nobody_up(ray_session, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_FORCE_TRIAL_CLEANUP_S", "0.5")
    # More trials than there is room for: those that do not end must make room.
    config = tune.TuneConfig(num_samples=5)
    grid = tune.Tuner(stubborn, tune_config=config, run_config=config_of(tmp_path, stop={"x": 3})).fit()
    assert [result.metrics["x"] for result in grid] == [3] * 5


@pytest.mark.parametrize("how", ["exit", "signal", "raises what cannot be sent"])
def test_a_trial_that_ends_badly_is_an_error_of_its_own(shared_ray, tmp_path, how):
    class Unsendable(Exception):
        def __init__(self, one, two):
            super().__init__("unsendable")
            self.lock = threading.Lock()

    def bad(config):
        tune.report({"x": 1})
        if config["is_bad"]:
            if config["how"] == "exit":
                os._exit(3)
            if config["how"] == "signal":
                os.kill(os.getpid(), signal.SIGSEGV)
            raise Unsendable(1, 2)

    space = {"is_bad": tune.grid_search([False, True, False]), "how": how}
    grid = tune.Tuner(bad, param_space=space, run_config=config_of(tmp_path)).fit()
    assert [result.error is None for result in grid] == [True, False, True]
    assert (Path(grid[1].path) / "error.txt").exists()
    assert [iterations(result) for result in grid] == [[1]] * 3


def test_the_first_interrupt_stops_an_experiment_that_goes_on_later(shared_ray, drivers, tmp_path):
    driver = drivers.start(
        """
        from eagleray import tune
        def waits(config):
            for step in range(3):
                tune.report({"x": step})
            while not os.path.exists(config["end"]):
                time.sleep(0.01)
        ray.init(num_cpus=1)
        run = tune.RunConfig(name="exp", storage_path=sys.argv[1], verbose=0)
        grid = tune.Tuner(waits, param_space={"end": sys.argv[1] + "/end"}, run_config=run).fit()
        print("stopped", len(grid), flush=True)
        """,
        tmp_path,
    )
    journal = tmp_path / "exp" / "journal.eagleray"
    while not journal.exists() or sum(event[0] == "result" for event in native.read_journal(journal)) < 3:
        assert driver.process.poll() is None
        time.sleep(0.01)
    driver.kill(signal.SIGINT)
    code, out, err = driver.end()
    assert (code, out.split()) == (0, ["stopped", "1"]), err
    assert "Tuner.restore" in err
    (tmp_path / "end").touch()

    def waits(config):
        for step in range(3):
            tune.report({"x": step})

    [result] = tune.Tuner.restore(str(tmp_path / "exp"), waits).fit()
    assert result.metrics["done"] is True
    assert iterations(result) == [1, 2, 3]


def test_a_node_that_is_killed_ends_the_experiment_with_a_clear_word_and_it_goes_on_on_another(drivers, tmp_path):
    """The daemon's process dies in the middle: whoever started the experiment hears of it, and loses nothing."""
    program = PROGRAM.replace("ray.init(num_cpus=2)", 'ray.init(address="auto")')
    drivers.run(PROGRAM, tmp_path / "whole", "saves")
    wanted = story(tmp_path / "whole")
    folder = tmp_path / "cut"
    pid = start_daemon(drivers)
    journal = folder / "exp" / "journal.eagleray"
    driver = drivers.start(program, folder, "saves")
    while driver.process.poll() is None and (not journal.exists() or journal.stat().st_size < 8_000):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    code, _, err = driver.end()
    assert code not in (0, None), "the experiment was not over"
    assert "TuneError: the node that the experiment ran on is gone" in err, err
    assert "Tuner.restore(" in err
    start_daemon(drivers)
    drivers.run(program, folder, "saves")
    assert story(folder) == wanted
    assert drivers.command("stop").returncode == 0


def test_trials_end_although_somebody_else_holds_a_core(ray_session, tmp_path):
    """Two trials began at once, and only one of them had a core. Its process kept that core for a next trial that never came."""
    holder = ray.remote(num_cpus=1)(Held).remote()
    ray.get(holder.__ray_ready__.remote())
    config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    results = tune.Tuner(lambda config: {"x": 1}, tune_config=tune.TuneConfig(num_samples=3), run_config=config).fit()
    assert [result.metrics["x"] for result in results] == [1, 1, 1]


class Held:
    """An actor that does nothing but be there."""
