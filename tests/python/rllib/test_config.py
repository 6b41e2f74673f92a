"""AlgorithmConfig: names of all eras, defaults, freezing, arithmetic, refusals."""

import pickle

import pytest

from eagleray import cloudpickle, tune
from eagleray.rllib.algorithms.a2c.a2c_config import A2CConfig
from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
from eagleray.rllib.algorithms.dqn.dqn_config import DQNConfig
from eagleray.rllib.algorithms.es.es_config import ESConfig
from eagleray.rllib.algorithms.impala.impala_config import IMPALAConfig
from eagleray.rllib.algorithms.ppo.ppo_config import PPOConfig
from eagleray.rllib.algorithms.sac.sac_config import SACConfig
from eagleray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from eagleray.rllib.policy.policy import PolicySpec

ALL = [PPOConfig, DQNConfig, A2CConfig, SACConfig, IMPALAConfig, ESConfig]


@pytest.mark.parametrize("config_class", ALL)
def test_defaults_are_valid_and_survive_every_way_round(config_class):
    config = config_class()
    config.validate()
    again = config_class.from_dict(config.to_dict())
    assert again.to_dict() == config.to_dict()
    assert cloudpickle.loads(cloudpickle.dumps(config)).to_dict() == config.to_dict()
    assert config.copy().to_dict() == config.to_dict()


# proves: Y1a
def test_methods_set_what_they_are_given_and_return_the_config():
    config = PPOConfig()
    same = (
        config.environment("CartPole-v1", env_config={"a": 1})
        .env_runners(num_env_runners=3, num_envs_per_env_runner=8)
        .training(lr=[[0, 1e-3], [1000, 1e-5]], gamma=0.9, train_batch_size_per_learner=2000, num_epochs=10)
        .learners(num_learners=0)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .evaluation(evaluation_interval=1, evaluation_duration=10)
        .multi_agent(policies={"p0", "p1"}, policy_mapping_fn=lambda aid, ep, **kw: f"p{aid}")
        .fault_tolerance(restart_failed_env_runners=True)
        .debugging(seed=0)
        .reporting(min_time_s_per_iteration=2)
        .framework("torch")
        .resources(num_gpus=0)
        .api_stack(enable_rl_module_and_learner=True)
        .checkpointing(export_native_model_files=False)
        .experimental(_validate_config=True)
        .callbacks(on_episode_end=print)
        .offline_data(output=None)
    )
    assert same is config
    assert (config.env, config.env_config, config.num_env_runners) == ("CartPole-v1", {"a": 1}, 3)
    assert config.total_train_batch_size == 2000
    assert config.network["fcnet_hiddens"] == [64, 64]
    assert config.callbacks_on_episode_end is print
    assert config.policy_of(1, None) == "p1"
    assert config.is_multi_agent
    config.validate()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("num_workers", "num_env_runners"),
        ("num_rollout_workers", "num_env_runners"),
        ("num_envs_per_worker", "num_envs_per_env_runner"),
        ("sgd_minibatch_size", "minibatch_size"),
        ("num_sgd_iter", "num_epochs"),
        ("lambda", "lambda_"),
        ("ignore_worker_failures", "ignore_env_runner_failures"),
        ("metrics_smoothing_episodes", "metrics_num_episodes_for_smoothing"),
        ("timesteps_per_iteration", "min_sample_timesteps_per_iteration"),
        ("evaluation_num_episodes", "evaluation_duration"),
    ],
)
def test_older_names_mean_the_newer_setting_everywhere(old, new):
    config = PPOConfig.from_dict({old: 7})
    assert getattr(config, new) == 7
    assert config[old] == config[new] == getattr(config, old) == 7
    config[old] = 8
    assert getattr(config, new) == 8
    setattr(config, old, 9)
    assert config[new] == 9
    assert old in config
    assert old not in config.to_dict() or old == "lambda"


