"""Trying a policy: exactly as long as was said, all environments alike; from the command line, with pictures."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import eagleray as ray
from eagleray._cli import main, rllib
from eagleray._native import rl
from eagleray.rllib import _pictures
from eagleray.rllib._engine import engine
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig


class Lengths(gym.Env):
    """Episodes are ten times as long as the environment's number, counted from one."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, config):
        self.last = 10 * (1 + config.vector_index)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += 1
        return np.zeros(1, np.float32), 1.0, self.at >= self.last, False, {}

    def render(self):
        return np.full((20, 30, 3), self.at, np.uint8)


def config(env="CartPole-v1", **evaluation):
    made = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    made.training(train_batch_size=400, minibatch_size=200, num_epochs=1).rl_module(
        model_config={"fcnet_hiddens": [16]}
    )
    return made.evaluation(**evaluation).debugging(seed=3)


@pytest.fixture(scope="module")
def session():
    ray.shutdown()
    ray.init(num_cpus=3)
    yield
    ray.shutdown()


# `--episodes 5` with eight environments played eight.
@pytest.mark.parametrize("env", ["CartPole-v1", Lengths])
@pytest.mark.parametrize("episodes", [1, 5, 8, 20])
def test_so_many_episodes_are_played_and_no_more(env, episodes):
    algorithm = config(env, evaluation_duration=episodes).build_algo()
    for _ in range(2):
        found = algorithm.evaluate()["env_runners"]
        assert found["num_episodes"] == episodes


@pytest.mark.parametrize("episodes", [5, 1])
def test_runners_share_the_episodes_out(session, episodes):
    algorithm = config(evaluation_duration=episodes, evaluation_num_env_runners=2).build_algo()
    assert algorithm.evaluate()["env_runners"]["num_episodes"] == episodes
    algorithm.stop()


def test_long_episodes_count_as_often_as_short_ones():
    made = config(Lengths, evaluation_duration=4).env_runners(num_envs_per_env_runner=4)
    found = made.build_algo().evaluate()["env_runners"]
    assert (found["episode_len_mean"], found["episode_len_min"], found["episode_len_max"]) == (25, 10, 40)


# The lengths of episodes that the last evaluation had cut were added to those of the next, and a memory went on.
@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_cell_size": 4}], ids=["without", "with a memory"])
def test_evaluations_of_the_same_weights_are_the_same(model):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).debugging(seed=3)
    config.rl_module(model_config={"fcnet_hiddens": [8], **model})
    config.evaluation(evaluation_duration=5, evaluation_config={"explore": False, "num_envs_per_env_runner": 3})
    algorithm = config.build_algo()
    found = [algorithm.evaluate()["env_runners"]["hist_stats"] for _ in range(3)]
    assert found[0] == found[1] == found[2]
    algorithm.stop()


def test_a_duration_in_timesteps_is_one():
    made = config(Lengths, evaluation_duration=160, evaluation_duration_unit="timesteps")
    found = made.env_runners(num_envs_per_env_runner=4).build_algo().evaluate()["env_runners"]
    assert found["num_env_steps_sampled"] == 160
    assert found["num_episodes"] == 4 + 2 + 1 + 1


# What it returns.


# `evaluate()["evaluation"]`, as older programs read it, was a KeyError.
def test_programs_of_either_era_read_what_an_evaluation_found():
    seen = []
    made = config(Lengths, evaluation_duration=4, evaluation_interval=1).env_runners(num_envs_per_env_runner=4)
    made.callbacks(on_evaluate_end=lambda evaluation_metrics, **_: seen.append(evaluation_metrics))
    algorithm = made.build_algo()
    found = algorithm.evaluate()
    assert found["evaluation"]["episode_reward_mean"] == found["evaluation"]["env_runners"]["episode_reward_mean"] == 25
    assert found["env_runners"]["episode_return_mean"] == found["episode_reward_mean"] == 25
    (told,) = seen
    assert told["evaluation"]["episode_reward_mean"] == told["env_runners"]["episode_return_mean"] == 25
    # A training result has it once.
    inside = algorithm.train()["evaluation"]
    assert inside["episode_reward_mean"] == inside["env_runners"]["episode_return_mean"] == 25
    assert "evaluation" not in inside


@pytest.mark.parametrize("era", ["old", "new"])
def test_what_a_program_adds_to_an_evaluation_is_in_the_result(era):
    def add(evaluation_metrics, **_):
        (evaluation_metrics["evaluation"] if era == "old" else evaluation_metrics)["mine"] = 7

    made = config(evaluation_duration=1, evaluation_interval=1).callbacks(on_evaluate_end=add)
    assert made.build_algo().train()["evaluation"]["mine"] == 7
    made = config(evaluation_interval=1, custom_evaluation_function=lambda algorithm, workers: {"own": 3})
    algorithm = made.build_algo()
    assert algorithm.evaluate()["evaluation"]["own"] == algorithm.evaluate()["own"] == 3
    assert algorithm.train()["evaluation"] == {"own": 3}


