"""`eagleray tune ls|show|plot|repair`: what folders tell, whoever wrote them."""

import json
import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eagleray._cli import main
from eagleray._native import tune as native
from eagleray.tune.error import JournalDamaged


def _experiment(folder, *, trials=6, close=True):
    """A journal and the folders of its trials, as the engine leaves them."""
    folder.mkdir()
    journal = native.Journal(folder / "journal.eagleray")
    journal.append("experiment", {"name": "exp", "trainable": "train", "metric": "loss", "mode": "min"})
    for number in range(trials):
        trial_id, place = f"ab12_{number:05d}", f"train_ab12_{number:05d}"
        lr = 10.0 ** -(1 + number % 4)
        config = {"lr": lr, "net": "small" if number % 2 else "large", "fixed": 1}
        params = {"lr": lr, "net": config["net"]}
        fields = {"number": number, "id": trial_id, "tag": "", "params": params, "config": config, "folder": place}
        journal.append("trial", fields)
        journal.append("status", {"number": number, "status": "RUNNING"})
        (folder / place / "checkpoint_000000").mkdir(parents=True)
        for iteration in range(1, 4):
            loss = number / iteration if number != 4 else math.nan
            result = {
                "loss": loss,
                "info": {"acc": iteration / 10},
                "training_iteration": iteration,
                "time_total_s": 1.5,
            }
            journal.append_result(number, json.dumps({**result, "config": config}).encode())
    journal.append("status", {"number": 1, "status": "TERMINATED"})
    journal.append("failure", {"number": 2, "error": "ValueError: bad lr"})
    journal.append("status", {"number": 2, "status": "ERROR", "error": "ValueError: bad lr"})
    (folder / "train_ab12_00002" / "error.txt").write_text("Traceback ...\nValueError: bad lr\n")
    journal.flush()
    if close:
        journal.close()
    return journal


@pytest.fixture
def exp(tmp_path):
    _experiment(tmp_path / "exp")
    return tmp_path / "exp"


@pytest.fixture
def tune(capsys):
    def run(*arguments, status=0):
        with pytest.raises(SystemExit) as ended:
            main.main(["tune", *map(str, arguments)])
        said = capsys.readouterr()
        assert ended.value.code == status, said
        return said.out if status == 0 else said.err

    return run


def test_ls_lists_trials_with_parameters_and_metrics(exp, tune):
    text = tune("ls", exp)
    title = text.splitlines()[0].split()
    assert title == ["number", "trial", "status", "lr", "net", "loss", "info/acc", "iterations", "time"]
    assert "train_ab12_00003" in text
    assert text.splitlines()[-1] == "6 trials: 1 ERROR, 4 RUNNING, 1 TERMINATED"


def _listed(text):
    return [line.split()[0] for line in text.splitlines()[2:-1]]


def test_ls_sorts_filters_limits_and_chooses_columns(exp, tune):
    by_loss = ["number", "loss"]
    columns = ",".join(by_loss)
    assert _listed(tune("ls", exp, "--sort", "loss", "--columns", columns)) == ["0", "1", "2", "3", "5", "4"]
    # Nothing sorts before a value, whichever way round.
    assert _listed(tune("ls", exp, "--sort=-loss", "--columns", columns)) == ["5", "3", "2", "1", "0", "4"]
    assert _listed(tune("ls", exp, "--filter", "loss<0.7")) == ["0", "1", "2"]
    assert _listed(tune("ls", exp, "--filter", "loss<=1", "--filter", "net=small")) == ["1", "3"]
    assert _listed(tune("ls", exp, "--filter", "status != RUNNING")) == ["1", "2"]
    assert _listed(tune("ls", exp, "--filter", "config/lr>=0.1")) == ["0", "4"]
    assert tune("ls", exp, "--filter", "loss<0.7").endswith("1 TERMINATED; 3 pass the filter\n")
    limited = tune("ls", exp, "--limit", 2)
    assert _listed(limited) == ["0", "1"]
    assert "4 not shown" in limited
    assert tune("ls", exp, "--columns", "trial,nothing").splitlines()[0].split() == ["trial", "nothing"]
    assert "no trial has 'nothing'" in tune("ls", exp, "--sort", "nothing", status=1)
    assert "is not a test" in tune("ls", exp, "--filter", "loss", status=1)


def test_ls_as_json(exp, tune):
    told = json.loads(tune("ls", exp, "--json", "--filter", "number=1"))
    assert [one["id"] for one in told] == ["ab12_00001"]
    assert told[0]["params"] == {"lr": 0.01, "net": "small"}
    assert told[0]["last_result"]["training_iteration"] == 3
    assert told[0]["checkpoints"] == ["checkpoint_000000"]


def test_show_sums_up(exp, tune):
    text = tune("show", exp)
    assert "Optimises   loss (min)" in text
    assert "Best        train_ab12_00000: loss = 0" in text
    assert "Failed      train_ab12_00002: ValueError: bad lr" in text
    assert "interrupted: 4 trials are unfinished" in text
    assert "Results     18" in text
    other = json.loads(tune("show", exp, "--json", "--metric", "info/acc", "--mode", "max"))
    assert other["statuses"] == {"RUNNING": 4, "TERMINATED": 1, "ERROR": 1}


