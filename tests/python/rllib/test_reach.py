"""Settings beyond RLlib's that the zoo of Stable-Baselines3 needs: noise by state, starts, fixed temperatures, schedules, bounds."""

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib._engine import engine
from eagleray.rllib._engine.native import NativeSimulator
from eagleray.rllib.algorithms.a2c import A2CConfig
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig
from eagleray.rllib.core.rl_module.default_model_config import DefaultModelConfig

pytestmark = pytest.mark.usefixtures("shared_ray")


def small(config, environment="Pendulum-v1"):
    config.environment(environment).env_runners(num_env_runners=0)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
    return config.debugging(seed=3)


def built(config):
    return config.build_algo()


def soft(**settings):
    return small(SACConfig()).training(num_steps_sampled_before_learning_starts=0, **settings)


WITH_NOISE = {
    "PPO": lambda model: (
        small(PPOConfig())
        .training(train_batch_size_per_learner=256)
        .rl_module(model_config={"fcnet_hiddens": [8], **model})
    ),
    "A2C": lambda model: small(A2CConfig()).rl_module(model_config={"fcnet_hiddens": [8], **model}),
    "SAC": lambda model: soft(policy_model_config={"fcnet_hiddens": [8], "fcnet_activation": "relu", **model}),
}


@pytest.mark.parametrize("name", WITH_NOISE)
def test_noise_that_depends_on_the_state_has_a_deviation_per_feature_and_is_learned(name):
    algo = built(WITH_NOISE[name]({"use_sde": True, "sde_sample_freq": 4, "log_std_init": -1.5}))
    before = algo.get_policy().get_weights()["log_std"]
    assert before.shape == (8, 1)
    assert np.all(before == -1.5)
    algo.train()
    assert np.any(algo.get_policy().get_weights()["log_std"] != before)
    algo.stop()


