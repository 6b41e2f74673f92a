"""Algorithms over a small engine: training, results, checkpoints, evaluation, callbacks, several agents, both eras."""

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from eagleray.rllib._engine import ENGINE_VARIABLE
from eagleray.rllib.agents.ppo import PPOTrainer
from eagleray.rllib.algorithms import Algorithm, DQNConfig, ESConfig, IMPALAConfig, PPOConfig, SACConfig
from eagleray.rllib.algorithms._checkpoints import CheckpointError
from eagleray.rllib.callbacks import DefaultCallbacks, RLlibCallback
from eagleray.rllib.env import ExternalEnv, MultiAgentEnv
from eagleray.rllib.utils.error import NotFiniteError
from eagleray.tune.registry import register_env

ENGINE = "tests.python.rllib.fake_engine:FakeEngine"


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, ENGINE)


class Signs(gym.Env):
    """As the simulator of the same name, in Python."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)
        self.length = (config or {}).get("length", 10)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._look(), {}

    def _look(self):
        self.sign = float(self.rng.choice([-1.0, 1.0]))
        return np.array([self.sign], np.float32)

    def step(self, action):
        self.at += 1
        reward = float((self.sign > 0) == (action > 0))
        return self._look(), reward, self.at >= self.length, False, {"at": self.at}


def config(env=Signs, **training):
    made = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=4)
    return made.training(train_batch_size=200, minibatch_size=100, lr=0.01, gamma=0.0, **training).debugging(seed=1)


# proves: Y2a
@pytest.mark.parametrize("env", [Signs, "Signs-v0"], ids=["python", "built in"])
def test_it_learns_and_reports_in_both_families_of_keys(env):
    algorithm = config(env).build_algo()
    first = algorithm.train()
    for _ in range(10):
        result = algorithm.train()
    assert first["episode_reward_mean"] < 8
    assert result["episode_reward_mean"] == result["env_runners"]["episode_return_mean"] > 9.5
    assert result["training_iteration"] == 11
    assert result["timesteps_total"] == result["num_env_steps_sampled_lifetime"] == 11 * 200
    assert result["timesteps_this_iter"] == 200
    assert result["episode_len_mean"] == 10
    assert result["learners"]["default_policy"]["total_loss"] == 0.5
    assert result["info"]["learner"]["default_policy"]["cur_lr"] == 0.01
    assert result["config"]["lr"] == 0.01
    assert {"training_step", "env_runner_sampling_timer", "synch_weights"} <= result["timers"].keys()
    assert result["fault_tolerance"]["num_healthy_workers"] == 0
    assert not result["done"]
    assert {"date", "timestamp", "hostname", "node_ip", "pid", "trial_id", "time_total_s"} <= result.keys()
    assert algorithm.compute_single_action(np.array([0.9], np.float32), explore=False) == 1
    assert algorithm.compute_single_action(np.array([-0.9], np.float32), explore=False) == 0
    algorithm.stop()


def test_without_a_learning_rate_nothing_is_learned():
    algorithm = config().training(lr=0.0).build_algo()
    for _ in range(10):
        result = algorithm.train()
    assert result["episode_reward_mean"] < 8


def test_trainers_of_the_older_era():
    trainer = PPOTrainer(
        env=Signs,
        config={
            "num_workers": 0,
            "train_batch_size": 100,
            "sgd_minibatch_size": 50,
            "lambda": 0.9,
            "env_config": {"length": 5},
            "framework": "torch",
        },
    )
    result = trainer.train()
    assert result["episode_len_mean"] == 5
    assert trainer.config["lambda"] == trainer.config.lambda_ == 0.9
    assert trainer.config["num_workers"] == 0
    assert trainer.compute_action(np.array([1.0], np.float32)) in (0, 1)
    weights = trainer.get_policy().get_weights()
    trainer.set_weights({"default_policy": {"w": weights["w"] + 1}})
    assert (trainer.get_weights()["default_policy"]["w"] == weights["w"] + 1).all()
    assert (trainer.workers.local_worker().policies["default_policy"].weights == weights["w"] + 1).all()
    trainer.stop()
    with pytest.raises(ValueError, match="Did you mean 'train_batch_size'"):
        PPOTrainer(env=Signs, config={"train_batchsize": 3})


# proves: Y2b
def test_schedules_hit_their_values_by_timestep():
    algorithm = (
        config().training(lr=[[0, 1.0], [200, 0.5], [400, 0.25]], entropy_coeff=[[0, 0.0], [400, 1.0]]).build_algo()
    )
    said = [algorithm.train()["learners"]["default_policy"] for _ in range(3)]
    # Learned from after the batch was sampled.
    assert [one["default_optimizer_learning_rate"] for one in said] == [0.5, 0.25, 0.25]
    assert [one["curr_entropy_coeff"] for one in said] == [0.5, 1.0, 1.0]


# proves: Y2c
@pytest.mark.parametrize("env", [Signs, "Signs-v0"], ids=["python", "built in"])
def test_checkpoints_keep_weights_and_counters(env, tmp_path):
    algorithm = config(env).build_algo()
    for _ in range(3):
        algorithm.train()
    folder = algorithm.save_to_path(tmp_path / "here")
    again = Algorithm.from_checkpoint(folder)
    assert type(again) is type(algorithm)
    assert (again.get_weights()["default_policy"]["w"] == algorithm.get_weights()["default_policy"]["w"]).all()
    one, other = algorithm.train(), again.train()
    assert other["training_iteration"] == 4
    assert other["timesteps_total"] == 800
    assert other["episodes_total"] == one["episodes_total"]
    assert again.learners["default_policy"].count == 4
    if env == "Signs-v0":
        assert other["episode_reward_mean"] == one["episode_reward_mean"], "built-in environments go on bit for bit"
        assert (again.get_weights()["default_policy"]["w"] == algorithm.get_weights()["default_policy"]["w"]).all()
    saved = algorithm.save(str(tmp_path / "older"))
    third = config(env).build_algo()
    third.restore(saved)
    assert third.iteration == 4
    assert str(saved) == saved.checkpoint.path == str(tmp_path / "older")


def test_checkpoints_of_another_shape_or_version_are_refused(tmp_path):
    algorithm = config().build_algo()
    folder = algorithm.save_to_path(tmp_path / "a")
    other = config().training(model={"fcnet_hiddens": [3]}).build_algo()
    with pytest.raises(CheckpointError, match="of another shape"):
        other.restore_from_path(folder)
    text = (tmp_path / "a" / "metadata.json").read_text()
    (tmp_path / "a" / "metadata.json").write_text(re.sub(r'"format": \d+', '"format": 99', text))
    with pytest.raises(CheckpointError, match="format 99"):
        Algorithm.from_checkpoint(folder)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        Algorithm.from_checkpoint(str(tmp_path))


def test_a_loss_that_is_no_number_stops_with_its_step():
    algorithm = config().environment(env_config={"spoil": 3}).build_algo()
    algorithm.train()
    algorithm.train()
    with pytest.raises(NotFiniteError, match="total_loss of default_policy is nan after 600 steps, in iteration 3"):
        algorithm.train()


# proves: Y2d
def test_evaluation_by_episodes_and_by_steps():
    made = config().evaluation(evaluation_interval=2, evaluation_duration=5, evaluation_config={"explore": False})
    algorithm = made.build_algo()
    assert "evaluation" not in algorithm.train()
    evaluation = algorithm.train()["evaluation"]
    assert evaluation["env_runners"]["num_episodes"] >= 5
    assert evaluation["episode_len_mean"] == 10
    assert evaluation["env_runners"]["episode_return_mean"] == evaluation["episode_reward_mean"]
    assert algorithm.timestep == 400, "evaluation counts for itself"
    by_steps = config().evaluation(evaluation_duration=100, evaluation_duration_unit="timesteps").build_algo()
    assert by_steps.evaluate()["timesteps_this_iter"] == 100


# proves: Y3d
def test_callbacks_of_both_eras_are_told_in_order():
    told = []

    class New(RLlibCallback):
        def on_episode_created(self, *, episode, **kwargs):
            told.append("created")

        def on_episode_start(self, *, episode, env_runner, metrics_logger, env, env_index, rl_module, **kwargs):
            told.append("start")
            episode.custom_data["n"] = 0

        def on_episode_step(self, *, episode, **kwargs):
            episode.custom_data["n"] += 1

        def on_episode_end(self, *, episode, metrics_logger, **kwargs):
            told.append("end")
            assert episode.custom_data["n"] == len(episode) == len(episode.get_rewards()) == 10
            assert episode.get_return() == sum(episode.get_rewards())
            assert episode.get_infos(-1) == {"at": 10}
            metrics_logger.log_value("mine", episode.get_return())

        def on_sample_end(self, *, env_runner, samples, **kwargs):
            told.append("sample")

    class Old(DefaultCallbacks):
        def on_episode_end(self, *, worker, base_env, policies, episode, env_index):
            episode.custom_metrics["angle"] = episode.length

        def on_train_result(self, *, algorithm, result):
            result["extra"] = algorithm.iteration

    made = config().env_runners(num_envs_per_env_runner=1).training(train_batch_size=20, minibatch_size=10)
    algorithm = made.callbacks([New, Old], on_algorithm_init=lambda algorithm, **kw: told.append("init")).build_algo()
    result = algorithm.train()
    assert told == ["init", "created", "start", "end", "created", "start", "end", "created", "start", "sample"]
    assert result["custom_metrics"] == {"angle_mean": 10.0, "angle_min": 10.0, "angle_max": 10.0}
    assert result["env_runners"]["mine"] == result["episode_reward_mean"]
    assert result["extra"] == 0


def test_the_oldest_callbacks_are_functions_of_a_dictionary():
    ends = []
    PPOTrainer(
        env=Signs,
        config={
            "num_workers": 0,
            "train_batch_size": 20,
            "sgd_minibatch_size": 10,
            "callbacks": {"on_episode_end": lambda info: ends.append(info["episode"].length)},
        },
    ).train()
    assert ends == [10, 10]


class Both(MultiAgentEnv):
    """Two agents with opposite tasks; the second sits out every other step."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)
    possible_agents = ["yes", "no"]

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)

    def _look(self, agents):
        self.signs = {agent: float(self.rng.choice([-1.0, 1.0])) for agent in agents}
        return {agent: [sign] for agent, sign in self.signs.items()}

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._look(["yes", "no"]), {}

    def step(self, actions):
        self.at += 1
        rewards = {}
        for agent, action in actions.items():
            is_positive = self.signs[agent] > 0
            rewards[agent] = (
                float(is_positive == bool(action)) if agent == "yes" else float(is_positive != bool(action))
            )
        agents = ["yes"] if self.at % 2 else ["yes", "no"]
        return self._look(agents), rewards, {"__all__": self.at >= 10}, {"__all__": False}, {}


