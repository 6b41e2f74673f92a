"""`eagleray rllib train` and `evaluate`."""

import json
import os
import shutil

import pytest

import eagleray as ray
from eagleray import _cli
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
        _cli.main(["rllib", *arguments])
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
