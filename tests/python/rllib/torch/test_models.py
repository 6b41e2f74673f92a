"""Models of a program's own, in each of the ways in which programs write them: they act, learn, are saved and go on."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gymnasium as gym
from torch import nn

from eagleray import tune
from eagleray.rllib._engine.torch._threads import worth
from eagleray.rllib.algorithms._built_in import BuiltInModel
from eagleray.rllib.algorithms.a2c import A2CConfig
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.impala import IMPALAConfig
from eagleray.rllib.algorithms.ppo import PPOConfig, PPOTrainer
from eagleray.rllib.core.columns import Columns
from eagleray.rllib.core.rl_module.apis import ValueFunctionAPI
from eagleray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from eagleray.rllib.core.rl_module.rl_module import RLModuleSpec
from eagleray.rllib.core.rl_module.torch import TorchRLModule
from eagleray.rllib.env.multi_agent_env import make_multi_agent
from eagleray.rllib.models import ModelCatalog
from eagleray.rllib.models.torch.fcnet import FullyConnectedNetwork
from eagleray.rllib.models.torch.torch_modelv2 import TorchModelV2
from eagleray.rllib.policy.policy import PolicySpec
from eagleray.rllib.utils.error import CustomModelError, NotFiniteError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.timeout(240)]


class OldModel(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name, **mine):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        size = mine.get("size", model_config["custom_model_config"].get("size", 32))
        self.body = nn.Sequential(nn.Linear(obs_space.shape[0], size), nn.Tanh())
        self.chooses, self.values = nn.Linear(size, num_outputs), nn.Linear(size, 1)
        self.features = None

    def forward(self, input_dict, state, seq_lens):
        self.features = self.body(input_dict["obs"].float())
        return self.chooses(self.features), state

    def value_function(self):
        return self.values(self.features).squeeze(1)


class WrapsFcnet(TorchModelV2, nn.Module):
    """As most examples of its time have it."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.inner = FullyConnectedNetwork(obs_space, action_space, num_outputs, model_config, name)

    def forward(self, input_dict, state, seq_lens):
        input_dict["obs"] = input_dict["obs"].float()
        outputs, _ = self.inner(input_dict, state, seq_lens)
        return outputs, []

    def value_function(self):
        return torch.reshape(self.inner.value_function(), [-1])


class NewModule(TorchRLModule, ValueFunctionAPI):
    def setup(self):
        size = self.model_config["size"]
        outputs = self.action_space.n if hasattr(self.action_space, "n") else 2 * self.action_space.shape[0]
        self.body = nn.Sequential(nn.Linear(self.observation_space.shape[0], size), nn.Tanh())
        self.chooses, self.values = nn.Linear(size, int(outputs)), nn.Linear(size, 1)

    def _forward(self, batch, **kwargs):
        features = self.body(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self.chooses(features), Columns.EMBEDDINGS: features}

    def compute_values(self, batch, embeddings=None):
        features = self.body(batch[Columns.OBS]) if embeddings is None else embeddings
        return self.values(features).squeeze(-1)


class Plain(nn.Module):
    def __init__(self, observation_space, action_space, num_outputs, size=32, dropout=0.0):
        super().__init__()
        seen = math.prod(observation_space.shape)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(seen, size), nn.Tanh(), nn.Dropout(dropout))
        self.chooses, self.values = nn.Linear(size, num_outputs), nn.Linear(size, 1)

    def forward(self, observed):
        features = self.body(observed)
        return self.chooses(features), self.values(features)


def valued(observation_space, action_space, num_outputs):
    return nn.Sequential(nn.Linear(observation_space.shape[0], 32), nn.ReLU(), nn.Linear(32, num_outputs))


def stubborn(observation_space, action_space, num_outputs):
    """Begins with the first action, wherever it is."""
    made = valued(observation_space, action_space, num_outputs)
    made[-1].weight.data.zero_()
    made[-1].bias.data.copy_(-torch.arange(float(num_outputs)))
    return made