def test_rollouts_and_exploration_are_older_methods():
    config = DQNConfig().rollouts(num_rollout_workers=1, num_envs_per_worker=2)
    config.exploration(exploration_config={"initial_epsilon": 0.5, "final_epsilon": 0.1, "epsilon_timesteps": 10})
    assert (config.num_env_runners, config.num_envs_per_env_runner) == (1, 2)
    assert config.epsilon == [[0, 0.5], [10, 0.1]]


@pytest.mark.parametrize(
    ("said", "schedule"),
    [
        (
            {"schedule_max_timesteps": 2000, "exploration_fraction": 0.5, "exploration_final_eps": 0.1},
            [[0, 1.0], [1000, 0.1]],
        ),
        ({"exploration_fraction": 0.2}, [[0, 1.0], [20000, 0.02]]),
    ],
)
def test_the_oldest_way_to_say_for_how_long_DQN_explores_has_an_effect(said, schedule):
    assert DQNConfig.from_old_dict({"env": "CartPole-v1", **said}).epsilon == schedule


def test_an_older_dictionary_becomes_newer_settings():
    config = DQNConfig.from_old_dict(
        {
            "env": "CartPole-v1",
            "buffer_size": 1000,
            "prioritized_replay": False,
            "prioritized_replay_alpha": 0.5,
            "learning_starts": 10,
            "model": {"fcnet_hiddens": [32]},
            "lr_schedule": [[0, 1.0], [10, 0.0]],
            "lr": 5.0,
            "monitor": True,
            "simple_optimizer": True,
        }
    )
    buffer = config.replay_buffer_config
    assert (buffer["capacity"], buffer["alpha"], buffer["beta"]) == (1000, 0.5, 0.4)
    assert buffer["type"] == "EpisodeReplayBuffer"
    assert config.num_steps_sampled_before_learning_starts == 10
    assert config.model["fcnet_hiddens"] == [32]
    assert config.model["fcnet_activation"] == "tanh", "the rest of the model is as it was"
    assert config.lr == [[0, 1.0], [10, 0.0]]


def test_a_dictionary_gets_the_defaults_of_its_era():
    assert DQNConfig().get_rollout_fragment_length() == 1
    assert DQNConfig().epsilon[-1] == [10000, 0.05]
    old = DQNConfig.from_old_dict({})
    assert old.get_rollout_fragment_length() == 4
    assert old.epsilon[-1] == [10000, 0.02]
    assert DQNConfig.from_old_dict({"rollout_fragment_length": 9}).rollout_fragment_length == 9


def test_who_ignored_failures_meant_no_replacing():
    assert PPOConfig.from_dict({"ignore_worker_failures": True}).restart_failed_env_runners is False
    both = PPOConfig.from_dict({"ignore_worker_failures": True, "recreate_failed_workers": True})
    assert both.restart_failed_env_runners is True


@pytest.mark.parametrize(
    "given", [{"learner_connector": len}, {"env_to_module_connector": len}, {"env_runner_cls": object}]
)
def test_what_is_not_there_is_refused_and_not_ignored(given):
    with pytest.raises(ValueError, match="is not available"):
        PPOConfig.from_dict(given).validate()


def test_a_dictionary_that_leaves_the_batch_alone_gets_a_result_every_three():
    assert PPOConfig.from_old_dict({"lr": 1.0}).min_sample_timesteps_per_iteration == 12_000
    assert PPOConfig.from_old_dict({"train_batch_size": 1000}).min_sample_timesteps_per_iteration == 0
    assert PPOConfig.from_old_dict({"timesteps_per_iteration": 5}).min_sample_timesteps_per_iteration == 5
    assert PPOConfig.from_old_dict(PPOConfig().to_dict()).min_sample_timesteps_per_iteration == 0
    assert PPOConfig().min_sample_timesteps_per_iteration == 0