def test_several_agents_learn_by_their_own_policies():
    made = config(Both).multi_agent(
        policies={"p_yes", "p_no"}, policy_mapping_fn=lambda agent, episode, **kw: f"p_{agent}"
    )
    algorithm = made.build_algo()
    for _ in range(25):
        result = algorithm.train()
    assert result["policy_reward_mean"]["p_yes"] > 9
    assert result["policy_reward_mean"]["p_no"] > 4.5
    assert set(result["env_runners"]["agent_episode_returns_mean"]) == {"yes", "no"}
    assert set(result["learners"]) == {"p_yes", "p_no", "__all_modules__"}
    assert result["num_agent_steps_sampled_lifetime"] == result["num_env_steps_sampled_lifetime"] * 1.5
    assert algorithm.compute_single_action([0.9], policy_id="p_no", explore=False) == 0
    assert algorithm.compute_single_action([0.9], policy_id="p_yes", explore=False) == 1
    with pytest.raises(KeyError, match="no policy 'x'"):
        algorithm.get_policy("x")


def test_a_policy_that_is_not_trained_stays_as_it_is():
    made = config(Both).multi_agent(
        policies={"p_yes", "p_no"},
        policy_mapping_fn=lambda agent, *_: f"p_{agent}",
        policies_to_train=["p_yes"],
        algorithm_config_overrides_per_module={"p_yes": {"lr": 0.5}},
    )
    algorithm = made.build_algo()
    result = algorithm.train()
    assert (algorithm.get_weights()["p_no"]["w"] == 0).all()
    assert (algorithm.get_weights()["p_yes"]["w"] != 0).any()
    assert result["learners"]["p_yes"]["default_optimizer_learning_rate"] == 0.5