class Threaded(Plain):
    """Notes how many threads it was called with."""

    used = set()

    def forward(self, observed):
        self.used.add(torch.get_num_threads())
        return super().forward(observed)


def ppo(env="CartPole-v1", **settings):
    config = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=4)
    training = {"lr": 3e-3, "train_batch_size_per_learner": 256, "minibatch_size": 64, "num_epochs": 4, "lambda_": 0.95}
    return config.training(**(training | settings), vf_clip_param=1000.0).framework("torch").debugging(seed=1)


def short(config, env="CartPole-v1"):
    config.environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=2).debugging(seed=1)
    return config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)


def by_name():
    ModelCatalog.register_custom_model("old", OldModel)
    return {"custom_model": "old", "custom_model_config": {"size": 16}}


def new_module(config, **more):
    return config.rl_module(rl_module_spec=RLModuleSpec(module_class=NewModule, model_config={"size": 16}, **more))


EAGER = {"num_steps_sampled_before_learning_starts": 0, "replay_buffer_config": {"capacity": 500}}
WAYS = {
    "PPO, old": lambda: ppo(model=by_name()),
    "PPO, old around the built-in": lambda: ppo(model={"custom_model": WrapsFcnet, "fcnet_hiddens": [16]}),
    "PPO, new": lambda: new_module(ppo()),
    "PPO, plain": lambda: ppo(model={"custom_model": Plain, "custom_model_config": {"size": 16}}),
    "PPO, numbers": lambda: ppo("Pendulum-v1", model={"custom_model": Plain}),
    "PPO, states": lambda: ppo("FrozenLake-v1", model={"custom_model": Plain}),
    "PPO, filtered": lambda: ppo(model={"custom_model": Plain}).env_runners(observation_filter="MeanStdFilter"),
    "PPO, drops out": lambda: ppo(model={"custom_model": Plain, "custom_model_config": {"dropout": 0.2}}),
    "A2C": lambda: short(A2CConfig()).training(model={"custom_model": Plain}),
    "A2C, RMSprop": lambda: short(A2CConfig()).training(
        opt_type="rmsprop", momentum=0.5, model={"custom_model": Plain}
    ),
    "IMPALA": lambda: short(IMPALAConfig()).training(model={"custom_model": Plain}),
    "PPO, an actor": lambda: ppo(model={"custom_model": Plain}).env_runners(num_env_runners=1),
    "IMPALA, an actor": lambda: (
        short(IMPALAConfig()).training(model={"custom_model": Plain}).env_runners(num_env_runners=1)
    ),
    "DQN, old": lambda: short(DQNConfig()).training(model=by_name(), **EAGER),
    "DQN, old without heads": lambda: short(DQNConfig()).training(model=by_name(), hiddens=[], **EAGER),
    "DQN, new": lambda: new_module(short(DQNConfig())).training(**EAGER),
    "DQN, plain, stored": lambda: short(DQNConfig()).training(
        model={"custom_model": valued}, n_step=3, store_buffer_in_checkpoints=True, **EAGER
    ),
    "DQN, an actor, stored": lambda: (
        short(DQNConfig())
        .training(model={"custom_model": valued}, store_buffer_in_checkpoints=True, **EAGER)
        .env_runners(num_env_runners=1)
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_write_one_learns_acts_and_goes_on_bit_for_bit(way, tmp_path):
    algo = WAYS[way]().build_algo()
    try:
        before = algo.get_policy().get_weights()
        result = algo.train()
        assert all(math.isfinite(value) for value in result["learners"]["default_policy"].values())
        after = algo.get_policy().get_weights()
        assert before.keys() == after.keys()
        assert any(np.any(before[name] != after[name]) for name in before)
        path = algo.save_to_path(str(tmp_path))
        # DQN without its replay draws from other rows than it would have.
        goes_on = "DQN" not in way or "stored" in way
        later = algo.train()
        weights = algo.get_policy().get_weights()
    finally:
        algo.stop()
    again = Algorithm.from_checkpoint(path)
    try:
        restored = again.get_policy().get_weights()
        assert all(np.array_equal(after[name], restored[name]) for name in after)
        other = again.train()
        assert other["training_iteration"] == later["training_iteration"]
        if goes_on:
            returns = [one["env_runners"].get("episode_return_mean") for one in (other, later)]
            assert returns[0] == returns[1]
            others = again.get_policy().get_weights()
            assert all(np.array_equal(weights[name], others[name]) for name in weights)
    finally:
        again.stop()


@pytest.mark.parametrize(("lr", "learns"), [(3e-3, True), (0.0, False)])
def test_ppo_with_a_model_of_ones_own_balances_the_pole_unless_its_steps_have_no_size(lr, learns):
    model = {"custom_model": Plain, "custom_model_config": {"size": 64}}
    config = ppo(lr=lr, model=model, train_batch_size_per_learner=2048, minibatch_size=128, num_epochs=8)
    algo = config.env_runners(num_envs_per_env_runner=8).build_algo()
    try:
        best = max(algo.train()["env_runners"]["episode_return_mean"] for _ in range(14 if learns else 4))
    finally:
        algo.stop()
    assert best > 150 if learns else best < 60, best


@pytest.mark.parametrize(("lr", "learns"), [(3e-3, True), (0.0, False)])
def test_dqn_with_a_model_of_ones_own_finds_the_way_through_a_corridor_unless_its_steps_have_no_size(lr, learns):
    config = short(DQNConfig(), "Corridor-v0").training(model={"custom_model": stubborn}, lr=lr, **EAGER)
    config.training(epsilon=[[0, 1.0], [800, 0.05]], target_network_update_freq=50)
    algo = config.reporting(min_sample_timesteps_per_iteration=1000).build_algo()
    try:
        lengths = [algo.train()["env_runners"]["episode_len_mean"] for _ in range(3)]
    finally:
        algo.stop()
    # Where no episode ended there is no length.
    assert (lengths[-1] < 60) is learns, lengths


def test_advantages_are_scaled_among_the_rows_of_the_batch_or_of_each_minibatch():
    found = {}
    for size in (64, 256):
        for scaling in ("batch", "minibatch"):
            config = ppo(model={"custom_model": Plain}, minibatch_size=size, advantage_scaling=scaling)
            algo = config.build_algo()
            try:
                algo.train()
                found[size, scaling] = algo.get_policy().get_weights()["chooses.weight"]
            finally:
                algo.stop()
    assert not np.allclose(found[64, "batch"], found[64, "minibatch"])
    assert np.allclose(found[256, "batch"], found[256, "minibatch"], atol=1e-6)


def test_runners_in_other_processes_act_by_it_with_one_thread_and_the_learner_s_weights():
    algo = ppo(model=by_name()).env_runners(num_env_runners=1).build_algo()
    try:
        algo.train()
        mine = algo.get_policy().get_weights()

        def look(runner):
            import torch

            policy = runner.policies["default_policy"]
            return torch.get_num_threads(), {name: one.numpy() for name, one in policy.network.tensors().items()}

        ((threads, theirs),) = algo.env_runner_group.foreach_env_runner(look, local_env_runner=False)
        assert threads == 1
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    finally:
        algo.stop()


def test_the_program_s_own_threads_are_left_as_they_are():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        algo = ppo(model={"custom_model": Threaded}).build_algo()
        try:
            algo.train()
            assert algo.get_policy().model.used == {1}
            assert torch.get_num_threads() == 2
            small, large, filters = nn.Linear(64, 64).weight, nn.Linear(1024, 1024).weight, nn.Conv2d(1, 1, 3).weight
            assert [worth([one], 256) for one in (small, large, filters)] == [1, 2, 2]
        finally:
            algo.stop()
    finally:
        torch.set_num_threads(before)


def test_weights_can_be_read_and_set_and_actions_follow_from_them():
    algo = ppo(model=by_name()).build_algo()
    try:
        policy = algo.get_policy()
        weights = policy.get_weights()
        assert weights["chooses.weight"].shape == (2, 16)
        weights = {name: np.zeros_like(value) for name, value in weights.items()}
        weights["chooses.bias"] = np.array([-5.0, 5.0], np.float32)
        policy.set_weights(weights)
        assert all(algo.compute_single_action(np.ones(4, np.float32)) == 1 for _ in range(20))
        actions, _, more = policy.compute_actions(np.zeros((3, 4), np.float32), explore=False)
        assert actions.tolist() == [1, 1, 1]
        assert np.allclose(more["action_dist_inputs"], [[-5.0, 5.0]] * 3)
        assert isinstance(policy.model, OldModel)
        with pytest.raises(CustomModelError, match="of another model"):
            policy.set_weights({"other": np.zeros(3, np.float32)})
        with pytest.raises(CustomModelError, match="has the shape"):
            policy.set_weights(weights | {"chooses.bias": np.zeros(3, np.float32)})
    finally:
        algo.stop()


def test_the_module_itself_is_what_newer_programs_get():
    algo = new_module(ppo()).build_algo()
    try:
        module = algo.get_module()
        assert isinstance(module, NewModule)
        seen = torch.zeros(5, 4)
        inputs = module.forward_inference({"obs": seen})["action_dist_inputs"].detach().numpy()
        assert np.allclose(inputs, algo.get_policy().inputs(seen.numpy()), atol=1e-6)
        assert module.get_state().keys() == algo.get_policy().get_weights().keys()
    finally:
        algo.stop()


def test_a_trial_of_tune_knows_what_was_registered_where_the_experiment_began(tmp_path):
    config = {"env": "CartPole-v1", "num_workers": 0, "framework": "torch", "model": by_name(), "train_batch_size": 256}
    found = tune.run("PPO", stop={"training_iteration": 1}, config=config, storage_path=str(tmp_path), verbose=0)
    assert found.trials[0].last_result["timesteps_total"] >= 256


def test_a_trainer_of_the_older_era_takes_it():
    trainer = PPOTrainer(env="CartPole-v1", config={"num_workers": 0, "model": by_name(), "train_batch_size": 256})
    try:
        trainer.train()
        assert trainer.compute_action(np.zeros(4, np.float32)) in (0, 1)
    finally:
        trainer.stop()


def test_one_policy_may_have_a_model_of_its_own_and_another_a_built_in_one():
    policies = {"mine": PolicySpec(), "named": PolicySpec(config={"model": by_name()}), "built_in": PolicySpec()}
    agents = dict(enumerate(policies))
    config = ppo(make_multi_agent("CartPole-v1")).environment(env_config={"num_agents": 3})
    config.multi_agent(policies=policies, policy_mapping_fn=lambda agent, *_, **__: agents[agent])
    spec = RLModuleSpec(module_class=NewModule, model_config={"size": 8})
    algo = config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"mine": spec})).build_algo()
    try:
        kinds = {name: type(algo.get_policy(name).model) for name in policies}
        assert kinds == {"mine": NewModule, "named": OldModel, "built_in": BuiltInModel}
        before = algo.get_weights()
        result = algo.train()
        assert set(result["learners"]) >= set(policies)
        after = algo.get_weights()
        for name in policies:
            assert any(np.any(before[name][key] != after[name][key]) for key in before[name])
    finally:
        algo.stop()