def test_the_multiagent_dictionary():
    spec = (None, "obs", "act", {"gamma": 0.5})
    config = PPOConfig.from_dict(
        {"multiagent": {"policies": {"a": spec, "b": None}, "policy_mapping_fn": lambda agent: "a"}}
    )
    assert config.policy_specs()["a"] == PolicySpec(None, "obs", "act", {"gamma": 0.5})
    assert config.policy_of("x", None) == "a"
    assert config.get_config_for_module("a").gamma == 0.5
    assert config["multiagent"]["policies"]["b"] is None
    with pytest.raises(ValueError, match="Did you mean 'policies'"):
        PPOConfig.from_dict({"multiagent": {"policis": {}}})


@pytest.mark.parametrize(
    ("given", "meant"),
    [({"num_wokers": 1}, "num_workers"), ({"gama": 1}, "gamma"), ({"sgd_minibatch": 1}, "sgd_minibatch_size")],
)
def test_unknown_keys_are_refused_with_the_nearest_one(given, meant):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'"):
        PPOConfig.from_dict(given)


def test_unknown_arguments_are_refused():
    with pytest.raises(
        TypeError, match="training.. got an unexpected keyword argument 'clip_parm'. Did you mean 'clip_param'"
    ):
        PPOConfig().training(clip_parm=1)
    with pytest.raises(TypeError, match=r"It belongs to .env_runners\(\)"):
        PPOConfig().training(num_env_runners=1)
    with pytest.raises(TypeError, match="buffer_size"):
        PPOConfig().training(buffer_size=1)
    with pytest.raises(ValueError, match="Did you mean 'fcnet_hiddens'"):
        PPOConfig().training(model={"fcnet_hidens": [1]})
    with pytest.raises(KeyError, match="Did you mean 'explore'"):
        PPOConfig.overrides(exploer=False)


def test_a_subclass_may_have_settings_of_its_own():
    class Mine(PPOConfig):
        def __init__(self):
            super().__init__()
            self.twist = 3

    config = Mine().training(twist=4)
    assert config.twist == 4
    assert Mine.from_dict({"twist": 5}).twist == 5


# proves: Y1b
def test_a_frozen_config_refuses_changes():
    config = PPOConfig()
    config.freeze()
    text = "Cannot set attribute .* of an already frozen AlgorithmConfig"
    with pytest.raises(AttributeError, match=text):
        config.lr = 1
    with pytest.raises(AttributeError, match=text):
        config.training(lr=1)
    with pytest.raises(AttributeError, match=text):
        config["lr"] = 1
    assert config.copy().is_frozen
    open_ = config.copy(copy_frozen=False)
    open_.lr = 1
    assert config.lr == 5e-5
    assert PPOConfig().copy(copy_frozen=True).is_frozen


def test_a_copy_shares_nothing():
    config = PPOConfig()
    other = config.copy()
    other.model["fcnet_hiddens"].append(1)
    other.env_config["x"] = 1
    assert config.model["fcnet_hiddens"] == [256, 256]
    assert config.env_config == {}
    assert PPOConfig().model["fcnet_hiddens"] == [256, 256]


# proves: Y1c
@pytest.mark.parametrize(
    ("workers", "envs", "batch", "lengths"),
    [
        (4, 3, 2456, [205, 205, 205, 205, 204]),
        (2, 1, 4000, [2000, 2000, 2000]),
        (0, 8, 4000, [500]),
        (3, 1, 10, [4, 4, 3, 3]),
    ],
)
def test_automatic_fragments_share_the_batch_out(workers, envs, batch, lengths):
    config = PPOConfig().env_runners(num_env_runners=workers, num_envs_per_env_runner=envs)
    config.training(train_batch_size=batch)
    assert [config.get_rollout_fragment_length(worker_index=i) for i in range(len(lengths))] == lengths
    assert config.env_runners(rollout_fragment_length=7).get_rollout_fragment_length(3) == 7


def test_fragments_of_replay_are_as_long_as_a_target():
    assert DQNConfig().training(n_step=5).get_rollout_fragment_length() == 5
    assert DQNConfig().training(n_step=(2, 5)).get_rollout_fragment_length() == 5