def test_show_knows_who_runs_it(tmp_path, tune):
    journal = _experiment(tmp_path / "exp", close=False)
    assert f"runs (pid {os.getpid()})" in tune("show", tmp_path / "exp")
    journal.close()


def test_show_one_trial_by_number_id_or_beginning(exp, tune):
    for name in ("2", "ab12_00002", "train_ab12_00002"):
        text = tune("show", exp, name)
        assert "* lr = 0.001" in text
        assert "  fixed = 1" in text
        assert "loss = 0.666667" in text
        assert "info/acc = 0.3" in text
        assert "Checkpoints checkpoint_000000" in text
        assert "    ValueError: bad lr" in text
    assert "6 trials begin with 'train'" in tune("show", exp, "train", status=1)
    assert "no trial 'x'" in tune("show", exp, "x", status=1)


def test_damage_is_told_and_the_rest_shown(exp, tune):
    path = exp / "journal.eagleray"
    data = bytearray(path.read_bytes())
    data[data.index(b"ab12_00003")] = ord("x")
    path.write_bytes(data)
    text = tune("ls", exp)
    assert _listed("\n".join(text.splitlines()[:-1])) == ["0", "1", "2"]
    assert "the journal is damaged at byte" in text
    assert f"`eagleray tune repair {exp}`" in text


def test_a_journal_is_repaired_once_and_kept_as_it_was(exp, tune):
    path = exp / "journal.eagleray"
    assert tune("repair", exp) == "The journal is not damaged: nothing was done.\n"
    data = bytearray(path.read_bytes())
    data[data.index(b"ab12_00003")] = ord("x")
    path.write_bytes(data)
    offset = native.read_journal(path, until_damage=True).damaged_at
    behind = len(native.read_journal(path, until_damage=True))
    with pytest.raises(JournalDamaged, match=f"at byte {offset}: {behind} whole .*`eagleray tune repair {exp}`"):
        native.read_journal(path)
    text = tune("repair", exp)
    assert f"Cut the journal at byte {offset}: {behind} events are left." in text
    assert int(re.search(r"(\d+) whole events behind the damage", text)[1]) > 0
    copy = exp / "journal.eagleray.damaged-1"
    assert str(copy) in text
    assert copy.read_bytes() == data
    assert path.read_bytes()[16:offset] == data[16:offset]
    assert "damaged" not in tune("ls", exp)
    assert tune("repair", exp) == "The journal is not damaged: nothing was done.\n"
    # Folders of trials that are still known stay.
    assert all(
        (exp / name).exists()
        for name in [Path(one["folder"]).name for one in json.loads(tune("ls", exp, "--json")) if one["checkpoints"]]
    )
    with native.Journal(path):
        assert "works on this experiment" in tune("repair", exp, status=1)
    assert "holds no experiment" in tune("repair", exp.parent, status=1)


def test_trials_that_began_again_or_took_anothers_place(exp, tune):
    with native.Journal(exp / "journal.eagleray") as journal:
        journal.append("forget", {"number": 0})
        journal.append("exploit", {"number": 1, "donor": 3, "config": {"lr": 0.5, "net": "small", "fixed": 1}})
        journal.append("status", {"number": 2, "status": "RUNNING"})
        journal.append("something new", {"number": 1})
        journal.append("something new", {})
    told = json.loads(tune("ls", exp, "--json"))
    assert told[0]["last_result"] == {}
    assert told[0]["iterations"] == 0
    assert told[1]["params"] == {"lr": 0.5, "net": "small"}
    # It was tried again: the error is none any more.
    assert told[2]["error"] is None
    assert "failed 1 time" in tune("show", exp, "2")


def test_folders_that_ray_wrote(tmp_path, tune):
    for number in range(3):
        place = tmp_path / f"train_{number}_lr={number}"
        place.mkdir()
        (place / "params.json").write_text(json.dumps({"lr": number, "deep": {"same": 1}}))
        lines = [{"loss": number + 1 / step, "training_iteration": step, "trial_id": f"t{number}"} for step in (1, 2)]
        lines[-1]["done"] = number != 2
        text = "\n".join(json.dumps(line) for line in lines)
        (place / "result.json").write_text(text + "\n" + '{"loss": 3, "cut sho')
    (tmp_path / "train_2_lr=2" / "error.txt").write_text("Failure\nRuntimeError: no\n")
    (tmp_path / "experiment_state.json").write_text("{}")
    told = json.loads(tune("ls", tmp_path, "--json"))
    assert [(one["id"], one["status"], one["params"], one["iterations"]) for one in told] == [
        ("t0", "TERMINATED", {"lr": 0}, 2),
        ("t1", "TERMINATED", {"lr": 1}, 2),
        ("t2", "ERROR", {"lr": 2}, 2),
    ]
    assert "RuntimeError: no" in tune("show", tmp_path, "t2")


