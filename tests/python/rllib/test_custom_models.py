"""What is said of models of a program's own before torch is needed for anything."""

import pytest

from eagleray.rllib.algorithms.es import ESConfig
from eagleray.rllib.algorithms.ppo import PPO, PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig
from eagleray.rllib.core.rl_module.rl_module import RLModuleSpec
from eagleray.rllib.models import ModelCatalog
from eagleray.rllib.utils import framework
from eagleray.rllib.utils.error import CustomModelError, MissingPackageError


def a_model(*_):
    raise AssertionError("it is not made")


def ppo(**model):
    return PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).training(model=model)


def test_without_torch_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(framework, "has_torch", lambda: False)
    expected = r"framework='torch' with a custom model needs torch: pip install 'eagleray\[torch\]'"
    with pytest.raises(MissingPackageError, match=expected):
        ppo(custom_model=a_model).build_algo()
    with pytest.raises(MissingPackageError, match=expected):
        ppo().rl_module(rl_module_spec=RLModuleSpec(module_class=object)).build_algo()


def test_built_in_networks_need_no_torch_whatever_the_framework_is_called(monkeypatch):
    monkeypatch.setattr(framework, "has_torch", lambda: False)
    algo = ppo().framework("torch").training(train_batch_size_per_learner=128, num_epochs=1).build_algo()
    try:
        assert algo.train()["num_env_steps_sampled_lifetime"] >= 128
        assert not isinstance(algo.get_module(), type(algo.get_policy().model))
    finally:
        algo.stop()


@pytest.mark.parametrize(("config", "env"), [(SACConfig, "Pendulum-v1"), (ESConfig, "CartPole-v1")])
def test_algorithms_that_cannot_learn_with_them_say_so(config, env):
    given = config().environment(env).env_runners(num_env_runners=0)
    with pytest.raises(CustomModelError, match="built-in networks only; those that take a model of your own are PPO"):
        given.training(model={"custom_model": a_model}).build_algo()


def test_another_framework_is_refused():
    with pytest.raises(CustomModelError, match="framework='tf2' does not run them"):
        ppo(custom_model=a_model).framework("tf2").build_algo()


def test_a_name_that_nobody_registered_is_refused_with_the_nearest():
    ModelCatalog.register_custom_model("my_model", a_model)
    with pytest.raises(CustomModelError, match="'my_modle'. Did you mean 'my_model'"):
        ppo(custom_model="my_modle").build_algo()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"custom_model": a_model, "use_lstm": True}, "cannot be wrapped in a memory"),
        ({"custom_action_dist": "mine"}, "`custom_action_dist` is not available"),
        ({"custom_preprocessor": "mine"}, "`custom_preprocessor` is not available"),
    ],
)
def test_what_models_of_ones_own_cannot_have_is_refused(model, said):
    with pytest.raises(CustomModelError, match=said):
        ppo(**model).build_algo()


@pytest.mark.parametrize(("model", "gpus"), [({"custom_model": a_model}, 1.0), ({}, None)])
def test_a_trial_sets_a_gpu_aside_where_something_will_use_it(shared_ray, model, gpus):
    request = PPO.default_resource_request(ppo(**model).resources(num_gpus=1))
    assert request.bundles[0].get("GPU") == gpus


def test_a_spec_must_be_one():
    with pytest.raises(CustomModelError, match="is RLModuleSpec"):
        ppo().rl_module(rl_module_spec=object).build_algo()


# It was None, and programs that count parameters or print the network stopped there.
@pytest.mark.parametrize(("kind", "env"), [(PPOConfig, "CartPole-v1"), (SACConfig, "Pendulum-v1")])
def test_a_built_in_network_can_be_looked_at(kind, env):
    algo = kind().environment(env).env_runners(num_env_runners=0).build_algo()
    policy = algo.get_policy()
    model, weights = policy.model, policy.get_weights()
    assert {name: one.tolist() for name, one in model.variables(as_dict=True).items()} == {
        name: one.tolist() for name, one in weights.items()
    }
    assert [one.shape for one in model.variables()] == [one.shape for one in weights.values()]
    assert len(model.trainable_variables()) == len(weights)
    assert model.num_parameters == sum(one.size for one in weights.values())
    lines = repr(model).splitlines()
    assert lines[0] == f"{kind.ENGINE} network of default_policy, {model.num_parameters:,} parameters"
    assert len(lines) == 1 + len(weights)
    name, one = next(iter(weights.items()))
    assert lines[1].split(maxsplit=1) == [name, " x ".join(map(str, one.shape))]
    assert (model.obs_space, model.action_space) == (policy.observation_space, policy.action_space)
    # It is what the policy has now.
    policy.set_weights({name: one + 1 for name, one in weights.items()})
    assert (model.variables(as_dict=True)[name] == one + 1).all()
    algo.stop()


def test_a_built_in_network_says_what_it_cannot_do():
    algo = ppo().build_algo()
    model = algo.get_policy().model
    assert not hasattr(model, "parameters")
    with pytest.raises(AttributeError, match=r"no torch module and has no 'parameters': .*export.to_torch"):
        model.parameters()
    with pytest.raises(TypeError, match="not called from Python: .*export.to_torch"):
        model({"obs": 0})
    with pytest.raises(AttributeError, match="cannot be changed by setting 'x'"):
        model.x = 1
    with pytest.raises(ValueError, match="read-only"):
        model.variables()[0][:] = 0
    algo.stop()
