"""Agents that act by policies of their own, one of which does not learn."""

import ray
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv

ray.init(num_cpus=2)


class Guess(MultiAgentEnv):
    """Each says whether its number is above a half."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["first", "second"]
        self.observation_spaces = {name: Box(0.0, 1.0, (1,)) for name in self.agents}
        self.action_spaces = {name: Discrete(2) for name in self.agents}

    def _look(self):
        self.seen = {name: self.observation_spaces[name].sample() for name in self.agents}
        return self.seen

    def reset(self, *, seed=None, options=None):
        self.left = 10
        return self._look(), {}

    def step(self, actions):
        rewards = {name: float((self.seen[name][0] > 0.5) == bool(action)) for name, action in actions.items()}
        self.left -= 1
        over = self.left == 0
        return self._look(), rewards, {"__all__": over}, {"__all__": False}, {}


config = (
    PPOConfig()
    .environment(Guess)
    .env_runners(num_env_runners=0)
    .training(train_batch_size=400, minibatch_size=100, num_epochs=2)
    .multi_agent(
        policies={"learns", "stays"},
        policy_mapping_fn=lambda agent_id, episode, **kwargs: "learns" if agent_id == "first" else "stays",
        policies_to_train=["learns"],
    )
)
algorithm = config.build_algo()
before = algorithm.get_policy("stays").get_weights()
result = algorithm.train()
after = algorithm.get_policy("stays").get_weights()
assert all((before[name] == after[name]).all() for name in before)
assert set(result["learners"]) - {"__all_modules__"} == {"learns"}, result["learners"].keys()
algorithm.stop()
print("ok")
