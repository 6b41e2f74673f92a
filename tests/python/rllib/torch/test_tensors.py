"""Built-in networks asked with torch's tensors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.core.rl_module import RLModule
from eagleray.rllib.policy.policy import Policy

pytestmark = pytest.mark.usefixtures("shared_ray")


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_cell_size": 8}], ids=["plain", "with a memory"])
def test_tensors_are_answered_with_tensors(model):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    algo = config.training(model={"fcnet_hiddens": [8], **model}).build_algo()
    try:
        module = algo.get_module()
        state = {"state_in": {"h": torch.ones(3, 8), "c": torch.ones(3, 8)}} if model else {}
        found = module.forward_inference({"obs": torch.zeros(3, 4), **state})
        arrays = {"state_in": {name: part.numpy() for name, part in state["state_in"].items()}} if model else {}
        expected = module.forward_inference({"obs": np.zeros((3, 4), np.float32), **arrays})
        assert isinstance(found["action_dist_inputs"], torch.Tensor)
        assert torch.equal(found["action_dist_inputs"], torch.from_numpy(expected["action_dist_inputs"].copy()))
        if model:
            assert torch.equal(found["state_out"]["c"], torch.from_numpy(expected["state_out"]["c"]))
    finally:
        algo.stop()


def linear(observation_space, action_space, num_outputs):
    return torch.nn.Linear(observation_space.shape[0], num_outputs)


def test_a_model_of_one_s_own_acts_without_its_algorithm(tmp_path):
    config = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    algo = config.training(model={"custom_model": linear}).build_algo()
    seen = np.array([[0.1, -0.2, 0.3, 0.4]], np.float32)
    expected = algo.get_policy().inputs(seen)
    path = algo.save_to_path(tmp_path / "checkpoint")
    algo.stop()
    policy = Policy.from_checkpoint(path)["default_policy"]
    assert np.array_equal(policy.inputs(seen), expected)
    assert policy.compute_single_action(seen[0], explore=False)[0] == expected[0].argmax()
    module = RLModule.from_checkpoint(path)["default_policy"]
    assert isinstance(module, torch.nn.Linear)
    assert np.allclose(module(torch.from_numpy(seen)).detach().numpy(), expected, atol=1e-6)
