"""What callbacks are given, over the real engine: batches with columns, all environments of a runner, numbers of the result."""

import logging
import os
import re

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib.algorithms import DQNConfig, PPOConfig
from eagleray.rllib.callbacks import DefaultCallbacks
from eagleray.rllib.callbacks._hooks import NAMES
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


ABOUT_EPISODES = {
    "episode",
    "env_runner",
    "worker",
    "metrics_logger",
    "env",
    "base_env",
    "env_index",
    "rl_module",
    "policies",
}
RECREATED = {"algorithm", "env_runner_group", "env_runner_indices", "worker_set", "worker_ids", "is_evaluation"}
#: What RLlib calls each with, over its versions.
GIVEN = {
    "on_algorithm_init": {"algorithm", "metrics_logger"},
    "on_train_result": {"algorithm", "metrics_logger", "result"},
    "on_evaluate_start": {"algorithm", "metrics_logger"},
    "on_evaluate_end": {"algorithm", "metrics_logger", "evaluation_metrics"},
    "on_env_runners_recreated": RECREATED,
    "on_workers_recreated": RECREATED,
    "on_checkpoint_loaded": {"algorithm", "metrics_logger"},
    "on_create_policy": {"policy_id", "policy"},
    "on_learn_on_batch": {"policy", "train_batch", "result"},
    "on_environment_created": {"env_runner", "metrics_logger", "env", "env_context"},
    "on_sub_environment_created": {"worker", "sub_environment", "env_context", "env_index"},
    "on_episode_created": ABOUT_EPISODES,
    "on_episode_start": ABOUT_EPISODES,
    "on_episode_step": ABOUT_EPISODES,
    "on_episode_end": ABOUT_EPISODES | {"prev_episode_chunks"},
    "on_sample_end": {"env_runner", "worker", "metrics_logger", "samples"},
}
#: Needs a runner that fails: see below.
ON_FAILURE = {"on_env_runners_recreated", "on_workers_recreated"}


TOLD = {}


class Noting:
    """Notes what it is called with, apart from itself: a checkpoint holds the configuration and so its functions."""

    def __init__(self, *key):
        self.key = key

    def __call__(self, **given):
        TOLD.setdefault(self.key, []).append(given)


# `callbacks(on_learn_on_batch=function)` was refused.
@pytest.mark.parametrize("several", [False, True])
def test_every_hook_may_be_a_function_or_several_and_gets_what_rllib_gives(several, tmp_path):
    assert set(GIVEN) == NAMES
    TOLD.clear()
    made = ppo().evaluation(evaluation_interval=1, evaluation_duration=1)
    made.callbacks(**{n: [Noting(n, 0), Noting(n, 1)] if several else Noting(n, 0) for n in GIVEN})
    algorithm = made.build_algo()
    algorithm.train()
    algorithm.restore(algorithm.save(str(tmp_path)).path)
    assert set(TOLD) == {(name, number) for name in set(GIVEN) - ON_FAILURE for number in range(1 + several)}
    for (name, number), calls in TOLD.items():
        assert calls[0].keys() >= GIVEN[name], name
        assert len(calls) == len(TOLD[name, 0]), number
    first = {name: TOLD[name, 0][0] for name in set(GIVEN) - ON_FAILURE}
    assert first["on_create_policy"]["policy"].get_weights().keys() == algorithm.get_policy().get_weights().keys()
    assert [given["env_index"] for given in TOLD["on_sub_environment_created", 0]][:ENVS] == [0, 1, 2]
    # Policies and networks are those that programs know, not the engine's.
    about = first["on_episode_start"]
    assert about["policies"]["default_policy"].compute_single_action(np.zeros(2, np.float32))[0] in range(4)
    found = about["rl_module"].forward_inference({"obs": np.zeros((3, 2), np.float32)})
    assert found["action_dist_inputs"].shape == (3, 4)
    TOLD.clear()
    algorithm.stop()


class Dies(Numbered):
    """Ends its process once."""

    def __init__(self, config):
        super().__init__(config)
        self.sign = config["sign"]

    def step(self, action):
        if self.at == 3 and not os.path.exists(self.sign):
            with open(self.sign, "w"):
                pass
            os._exit(1)
        return super().step(action)


@pytest.mark.parametrize("evaluated", [False, True])
def test_whoever_hears_of_a_new_runner_is_told_of_which_group(shared_ray, tmp_path, evaluated):
    told = []
    there = {"evaluation_num_env_runners": 1} if evaluated else {}
    made = ppo(Dies).environment(env_config={"sign": str(tmp_path / "died")}).evaluation(evaluation_duration=1, **there)
    made.env_runners(num_env_runners=0 if evaluated else 1)
    made.callbacks(**{n: lambda n=n, **given: told.append((n, given)) for n in ON_FAILURE})
    if evaluated:
        (tmp_path / "died").touch()
    algorithm = made.build_algo()
    if evaluated:
        (tmp_path / "died").unlink()
        algorithm.evaluate()
    else:
        algorithm.train()
    assert {name for name, _ in told} == ON_FAILURE
    for name, given in told:
        assert given.keys() >= GIVEN[name]
        assert given["is_evaluation"] is evaluated
        group = algorithm.eval_env_runner_group if evaluated else algorithm.env_runner_group
        assert given["env_runner_group"] is given["worker_set"] is group
        assert given["env_runner_indices"] == given["worker_ids"] == [1]
    algorithm.stop()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"on_epsiode_end": print}, "unexpected keyword argument 'on_epsiode_end'. Did you mean 'on_episode_end'?"),
        ({"on_learned_on_batch": print}, "Did you mean 'on_learn_on_batch'?"),
        ({"on_xyz": print}, "There are on_algorithm_init, "),
        ({"on_train_result": 3}, "on_train_result must be a function or a list of functions, not 3"),
        ({"on_train_result": [print, None]}, "a list of functions, not None"),
        ({"on_postprocess_trajectory": print}, "not called here"),
    ],
)
def test_names_that_nobody_calls_are_refused_with_the_nearest(given, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        ppo().callbacks(**given)
    # The oldest form: one dictionary.
    with pytest.raises(TypeError, match=re.escape(text)):
        PPOConfig().update_from_dict({"env": Numbered, "callbacks": given}).build_algo()


def test_a_class_that_wants_trajectories_is_warned(caplog):
    class Watch(DefaultCallbacks):
        def on_postprocess_trajectory(self, **kwargs):
            pass

    with caplog.at_level(logging.WARNING, "eagleray.rllib"):
        ppo().callbacks(Watch).validate()
    assert "Watch.on_postprocess_trajectory is not called here" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "eagleray.rllib"):
        ppo().callbacks(DefaultCallbacks).validate()
    assert not caplog.text