def test_the_newer_model_config_knows_noise_by_state():
    config = small(PPOConfig()).rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[4], use_sde=True))
    algo = built(config)
    assert algo.get_policy().get_weights()["log_std"].shape == (4, 1)
    algo.stop()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (lambda: small(PPOConfig(), "CartPole-v1").rl_module(model_config={"use_sde": True}), "Box space"),
        (lambda: small(DQNConfig(), "CartPole-v1").rl_module(model_config={"use_sde": True}), "Box space"),
        (lambda: small(PPOConfig()).rl_module(model_config={"use_sde": True, "use_lstm": True}), "use_lstm"),
        (lambda: small(PPOConfig()).rl_module(model_config={"use_sde": True, "sde_sample_freq": 0}), "sde_sample_freq"),
        (lambda: small(PPOConfig()).rl_module(model_config={"fcnet_kernel_initializer": "x_"}), "orthogonal_"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_would(config, words):
    with pytest.raises(ValueError, match=words):
        built(config())


def test_q_networks_and_soft_actors_begin_as_torch_begins_layers():
    """With orthogonal starts of gain sqrt(2), DQN with the zoo's settings ended at a return of 110 on CartPole from most seeds."""
    for config in (small(DQNConfig(), "CartPole-v1").training(dueling=False), soft()):
        algo = built(config)
        weights = algo.get_policy().get_weights()
        for name, values in weights.items():
            bound = weights[name.replace("bias", "weight")].shape[1] ** -0.5
            assert np.abs(values).max() <= bound
            assert np.any(values != 0.0)
            assert values.size < 500 or np.abs(values).max() > 0.9 * bound
        algo.stop()


def test_policy_gradients_begin_orthogonal_or_as_torch_does():
    for start, is_zero in ((None, True), ("orthogonal_", True), ("torch_default", False)):
        config = small(PPOConfig(), "CartPole-v1").rl_module(model_config={"fcnet_kernel_initializer": start})
        algo = built(config)
        biases = [value for name, value in algo.get_policy().get_weights().items() if name.endswith("bias")]
        assert all(np.all(bias == 0.0) == is_zero for bias in biases)
        algo.stop()


def test_a_temperature_whose_rate_is_zero_stays_as_it_is():
    for rate in (0.0, 1e-2):
        algo = built(soft(initial_alpha=0.1, alpha_lr=rate))
        algo.train()
        found = algo.train()["learners"]["default_policy"]["alpha_value"]
        assert (found == pytest.approx(0.1)) == (rate == 0.0)
        algo.stop()


def test_how_far_ratios_count_may_fall_with_the_steps():
    config = small(PPOConfig(), "CartPole-v1").training(clip_param=[[0, 0.2], [512, 0.0]])
    algo = built(config.training(train_batch_size_per_learner=256, minibatch_size=64, num_epochs=2))
    seen = [algo.settings_now("default_policy")["clip_param"]]
    for _ in range(2):
        algo.train()
        seen.append(algo.settings_now("default_policy")["clip_param"])
    assert seen == pytest.approx([0.2, 0.1, 0.0])
    algo.stop()
    with pytest.raises(ValueError, match="clip_param"):
        built(small(PPOConfig()).training(clip_param="little"))


def test_built_in_environments_take_actions_as_the_settings_say(monkeypatch):
    """`normalize_actions=False` once changed nothing for them: 1 was the upper bound whatever was said."""
    asked = []
    monkeypatch.setattr(type(engine()), "simulator", recording(asked, type(engine()).simulator))
    settings = [{}, {"normalize_actions": False, "clip_actions": True}, {"normalize_actions": False}]
    for one in settings:
        built(small(PPOConfig()).environment(**one)).stop()
    assert [*dict.fromkeys(asked)] == ["spread", "clipped", "free"]


def recording(asked, simulator):
    def record(self, name, env_config, count, seed, bounded="spread"):
        asked.append(bounded)
        return simulator(self, name, env_config, count, seed, bounded)

    return record


def test_an_action_of_one_is_the_bound_where_actions_are_spread_and_one_elsewhere():
    # A pendulum's reward has a thousandth of the squared torque in it; its bounds are -2 and 2.
    found = {}
    for bounded, action in (("spread", 1.0), ("clipped", 1.0), ("clipped", 9.0), ("spread", 0.5), ("free", 1.0)):
        simulator = NativeSimulator("Pendulum-v1", {}, 1, 5, bounded)
        columns = [np.zeros((1, 3), np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint8), np.zeros(1, np.uint8)]
        simulator.native.step(np.array([action], np.float32), *columns, np.zeros((1, 3), np.float32))
        found[bounded, action] = float(columns[1][0])
    assert found["spread", 1.0] == found["clipped", 9.0]
    assert found["clipped", 1.0] == found["spread", 0.5] == found["free", 1.0]
    assert found["clipped", 1.0] - found["spread", 1.0] == pytest.approx(0.003, abs=1e-5)


def test_steps_that_stand_for_several_wait_for_the_next_fragment_and_learning_waits_with_them(tmp_path):
    config = small(DQNConfig(), "CartPole-v1").env_runners(num_envs_per_env_runner=32, rollout_fragment_length=1)
    config.training(n_step=3, num_steps_sampled_before_learning_starts=0, store_buffer_in_checkpoints=True)
    algo = built(config)
    # A round is one step of each here: none of them is whole before the third, but for episodes that have ended.
    algo.training_step()
    assert len(algo.learners["default_policy"]._native) == 0
    algo.train()
    kept = len(algo.learners["default_policy"]._native)
    assert algo.timestep - 2 * 32 <= kept < algo.timestep
    path = algo.save_to_path(str(tmp_path))
    algo.train()
    other = type(algo).from_checkpoint(path)
    other.train()
    assert len(other.learners["default_policy"]._native) == len(algo.learners["default_policy"]._native)
    mine, others = algo.get_policy().get_weights(), other.get_policy().get_weights()
    assert all(np.array_equal(mine[name], others[name]) for name in mine)
    algo.stop()
    other.stop()


class Picture(gym.Env):
    """Shows pictures of a size, and ends after a few steps."""

    def __init__(self, config):
        self.observation_space = gym.spaces.Box(0, 255, config["shape"], np.uint8)
        self.action_space = gym.spaces.Discrete(2)
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps == 5, False, {}


@pytest.mark.parametrize(("shape", "dimensions"), [((36, 40, 3), 4), ((8, 8, 1), 2), ((40, 30, 64), 2)])
def test_large_pictures_are_looked_at_through_filters_unasked(shape, dimensions):
    for made in (PPOConfig(), DQNConfig().training(hiddens=[8])):
        made.environment(Picture, env_config={"shape": shape}).env_runners(num_env_runners=0)
        made.rl_module(model_config={"fcnet_hiddens": [8]})
        algorithm = made.build_algo()
        weights = algorithm.get_policy().get_weights()
        assert max(array.ndim for array in weights.values()) == dimensions
        assert algorithm.compute_single_action(np.zeros(shape, np.uint8)) in (0, 1)
        algorithm.stop()


class Bright(gym.Env):
    """One column of a picture is bright: the number to choose says which."""

    observation_space = gym.spaces.Box(0.0, 1.0, (8, 8, 1), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, config=None):
        self.chance = np.random.default_rng(5)

    def reset(self, *, seed=None, options=None):
        self.column, self.steps = int(self.chance.integers(8)), 0
        return self.seen(), {}

    def seen(self):
        picture = np.zeros((8, 8, 1), np.float32)
        picture[:, self.column] = 1.0
        return picture

    def step(self, action):
        reward = 1.0 - abs(float(action[0]) - (self.column / 3.5 - 1.0))
        self.column, self.steps = int(self.chance.integers(8)), self.steps + 1
        return self.seen(), reward, self.steps == 10, False, {}


@pytest.mark.parametrize(("rate", "is_learned"), [(2e-3, True), (0.0, False)])
def test_numbers_are_chosen_by_pictures(rate, is_learned):
    config = SACConfig().environment(Bright).env_runners(num_env_runners=0).debugging(seed=2)
    config.rl_module(model_config={"conv_filters": [[8, 3, 2]], "fcnet_hiddens": [32]})
    config.training(actor_lr=rate, critic_lr=rate, alpha_lr=rate, train_batch_size_per_learner=64, gamma=0.1, tau=0.05)
    config.training(num_steps_sampled_before_learning_starts=200)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=1_600)
    algorithm = config.build_algo()
    assert {array.ndim for array in algorithm.get_policy().get_weights().values()} == {1, 2, 4}
    algorithm.train()
    environment, misses = Bright(), []
    for _ in range(5):
        seen, _ = environment.reset()
        wanted = environment.column / 3.5 - 1.0
        misses.append(abs(float(algorithm.compute_single_action(seen, explore=False)[0]) - wanted))
    algorithm.stop()
    assert (np.mean(misses) < 0.2) == is_learned, misses