# proves: Y1d
def test_single_modules_have_settings_of_their_own():
    config = PPOConfig().multi_agent(
        policies={"a", "b"}, algorithm_config_overrides_per_module={"a": PPOConfig.overrides(lr=0.5)}
    )
    assert config.get_config_for_module("a").lr == 0.5
    assert config.get_config_for_module("b").lr == 5e-5
    config.freeze()
    assert config.get_config_for_module("a").lr == 0.5
    with pytest.raises(ValueError, match="names 'c'"):
        PPOConfig().rl_module(algorithm_config_overrides_per_module={"c": {}}).validate()


def test_evaluation_has_a_configuration_over_the_other():
    config = PPOConfig().environment("X", env_config={"a": 1}).env_runners(num_env_runners=4)
    config.evaluation(evaluation_config={"env_config": {"b": 2}, "explore": False}, evaluation_num_env_runners=1)
    made = config.get_evaluation_config_object()
    assert (made.explore, made.env_config, made.num_env_runners, made.in_evaluation) == (
        False,
        {"a": 1, "b": 2},
        1,
        True,
    )
    assert config.explore is True


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"num_workers": -1}, "num_env_runners"),
        ({"train_batch_size": 0}, "batch_size"),
        ({"batch_mode": "some"}, "batch_mode"),
        ({"gamma": 1.5}, "gamma"),
        ({"lr": "high"}, "lr"),
        ({"lr": [[5, 1.0]]}, "timestep 0"),
        ({"rollout_fragment_length": "often"}, "rollout_fragment_length"),
        ({"sgd_minibatch_size": 5000}, "minibatch_size"),
        ({"evaluation_duration": "auto"}, "parallel_to_training"),
        ({"use_gae": False}, "complete_episodes"),
        ({"num_learners": 2}, "num_learners"),
        ({"multiagent": {"policies": {"a": None}, "policies_to_train": ["b"]}}, "policies_to_train"),
    ],
)
def test_contradictions_are_named(given, text):
    with pytest.raises(ValueError, match=text):
        PPOConfig.from_dict(given).validate()


@pytest.mark.parametrize("policies", [{"pa"}, {"default_policy", "pa"}, {"pa": None}])
def test_es_is_refused_for_policies_of_other_names(policies):
    # It was built, and train() ended with KeyError 'default_policy'.
    with pytest.raises(ValueError, match=r"`policies` names .*'pa'\]: ES moves the weights of one policy"):
        ESConfig().environment("CartPole-v1").env_runners(num_env_runners=0).multi_agent(policies=policies).build_algo()
    ESConfig().multi_agent(policies={"default_policy"}).validate()


def test_what_tune_searches_may_stand_in_a_config():
    config = PPOConfig().training(lr=tune.grid_search([1, 2]), model=tune.grid_search([{}, {}]))
    assert config.to_dict()["lr"] == {"grid_search": [1, 2]}
    assert config.to_dict()["model"] == {"grid_search": [{}, {}]}


def test_a_config_without_an_algorithm_builds_nothing():
    with pytest.raises(ValueError, match="of no algorithm"):
        AlgorithmConfig().build_algo()


def test_reading_an_unknown_attribute_raises():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = PPOConfig().nothing
    with pytest.raises(KeyError):
        _ = PPOConfig()["nothing"]
    assert PPOConfig().get("nothing", 3) == 3
    assert pickle.loads(pickle.dumps(PPOConfig())).lr == 5e-5


def test_rates_of_sac():
    assert SACConfig().rates() == {"actor": 3e-5, "critic": 3e-4, "alpha": 3e-4}
    assert SACConfig().training(lr=1.0).rates() == {"actor": 1.0, "critic": 1.0, "alpha": 1.0}
    old = SACConfig.from_old_dict({"optimization": {"critic_learning_rate": 0.5}})
    assert old.rates() == {"actor": 3e-4, "critic": 0.5, "alpha": 3e-4}
