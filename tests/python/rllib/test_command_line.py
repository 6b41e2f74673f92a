"""`eagleray rllib train` and `evaluate`."""

import json
import os
import re
import shutil

import pytest

import eagleray as ray
from eagleray._cli import main
from eagleray.rllib._engine import ENGINE_VARIABLE
from eagleray.rllib.algorithms import PPOConfig


@pytest.fixture(scope="module", autouse=True)
def engine_everywhere():
    ray.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, "tests.python.rllib.fake_engine:FakeEngine")
        ray.init(num_cpus=2)
        yield
        ray.shutdown()


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main.main(["rllib", *arguments])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


CONFIG = json.dumps({"num_workers": 0, "train_batch_size": 200, "lr": 0.01, "gamma": 0.0})


def test_a_policy_is_trained_saved_and_tried(capsys, tmp_path):
    arguments = ["--env", "CartPole-v1", "--config", CONFIG, "--stop", '{"training_iteration": 2}']
    code, out, err = run(
        capsys, "train", "--algo", "PPO", *arguments, "--local-dir", str(tmp_path), "--checkpoint-at-end"
    )
    assert code == 0, err
    folder = next(line.split(": ", 1)[1] for line in out.splitlines() if line.startswith("Checkpoint: "))
    code, out, err = run(capsys, "evaluate", folder, "--run", "PPO", "--episodes", "3", "--json")
    assert code == 0, err
    assert json.loads(out)["num_episodes"] >= 3
    code, out, err = run(capsys, "evaluate", folder, "--steps", "400", "--json")
    assert code == 0, err
    played = json.loads(out)
    assert 0 < played["num_episodes"] * played["episode_len_mean"] <= 400
    code, out, err = run(capsys, "evaluate", folder, "--run", "DQN")
    assert (code, "is of PPO, not of DQN" in err) == (1, True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a checkpoint. Episodes have ten steps."""
    algorithm = PPOConfig().environment("Signs-v0").env_runners(num_env_runners=0).build_algo()
    folder = algorithm.save_to_path(str(tmp_path_factory.mktemp("trained")))
    algorithm.stop()
    return folder


def test_steps_in_which_no_episode_ends_are_no_error(capsys, trained):
    # It once died with KeyError 'episode_return_mean'.
    assert run(capsys, "evaluate", trained, "--steps", "7")[:2] == (0, "no episode ended in 7 steps\n")
    code, out, _ = run(capsys, "evaluate", trained, "--steps", "7", "--json")
    said = json.loads(out)
    assert (code, said["num_episodes"], said["episode_return_mean"]) == (0, 0, None)


def test_a_checkpoint_inside_of_a_folder_is_found_without_reading_a_whole_disk(capsys, trained, tmp_path, monkeypatch):
    # `evaluate /tmp` once went through all of /tmp to suggest something.
    trial = tmp_path / "results" / "experiment" / "trial"
    for name in ("checkpoint_000001", "checkpoint_000002"):
        shutil.copytree(trained, trial / name)
    assert f"(but {trial / 'checkpoint_000002'} is one)" in run(capsys, "evaluate", str(tmp_path / "results"))[2]

    for count in range(2100):
        (tmp_path / "wide" / str(count)).mkdir(parents=True)
    (tmp_path / "deep" / "/".join("x" * 60)).mkdir(parents=True)
    opened = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path=".": (opened.append(path), scandir(path))[1])
    for name, most in (("wide", 2000), ("deep", 5)):
        opened.clear()
        code, _, err = run(capsys, "evaluate", str(tmp_path / name))
        assert (code, "is no checkpoint" in err, "is one" in err) == (1, True, False)
        assert 0 < len(opened) <= most


@pytest.mark.parametrize("how", [["-f"], ["file"], ["--checkpoint-at-end", "file"]])
def test_experiments_stand_in_a_file(capsys, tmp_path, how):
    file = tmp_path / "signs.json"
    spec = {"run": "PPO", "env": "Signs-v0", "stop": {"training_iteration": 1}, "config": json.loads(CONFIG)}
    file.write_text(json.dumps({"signs": spec | {"local_dir": str(tmp_path)}}))
    code, _, err = run(capsys, "train", *how, str(file))
    assert code == 0, err
    assert (tmp_path / "signs").is_dir()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["train", "--env", "X"], "say which algorithm"),
        (["train", "--run", "PPP", "--env", "X"], "Did you mean 'PPO'"),
        (["train", "-f", "/nowhere.json"], "/nowhere.json: No such file"),
        (["evaluate", "/nowhere"], "no checkpoint"),
        (["train", "--run", "PPO", "--config", "{"], "is no JSON"),
        (["train", "fiel", "x.json"], "what to do with fiel x.json?"),
        (["train", "--envv", "X"], "usage: eagleray rllib train"),
        (["evaluate", "/nowhere", "--stesp", "3"], "usage: eagleray rllib evaluate"),
        (["evaluate", "/nowhere", "--steps", "3", "--episodes", "3"], "not allowed with"),
    ],
)
def test_mistakes_are_told_in_a_line(capsys, arguments, text):
    code, _, err = run(capsys, *arguments)
    assert code != 0
    assert text in err


SPEC = {"run": "PPO", "env": "Signs-v0", "stop": {"training_iteration": 1}}


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ({"good": SPEC, "bad": {"run": "PPO", "stopp": {}}}, "experiment 'bad': there is no setting 'stopp'. Did you mean 'stop'?"),
        ({"bad": {"env": "Signs-v0"}}, "experiment 'bad': it does not say what to `run`"),
        ({"bad": 7}, "experiment 'bad': it must be settings by name, not 7"),
        ({"bad": SPEC | {"num_samples": 0}}, "experiment 'bad': `num_samples` must be a whole number > 0"),
        ({}, "holds no experiment"),
    ],
    ids=["typo", "no run", "no settings", "no trials", "empty"],
)  # fmt: skip
def test_mistakes_in_a_file_are_told_in_a_line_before_anything_runs(capsys, tmp_path, held, text):
    # They ended in tracebacks that named neither file nor experiment, or in nothing at all.
    file = tmp_path / "signs.json"
    file.write_text(json.dumps(held))
    code, out, err = run(capsys, "train", "file", str(file))
    assert (code, out) == (1, "")
    assert err.startswith(f"eagleray: {file}"), err
    assert text in err
    assert err.count("\n") == 1


def test_a_wrong_setting_is_told_with_its_file_and_experiment(capsys, tmp_path):
    file = tmp_path / "signs.json"
    file.write_text(json.dumps({"bad": SPEC | {"config": {"lrr": 1}, "local_dir": str(tmp_path)}}))
    code, _, err = run(capsys, "train", "file", str(file))
    assert (code, err) == (
        1,
        f"eagleray: {file}: experiment 'bad': unknown setting 'lrr' of PPOConfig. Did you mean 'lr'?\n",
    )


def test_trials_that_failed_are_named(capsys, tmp_path):
    # What was printed was a tuple with a list in it.
    arguments = ["--run", "PPO", "--env", "NoSuch-v0", "--config", CONFIG, "--local-dir", str(tmp_path)]
    code, out, err = run(capsys, "train", *arguments)
    assert code == 1
    assert "there is no environment 'NoSuch-v0'" in out
    assert re.fullmatch(r"eagleray: Trials did not complete: PPO_\w+\n", err)


def test_a_file_may_say_itself_that_the_end_is_saved(capsys, tmp_path):
    file = tmp_path / "signs.json"
    spec = SPEC | {"config": json.loads(CONFIG), "local_dir": str(tmp_path), "checkpoint_at_end": True}
    file.write_text(json.dumps({"signs": spec}))
    code, out, err = run(capsys, "train", "file", str(file))
    assert code == 0, err
    assert "Checkpoint: " in out


@pytest.mark.parametrize("count", ["0", "-3", "x"])
def test_no_trials_are_no_training(capsys, count):
    code, out, err = run(capsys, "train", "--run", "PPO", "--env", "Signs-v0", "--num-samples", count)
    assert (code, out) == (2, "")
    assert f"argument --num-samples: '{count}' is no whole number > 0" in err


@pytest.mark.parametrize(
    ("name", "text"),
    [("NoSuch-v0", "there is no environment 'NoSuch-v0'"), ("CartPol-v1", "did you mean 'CartPole-v1'?")],
)
def test_an_environment_that_there_is_not_is_told_in_a_line(capsys, trained, name, text):
    code, _, err = run(capsys, "evaluate", trained, "--env", name)
    assert code == 1
    assert err.startswith("eagleray: there is no environment")
    assert text in err
    assert "Traceback" not in err