def test_a_mapping_to_nowhere_is_named():
    algorithm = config(Both).multi_agent(policies={"a"}, policy_mapping_fn=lambda agent, *_: "b").build_algo()
    with pytest.raises(ValueError, match="policy_mapping_fn gave 'b'"):
        algorithm.train()


class Driven(ExternalEnv):
    def __init__(self, config):
        super().__init__(Discrete(2), Box(-1.0, 1.0, (1,), np.float32))
        self.rng = np.random.default_rng(3)
        self.logs = config.get("logs", False)

    def run(self):
        while True:
            empty = self.start_episode()
            self.end_episode(empty, [0.0])  # an episode without a step
            episode = self.start_episode()
            for _ in range(7):
                sign = float(self.rng.choice([-1.0, 1.0]))
                if self.logs:
                    action = int(sign > 0)
                    self.log_action(episode, [sign], action)
                else:
                    action = self.get_action(episode, [sign])
                self.log_returns(episode, float((sign > 0) == bool(action)))
            self.end_episode(episode, [0.0])


@pytest.mark.parametrize("logs", [False, True], ids=["asked", "told"])
def test_a_simulator_that_drives_itself_is_learned_from(logs):
    register_env("driven", lambda config: Driven(config))
    trainer = PPOTrainer(
        env="driven",
        config={
            "num_workers": 0,
            "train_batch_size": 150,
            "lr": 0.01,
            "gamma": 0.0,
            "env_config": {"logs": logs},
        },
    )
    for _ in range(20):
        result = trainer.train()
    assert result["timesteps_total"] == 20 * 150
    assert result["episode_len_mean"] == 7
    assert result["episode_reward_mean"] > 6.5
    if not logs:
        assert trainer.compute_single_action([0.9], explore=False) == 1
    trainer.stop()


