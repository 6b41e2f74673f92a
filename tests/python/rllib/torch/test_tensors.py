"""Built-in networks asked with torch's tensors."""

import numpy as np
import pytest
import torch

from eagleray.rllib.algorithms.ppo import PPOConfig

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