def test_runners_that_do_not_wait_for_the_learner_are_learned_from():
    config = short(IMPALAConfig()).env_runners(num_env_runners=2).training(model={"custom_model": Plain}, lr=1e-2)
    algo = config.reporting(min_sample_timesteps_per_iteration=2000).build_algo()
    try:
        said = algo.train()["learners"]["default_policy"]
        # Older policies made what is learned from, so that ratios of probabilities are not one.
        assert said["mean_ratio"] != 1.0
        assert 0.0 < said["mean_kl_loss"] < 1.0
    finally:
        algo.stop()


class Masking(gym.Env):
    """Only one of four actions is allowed at a time, and only that brings something."""

    def __init__(self, config=None):
        mask = gym.spaces.Box(0.0, 1.0, (4,), np.float32)
        self.observation_space = gym.spaces.Dict({"mask": mask, "state": gym.spaces.Discrete(4)})
        self.action_space = gym.spaces.Discrete(4)
        self.forbidden = 0

    def _seen(self):
        allowed = self.steps % 4
        return {"mask": np.eye(4, dtype=np.float32)[allowed], "state": allowed}

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._seen(), {}

    def step(self, action):
        assert action == self.steps % 4, "a forbidden action"
        self.steps += 1
        return self._seen(), 1.0, self.steps >= 10, False, {}


