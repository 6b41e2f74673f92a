"""Every path and name under which programs of either era import what they need."""

import subprocess
import sys

import pytest

PATHS = """
from ray import rllib, tune
from ray.rllib.agents import ppo
from ray.rllib.agents.ppo import PPOTrainer, DEFAULT_CONFIG
from ray.rllib.agents.ppo.ppo import PPOTrainer
from ray.rllib.agents.dqn import DQNTrainer
from ray.rllib.agents.impala import ImpalaTrainer
from ray.rllib.agents.callbacks import DefaultCallbacks
from ray.rllib.agents.trainer import Trainer, with_common_config
from ray.rllib.agents.registry import get_trainer_class
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.dqn.dqn import DQN, DQNConfig
from ray.rllib.algorithms import PPOConfig, Algorithm
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.registry import get_algorithm_class
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env import BaseEnv, ExternalEnv, MultiAgentEnv, VectorEnv
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.external_env import ExternalEnv
from ray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.vector_env import VectorEnv
from ray.rllib.evaluation import Episode, MultiAgentEpisode, RolloutWorker
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.models import ModelCatalog
from ray.rllib.models.torch.torch_modelv2 import TorchModelV2
from ray.rllib.policy.sample_batch import DEFAULT_POLICY_ID, SampleBatch
from ray.rllib.utils.annotations import override
from ray.rllib.utils.framework import try_import_torch
from ray.rllib.policy import Policy
from ray.rllib.policy.policy import PolicySpec
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, EPISODE_RETURN_MEAN
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.tune.registry import register_env
""".strip().splitlines()


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)


def test_names_of_both_eras_are_found_under_ray():
    import_all = "import eagleray; eagleray.install_as_ray()\n" + "\n".join(PATHS)
    ended = run(import_all + "\nassert rllib.agents.ppo.PPOTrainer is PPO and get_algorithm_class('PPO') is PPO")
    assert ended.returncode == 0, ended.stderr


def test_neither_numpy_nor_gymnasium_is_needed_to_import_and_configure():
    ended = run(
        "import sys; sys.modules['numpy'] = sys.modules['gymnasium'] = None\n"
        "import eagleray.rllib.env\n"
        "from eagleray.rllib.algorithms.ppo import PPO, PPOConfig\n"
        "PPOConfig().environment('CartPole-v1').validate()\n"
        "try:\n    import eagleray.rllib.env.spaces\n"
        "except ImportError as error:\n    print(error)\n"
    )
    assert ended.returncode == 0, ended.stderr
    assert "reinforcement learning needs numpy" in ended.stdout


def test_unknown_algorithms_are_told_with_the_nearest():
    from eagleray.rllib.algorithms.registry import get_algorithm_class

    with pytest.raises(ValueError, match="Did you mean 'PPO'"):
        get_algorithm_class("ppo")
