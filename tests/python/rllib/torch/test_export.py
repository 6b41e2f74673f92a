"""Policies that were trained natively, as modules of torch: they say what the native networks say."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.python.rllib.test_export import POLICIES, native_inputs, observations

from eagleray.rllib import export
from eagleray.rllib._engine import _safetensors
from eagleray.rllib.utils.error import CustomModelError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", POLICIES)
def test_torch_s_module_says_what_the_native_network_says(name, tmp_path):
    algo = POLICIES[name]().build_algo()
    try:
        algo.train()
        observed = observations(algo)
        expected, memory = native_inputs(algo, observed)
        module = export.to_torch(algo.save_to_path(str(tmp_path)))
        assert isinstance(module, torch.nn.Module)
        weights, tensors = algo.get_policy().get_weights(), module.state_dict()
        assert weights.keys() == tensors.keys()
        for tensor, value in weights.items():
            # Filters over pictures have torch's order there.
            wanted = value.transpose(0, 3, 1, 2) if value.ndim == 4 else value
            assert np.array_equal(tensors[tensor].numpy(), wanted)
        with torch.no_grad():
            found = module(torch.from_numpy(observed))
        if memory is not None:
            found, state = found
            assert np.allclose(state.numpy(), memory, atol=1e-5)
        assert np.allclose(found.numpy(), expected, atol=1e-5), np.abs(found.numpy() - expected).max()
        # Numpy's function is the same again.
        other = export.to_numpy(algo)[1](observed)
        assert np.allclose(found.numpy(), other[0] if memory is not None else other, atol=1e-5)
    finally:
        algo.stop()


@pytest.mark.parametrize("name", ["PPO", "PPO of pictures, shared", "PPO with a memory", "DQN"])
def test_it_says_what_states_are_worth(name):
    algo = POLICIES[name]().build_algo()
    try:
        observed = observations(algo)
        policy = algo.acting("default_policy")
        rows = algo.get_policy().rows(list(observed))
        if policy.native.state_size:
            policy.native.set_states(bytes(4 * policy.native.state_size * len(rows)))
        inputs, _, values = policy.native.act(rows, "best", 0.0, np.empty((len(rows), 1), np.float32))
        expected = np.frombuffer(values, np.float32)
        if name == "DQN":
            expected = np.frombuffer(inputs, np.float32).reshape(len(rows), -1).max(-1)
        with torch.no_grad():
            found = export.to_torch(algo).values(torch.from_numpy(observed)).numpy()
        assert np.allclose(found, expected, atol=1e-5)
    finally:
        algo.stop()


def test_a_model_of_one_s_own_needs_no_export(tmp_path):
    def make(observation_space, action_space, num_outputs):
        return torch.nn.Linear(4, num_outputs)

    algo = POLICIES["DQN"]().training(model={"custom_model": make}).build_algo()
    try:
        with pytest.raises(CustomModelError, match="it is a torch module already"):
            export.to_torch(algo)
        path = algo.get_policy().export_model(str(tmp_path))
        arrays, _, _ = _safetensors.unpack((Path(path) / "module_state.safetensors").read_bytes())
        assert {name: array.shape for name, array in arrays.items()} == {"weight": (2, 4), "bias": (2,)}
    finally:
        algo.stop()