def test_whole_episodes_only():
    made = (
        config()
        .env_runners(batch_mode="complete_episodes", num_envs_per_env_runner=2)
        .environment(env_config={"length": 7})
    )
    algorithm = made.training(train_batch_size=100).build_algo()
    result = algorithm.train()
    assert result["timesteps_this_iter"] % 7 == 0
    assert result["timesteps_this_iter"] >= 100
    assert result["episodes_this_iter"] == result["timesteps_this_iter"] / 7


# proves: Y3a, Y3b, Y3c
def test_samples_are_asked_for_by_steps_or_by_episodes():
    runner = config().env_runners(num_envs_per_env_runner=1).build_algo().env_runner
    with pytest.raises(ValueError, match="not both"):
        runner.sample(num_timesteps=1, num_episodes=1)
    with pytest.raises(ValueError, match="num_timesteps must be >= 0"):
        runner.sample(num_timesteps=-1)
    assert runner.sample(num_timesteps=0).env_steps == 0
    assert runner.sample(num_timesteps=7).env_steps == 7
    assert len(runner.get_metrics().episodes) == 0
    assert runner.sample(num_timesteps=7).env_steps == 7
    assert [record.length for record in runner.get_metrics().episodes] == [10], "it went on where it was"
    assert runner.get_metrics().episodes == [], "and is not told twice"
    assert runner.sample(num_timesteps=6, force_reset=True).env_steps == 6
    assert runner.get_metrics().episodes == []
    assert runner.sample(num_episodes=2).env_steps == 14