def test_bad_folders_are_told_in_a_line(tmp_path, tune):
    assert "is not a folder" in tune("ls", tmp_path / "nowhere", status=1)
    assert "holds no experiment" in tune("ls", tmp_path, status=1)


def test_of_a_folder_of_experiments_their_names_are_told_newest_first(tmp_path, tune):
    for at in range(12):
        place = tmp_path / f"exp{at:02}"
        place.mkdir()
        (place / "journal.eagleray").touch()
        os.utime(place / "journal.eagleray", (at, at))
    told = tune("ls", tmp_path, status=1)
    assert "is no experiment but holds 12, name one (newest first): exp11, exp10, exp09, " in told
    assert told.rstrip().endswith("exp02 and 2 more")
    (tmp_path / "journal.eagleray").write_text("something else")
    assert "not a journal" in tune("show", tmp_path, status=1)


@pytest.mark.parametrize("kind", ["curves", "parallel", "importance", "history"])
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot_writes_a_picture(exp, tune, tmp_path, kind, suffix):
    out = tmp_path / f"picture.{suffix}"
    assert tune("plot", exp, "--kind", kind, "--out", out) == f"{out}\n"
    start = out.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in start or b"<?xml" in start


def test_plot_says_what_it_cannot(exp, tune, tmp_path):
    assert ".png or .svg" in tune("plot", exp, "--out", tmp_path / "a.gif", status=1)
    assert "no trial has reported a finite 'nothing'" in tune(
        "plot", exp, "--metric", "nothing", "--out", tmp_path / "a.png", status=1
    )
    assert "cannot write" in tune("plot", exp, "--out", tmp_path / "no" / "a.png", status=1)


def test_without_matplotlib_the_extra_is_named(exp, tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = None\n"
        "from eagleray._cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "tune", "plot", str(exp), "--out", str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "eagleray: plots need matplotlib: pip install 'eagleray[plots]'\n"


# Importance.


def _results(function, space, count=120, seed=1):
    random.seed(seed)
    found = []
    for _ in range(count):
        config = {name: draw() for name, draw in space.items()}
        found.append(type("Result", (), {"config": config, "metrics": {"loss": function(**config)}, "path": None})())
    return found


def _uniform():
    return random.random()


def test_the_important_parameter_is_found():
    from eagleray.tune.plots import importance_of

    space = {
        "noise": _uniform,
        "lr": lambda: 10 ** random.uniform(-5, 0),
        "net": lambda: random.choice("abc"),
        "on": lambda: random.random() < 0.5,
    }
    results = _results(
        lambda noise, lr, net, on: (math.log10(lr) + 2) ** 2 + {"a": 0, "b": 1, "c": 1.5}[net] + 0.001 * noise, space
    )
    told = importance_of(results, metric="loss")
    assert list(told.shares)[:2] == ["lr", "net"]
    assert told.shares["lr"] > 0.5
    assert told.shares["noise"] < 0.05
    assert told.shares["on"] < 0.05
    assert 0.6 < told.explained <= 1
    assert sum(told.shares.values()) + told.together == pytest.approx(1)
    assert told.trials == 120


def test_what_acts_only_together_is_no_ones_share():
    from eagleray.tune.plots import importance_of

    results = _results(lambda x, y: (x - 0.5) * (y - 0.5), {"x": _uniform, "y": _uniform}, count=400)
    told = importance_of(results, metric="loss")
    assert told.together > 0.5
    assert max(told.shares.values()) < 0.3


def test_importance_of_noise_is_not_trusted():
    from eagleray.tune.plots import importance_of

    results = _results(lambda x, y: random.random(), {"x": _uniform, "y": _uniform})
    assert importance_of(results, metric="loss").explained < 0.1


def test_importance_passes_over_what_has_no_value_and_refuses_too_little():
    from eagleray.tune.plots import importance_of

    results = _results(lambda x: x if x < 0.9 else math.nan, {"x": _uniform})
    told = importance_of(results, metric="loss")
    assert told.trials < 120
    assert told.shares["x"] > 0.9
    with pytest.raises(ValueError, match="needs 4 trials"):
        importance_of(results[:3], metric="loss")
    with pytest.raises(ValueError, match="mode"):
        importance_of(results, metric="loss", mode="best")


def test_conditional_parameters_and_one_trial_can_be_drawn(tmp_path):
    from eagleray.tune import plots

    random.seed(3)
    results = _results(lambda kind, x: x, {"kind": lambda: random.choice(["a", "b"]), "x": _uniform}, count=20)
    for one in results:
        if one.config["kind"] == "b":
            one.config["only_b"] = random.random()
    for draw in (plots.parallel, plots.importance, plots.history, plots.curves):
        plots.save(draw(results, metric="loss"), tmp_path / "a.png")
    plots.save(plots.curves(results[:1], metric="loss"), tmp_path / "b.svg")
    plots.save(plots.history(results[:1], metric="loss"), tmp_path / "c.svg")
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.parallel(results[:1], metric="loss")


def test_the_same_trials_give_the_same_file(exp, tmp_path):
    from eagleray.tune import plots

    for name in ("a.svg", "b.svg"):
        plots.save(plots.parallel(exp, metric="loss"), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
