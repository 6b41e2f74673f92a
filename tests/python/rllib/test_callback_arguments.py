"""What callbacks are given, over the real engine: batches with columns, all environments of a runner, numbers of the result."""

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib.algorithms import DQNConfig, PPOConfig
from eagleray.rllib.callbacks import DefaultCallbacks
from eagleray.rllib.env.multi_agent_env import make_multi_agent

ENVS, STEPS = 3, 20


class Numbered(gym.Env):
    """Shows which environment it is and which step; pays what it was asked to do. Episodes have five steps."""

    observation_space = gym.spaces.Box(-1.0, 100.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self, config=None):
        self.index = config.vector_index if config is not None else 0

    def _look(self):
        return np.array([self.index, self.at], np.float32)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._look(), {}

    def step(self, action):
        self.at += 1
        return self._look(), float(action), self.at == 5, False, {}


def ppo(env=Numbered):
    made = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS)
    return made.training(train_batch_size=ENVS * STEPS, minibatch_size=ENVS * STEPS, num_epochs=1)


@pytest.mark.parametrize("filtered", [False, True])
def test_a_train_batch_has_columns_by_name_and_takes_words_about_itself(filtered):
    seen = []

    class Watch(DefaultCallbacks):
        def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
            seen.append(train_batch)
            result["sum"] = float(np.sum(train_batch["actions"]))

    made = ppo().callbacks(Watch)
    if filtered:
        made.env_runners(observation_filter="MeanStdFilter")
    algorithm = made.build_algo()
    said = algorithm.train()
    (batch,) = seen
    assert batch.count == len(batch) == batch.env_steps() == ENVS * STEPS
    assert batch["actions"].tolist() == batch["rewards"].tolist()
    assert batch["actions"].dtype == np.int64
    assert batch["obs"].shape == (ENVS * STEPS, 2)
    if not filtered:
        # Environment by environment, and in the order of its steps.
        assert batch["obs"][:, 0].tolist() == [env for env in range(ENVS) for _ in range(STEPS)]
        assert batch["obs"][:, 1].tolist() == [step % 5 for _ in range(ENVS) for step in range(STEPS)]
    assert batch["dones"].tolist() == [step % 5 == 4 for _ in range(ENVS) for step in range(STEPS)]
    assert batch["action_dist_inputs"].shape == (ENVS * STEPS, 4)
    logits = batch["action_dist_inputs"]
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert np.allclose(logp[np.arange(len(batch)), batch["actions"]], batch["action_logp"], atol=1e-5)
    assert batch["vf_preds"].shape == (ENVS * STEPS,)
    assert "obs" in batch
    with pytest.raises(KeyError, match="no column 'x'"):
        batch["x"]
    assert said["info"]["learner"]["default_policy"]["sum"] == batch["rewards"].sum()
    algorithm.stop()


def test_what_goes_into_a_replay_has_columns_too():
    seen = []

    class Watch(DefaultCallbacks):
        def on_learn_on_batch(self, *, train_batch, **kwargs):
            seen.append((train_batch.count, train_batch["actions"].tolist() == train_batch["rewards"].tolist()))

    made = DQNConfig().environment(Numbered).env_runners(num_env_runners=0).training(train_batch_size=4)
    algorithm = made.callbacks(Watch).reporting(min_sample_timesteps_per_iteration=16).build_algo()
    algorithm.train()
    assert sum(count for count, _ in seen) == 16
    assert all(is_same for _, is_same in seen)
    algorithm.stop()


def test_steps_of_a_programs_own_model_have_the_same_columns():
    pytest.importorskip("torch")
    from eagleray.rllib._engine._rollouts import columns_of
    from eagleray.rllib._engine.torch._columns import Columns

    steps, envs = 3, 2
    rows = np.arange(steps * envs, dtype=np.float32).reshape(steps, envs)
    ends = np.zeros((steps, envs), bool)
    own = Columns(
        observed=np.stack([rows, -rows], -1),
        actions=rows[..., None],
        inputs=np.zeros((steps, envs, 4), np.float32),
        logp=rows,
        values=rows,
        rewards=rows,
        terminated=ends,
        truncated=ends,
        following=rows,
        cut=np.zeros((0, 2), int),
        last=np.zeros((0, 2), np.float32),
        open=np.zeros((envs, 2), np.float32),
    )
    found = columns_of(own)
    assert found["rewards"].reshape(-1).tolist() == [0, 2, 4, 1, 3, 5]
    assert found["obs"].tolist() == [[one, -one] for one in (0, 2, 4, 1, 3, 5)]


def test_samples_count_their_steps_for_one_agent_and_for_several():
    found = []
    algorithm = ppo().callbacks(on_sample_end=lambda samples, **_: found.append(samples)).build_algo()
    algorithm.train()
    assert sum(samples.count for samples in found) == sum(map(len, found)) == ENVS * STEPS
    assert sum(samples["rewards"].size for samples in found) == ENVS * STEPS
    algorithm.stop()
    found.clear()
    made = ppo(make_multi_agent(lambda config: Numbered())).environment(env_config={"num_agents": 2})
    made.multi_agent(policies={"p0", "p1"}, policy_mapping_fn=lambda agent, *_, **__: f"p{agent}")
    algorithm = made.callbacks(on_sample_end=lambda samples, **_: found.append(samples)).build_algo()
    algorithm.train()
    assert sum(samples.count for samples in found) == ENVS * STEPS
    assert sum(samples.agent_steps() for samples in found) == 2 * ENVS * STEPS
    for name in ("p0", "p1"):
        assert sum(len(samples[name]["obs"]) for samples in found) == ENVS * STEPS
        assert sum(samples.policy_batches[name].count for samples in found) == ENVS * STEPS
    algorithm.stop()


def test_callbacks_about_episodes_see_all_environments_and_their_own():
    found = []

    class Watch(DefaultCallbacks):
        def on_episode_end(self, *, worker, base_env, policies, episode, env_index, **kwargs):
            envs = base_env.get_sub_environments()
            found.append(([env.index for env in base_env.envs], envs[env_index].index == env_index == base_env.index))

    algorithm = ppo().callbacks(Watch).build_algo()
    algorithm.train()
    assert len(found) == ENVS * STEPS // 5
    assert all(one == ([0, 1, 2], True) for one in found)
    algorithm.stop()


def test_the_logger_knows_what_the_result_says():
    found = []

    def look(metrics_logger, result, **_):
        found.append(metrics_logger.peek(("env_runners", "episode_return_mean")) == result["episode_reward_mean"])
        found.append(metrics_logger.peek(("env_runners", "x"), default=7))
        with pytest.raises(KeyError):
            metrics_logger.peek(("env_runners", "x"))

    algorithm = ppo().callbacks(on_train_result=look).build_algo()
    algorithm.train()
    assert found == [True, 7]
    algorithm.stop()