def test_replay_learns_in_a_fixed_proportion():
    made = DQNConfig().environment("Signs-v0").debugging(seed=1).reporting(min_sample_timesteps_per_iteration=64)
    made.training(num_steps_sampled_before_learning_starts=100, epsilon=[[0, 1.0], [128, 0.0]], lr=1e-3)
    algorithm = made.build_algo()
    runner = algorithm.env_runner.policies["default_policy"]
    assert runner.epsilon == 1.0
    first = algorithm.train()
    assert first["learners"]["default_policy"]["updates"] == 0
    assert runner.epsilon == 0.5
    second = algorithm.train()
    assert second["timesteps_total"] == 128
    assert runner.epsilon == 0.0
    assert second["learners"]["default_policy"]["updates"] == 8, "in the last round"
    third = algorithm.train()
    assert third["num_env_steps_trained_this_iter"] == 64 * 32, "one update of 32 for each step"
    old = DQNConfig.from_old_dict({"env": "Signs-v0", "learning_starts": 0, "timesteps_per_iteration": 64}).build_algo()
    assert old.train()["num_env_steps_trained_this_iter"] == 16 * 32, "one for four"
    made.training(training_intensity=64, num_steps_sampled_before_learning_starts=0)
    assert made.build_algo().train()["num_env_steps_trained_this_iter"] == 128 * 32


def test_what_an_algorithm_counts_of_its_own_is_saved(tmp_path):
    made = DQNConfig().environment("Signs-v0").debugging(seed=1).reporting(min_sample_timesteps_per_iteration=32)
    made.training(num_steps_sampled_before_learning_starts=0, training_intensity=0.5)
    algorithm = made.build_algo()
    algorithm.train()
    assert algorithm._updates_due == 0.5
    assert Algorithm.from_checkpoint(algorithm.save_to_path(tmp_path))._updates_due == 0.5


def test_runs_without_a_seed_differ_and_with_one_agree():
    def first(seed):
        algorithm = config("Signs-v0").debugging(seed=seed).build_algo()
        algorithm.train()
        return algorithm.get_weights()["default_policy"]["w"].tolist()

    assert first(5) == first(5)
    assert first(5) != first(6)
    assert first(None) != first(None)


def test_continuous_actions_reach_the_environment_in_its_bounds():
    made = SACConfig().environment("Pendulum-v1").training(num_steps_sampled_before_learning_starts=0)
    algorithm = made.reporting(min_sample_timesteps_per_iteration=250).build_algo()
    result = algorithm.train()
    assert result["episode_len_mean"] == 200
    action = algorithm.compute_single_action(np.zeros(3, np.float32))
    assert action.shape == (1,)
    assert -2.0 <= action[0] <= 2.0
    assert (
        algorithm.get_module().forward_inference({"obs": np.zeros((4, 3), np.float32)})["action_dist_inputs"].shape[0]
        == 4
    )


def test_evolution_moves_to_where_returns_are():
    made = ESConfig().environment("Signs-v0").env_runners(num_env_runners=0)
    algorithm = made.training(episodes_per_batch=20, train_batch_size=100).debugging(seed=3).build_algo()
    for _ in range(3):
        result = algorithm.train()
    assert result["learners"]["default_policy"]["best"] == 10.0
    assert result["episodes_this_iter"] == 20


def test_asynchronous_rounds_work_without_runners_too():
    made = IMPALAConfig().environment("Signs-v0").env_runners(num_env_runners=0).reporting(min_time_s_per_iteration=0)
    result = made.training(train_batch_size=100).build_algo().train()
    assert result["timesteps_this_iter"] == 100


def test_single_actions_follow_the_newest_weights_and_load_them_once():
    algorithm = config().training(lr=0.1).build_algo()
    seen = np.array([0.9], np.float32)
    for wanted in (0, 1):
        weights = np.zeros((2, 2))
        weights[:, wanted] = 9.0
        algorithm.set_weights({"default_policy": {"w": weights}})
        assert {algorithm.compute_single_action(seen, explore=False) for _ in range(20)} == {wanted}
    policy = algorithm.acting("default_policy")
    assert policy.loads == 2
    algorithm.train()
    algorithm.compute_single_action(seen)
    assert policy.loads == 3
    assert (policy.weights == algorithm.get_weights()["default_policy"]["w"]).all()


def test_weights_are_exported(tmp_path):
    algorithm = config().build_algo()
    algorithm.export_policy_model(str(tmp_path / "out"))
    assert (tmp_path / "out" / "module_state.safetensors").read_bytes() == algorithm.learners[
        "default_policy"
    ].weights()
    assert '"algorithm": "PPO"' in (tmp_path / "out" / "module.json").read_text()