class Masked(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        assert set(obs_space.original_space.spaces) == {"mask", "state"}
        self.inner, self.values = nn.Linear(4, num_outputs), nn.Linear(4, 1)

    def forward(self, input_dict, state, seq_lens):
        self.state = input_dict["obs"]["state"]
        assert input_dict["obs_flat"].shape[1] == 8
        return self.inner(self.state) + torch.log(input_dict["obs"]["mask"]), state

    def value_function(self):
        return self.values(self.state)


def test_parts_of_an_observation_come_by_name_and_scores_of_minus_infinity_forbid():
    algo = ppo(Masking, model={"custom_model": Masked}).build_algo()
    try:
        result = algo.train()
        assert result["env_runners"]["episode_return_mean"] == 10.0
        assert result["learners"]["default_policy"]["entropy"] == pytest.approx(0.0, abs=1e-6)
    finally:
        algo.stop()


class Imitating(OldModel):
    """Wants nothing but weights of one."""

    def custom_loss(self, policy_loss, loss_inputs):
        assert loss_inputs["obs"].shape[1] == 4
        self.apart = sum((one - 1.0).pow(2).sum() for one in self.parameters())
        return [0.0 * policy_loss[0] + self.apart]

    def metrics(self):
        return {"apart": self.apart.item()}


def test_a_loss_and_metrics_of_the_model_s_own_count():
    algo = ppo(model={"custom_model": Imitating}, lr=0.05, num_epochs=10).build_algo()
    try:
        apart = [algo.train()["learners"]["default_policy"]["apart"] for _ in range(3)]
        assert apart[2] < 0.01 * apart[0]
        assert all(np.allclose(value, 1.0, atol=0.05) for value in algo.get_policy().get_weights().values())
    finally:
        algo.stop()


class Scribbling(Plain):
    def forward(self, observed):
        return super().forward(observed.mul_(0.0))


def test_a_model_that_writes_into_what_it_sees_changes_nothing_else():
    algo = ppo(model={"custom_model": Scribbling}).build_algo()
    try:
        rollout = algo.env_runner.sample(num_timesteps=8).rollouts["default_policy"][0]
        assert np.abs(rollout.observed).max() > 0.0
        algo.learners["default_policy"].update([rollout], algo.settings_now("default_policy"))
        assert np.abs(rollout.observed).max() > 0.0
    finally:
        algo.stop()


class Diverging(Plain):
    def forward(self, observed):
        outputs, values = super().forward(observed)
        return outputs, values * (float("nan") if self.training else 1.0)


def test_a_loss_that_is_no_number_stops_learning():
    algo = ppo(model={"custom_model": Diverging}).build_algo()
    try:
        with pytest.raises(NotFiniteError, match="learning stops here"):
            algo.train()
    finally:
        algo.stop()


class Remembers(OldModel):
    def get_initial_state(self):
        return [torch.zeros(3)]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda *_: object(), "is no torch.nn.Module"),
        (Remembers, "remembers"),
        (lambda seen, acted, outputs: nn.Linear(4, outputs), "says nothing of values"),
        (lambda seen, acted, outputs: nn.Linear(4, outputs + 1), "gives outputs of the shape"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(model, said):
    with pytest.raises(CustomModelError, match=said):
        ppo(model={"custom_model": model}).build_algo().train()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said():
    with pytest.raises(CustomModelError, match="torch sees none"):
        ppo(model={"custom_model": Plain}).resources(num_gpus=1).build_algo()