# Actions of built-in environments.


def test_actions_of_built_in_environments_are_spread_clipped_or_neither():
    def after(action, bounded):
        simulator = engine().simulator("Pendulum-v1", {}, 1, 5, bounded)
        return simulator.step(np.array([[action]], np.float32)).observed.tolist()

    assert after(0.5, "spread") == after(1.0, "free") == after(1.0, "clipped")
    assert after(0.5, "spread") != after(0.5, "free")


@pytest.mark.parametrize("kind", [PPOConfig, SACConfig])
@pytest.mark.parametrize(("normalize", "factor"), [(True, 2.0), (False, 1.0)])
def test_normalize_actions_holds_for_built_in_environments(kind, normalize, factor):
    made = kind().environment("Pendulum-v1", normalize_actions=normalize, clip_actions=not normalize)
    algorithm = made.env_runners(num_env_runners=0).debugging(seed=1).build_algo()
    sampler = algorithm.env_runner._sampler
    plain = engine().simulator("Pendulum-v1", {}, 1, 1, "free")
    row = np.array([[0.25]], np.float32)
    there, here = sampler.simulator.step(row), plain.step(row * factor)
    assert there.observed.tolist() == here.observed.tolist()
    actions = [float(algorithm.compute_single_action([1.0, 0.0, 0.0])[0]) for _ in range(200)]
    assert -2.0 <= min(actions) <= max(actions) <= 2.0
    assert max(map(abs, actions)) > 1.0
    algorithm.train()


# The command line.


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main.main(["rllib", *arguments])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_evaluate_plays_as_many_as_it_was_told_and_draws_them(capsys, tmp_path):
    folder = config().build_algo().save_to_path(tmp_path / "checkpoint")
    code, out, err = run(capsys, "evaluate", folder, "--episodes", "5", "--json", "--render", str(tmp_path / "a.gif"))
    assert code == 0, err
    assert json.loads(out.splitlines()[0])["num_episodes"] == 5
    pillow = pytest.importorskip("PIL.Image")
    with pillow.open(tmp_path / "a.gif") as drawn:
        assert drawn.n_frames > 5
        assert drawn.size == (_pictures.WIDTH, _pictures.HEIGHT)


def test_environments_of_ones_own_draw_themselves(capsys, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    folder = config(Lengths).build_algo().save_to_path(tmp_path / "checkpoint")
    code, _, err = run(capsys, "evaluate", folder, "--episodes", "2", "--render", str(tmp_path / "a.gif"))
    assert code == 0, err
    with pillow.open(tmp_path / "a.gif") as drawn:
        assert (drawn.n_frames, drawn.size) == (20, (30, 20))


def test_an_environment_that_cannot_draw_says_so(capsys, tmp_path, monkeypatch):
    folder = config(Lengths).build_algo().save_to_path(tmp_path / "checkpoint")
    monkeypatch.setattr(Lengths, "render", lambda self: None)
    code, _, err = run(capsys, "evaluate", folder, "--episodes", "2", "--render", str(tmp_path / "a.gif"))
    assert code == 1
    assert "render_mode='rgb_array'" in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["evaluate", "x", "--episodes", "0"], "no whole number > 0"),
        (["evaluate", "x", "--render", "a.png"], "must end with .gif"),
        (["evaluate", "x", "--render", "/nowhere/a.gif"], "there is no folder /nowhere"),
        (["train", "--run", "PPO", "--stop", "3"], "must be a JSON object"),
    ],
)
def test_arguments_are_checked_before_anything_is_done(capsys, arguments, text):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert text in err


@pytest.mark.parametrize("name", rl.environments())
def test_every_built_in_environment_has_a_picture(name):
    pytest.importorskip("PIL")
    simulator = engine().simulator(name, {}, 1, 0)
    picture = _pictures.draw(name, simulator.look()[0].tolist(), simulator.observed.shape, "now")
    # White paper, black letters, and something else on it.
    assert _pictures.can_draw(name)
    assert len(picture.getcolors()) > 2


def test_numbers_of_yaml_without_a_point_are_numbers():
    read = rllib._with_numbers({"lr": "1e-4", "name": "e5", "nested": [{"batch": "2E3"}, "v1e"], "n": 3})
    assert read == {"lr": 1e-4, "name": "e5", "nested": [{"batch": 2000.0}, "v1e"], "n": 3}
