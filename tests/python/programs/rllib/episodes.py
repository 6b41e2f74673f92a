"""Episodes that a program makes, fills, cuts and joins."""

import gymnasium as gym
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

env = gym.make("CartPole-v1")
episode = SingleAgentEpisode(observation_space=env.observation_space, action_space=env.action_space)
observation, infos = env.reset(seed=1)
episode.add_env_reset(observation, infos)
for _ in range(6):
    action = env.action_space.sample()
    observation, reward, terminated, truncated, infos = env.step(action)
    episode.add_env_step(
        observation,
        action,
        reward,
        infos,
        terminated=terminated,
        truncated=truncated,
        extra_model_outputs={"action_logp": -0.7},
    )
assert (len(episode), episode.get_return()) == (6, 6.0)
assert (episode.get_observations(-1) == observation).all()
assert episode.get_extra_model_outputs("action_logp") == [-0.7] * 6
assert len(episode[2:4]) == 2
successor = episode.cut(len_lookback_buffer=3)
assert (len(successor), successor.t_started) == (0, 6)
assert len(successor.get_rewards([-3, -2, -1])) == 3
observation, reward, *_ = env.step(0)
successor.add_env_step(observation, 0, reward, extra_model_outputs={"action_logp": -0.1})
episode.concat_episode(successor)
assert len(episode) == 7
assert episode.to_numpy().get_observations().shape == (8, 4)
assert episode.get_sample_batch()["new_obs"].shape == (7, 4)
print("ok")
