"""Settings in all their forms: methods, attributes, dictionaries, copies that are frozen."""

from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.registry import get_algorithm_class
from ray.rllib.algorithms.sac import SACConfig

config = PPOConfig().environment("CartPole-v1").training(lr=0.01, gamma=0.9).env_runners(num_env_runners=2)
assert (config.lr, config.gamma, config.num_env_runners, config.env) == (0.01, 0.9, 2, "CartPole-v1")
config.lr = 0.02
assert config["lr"] == config.to_dict()["lr"] == 0.02
copied = config.copy(copy_frozen=False)
copied.training(lr=0.03)
assert config.lr == 0.02
config.freeze()
try:
    config.lr = 0.5
except AttributeError as error:
    print(error)
else:
    raise AssertionError("a frozen configuration was changed")
try:
    PPOConfig().training(learning_speed=3)
except TypeError as error:
    print(error)
else:
    raise AssertionError("an unknown setting was taken")
changed = DQNConfig().update_from_dict({"env": "CartPole-v1", "num_workers": 3})
assert changed.num_env_runners == 3
assert get_algorithm_class("PPO") is PPOConfig().algo_class
assert SACConfig().twin_q
print("ok")
