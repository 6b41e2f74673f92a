"""Rewards of eagleray with the zoo's settings: `python rl_rewards.py OUT.json --cases a,b --seeds 0-4 --processes 16`.

The cases of `rl_reward_cases.py` through the public API, one core each. LunarLander needs gymnasium and Box2D, the others
nothing but numpy. `rl_reward_jobs.py` says what the options mean, `rl_compare.py` lays the results beside the peer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rl_reward_cases import Case
from rl_reward_jobs import Job, main


def train(job: Job) -> Sequence[float]:
    case = job.case
    config = {"PPO": ppo, "A2C": a2c, "DQN": dqn, "SAC": sac, "IMPALA": impala, "ES": es}[case.algorithm](case)
    config.environment(case.environment).debugging(seed=job.seed)
    # Results are many so that the budget is not passed by much; a time limit is noticed between two of them.
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=max(1, case.steps // 200))
    alone = {"explore": False, "num_envs_per_env_runner": 1, "seed": 1_000_000 + 1000 * job.seed}
    config.evaluation(evaluation_duration=case.episodes, evaluation_duration_unit="episodes", evaluation_config=alone)
    config.evaluation(evaluation_num_env_runners=0)
    algorithm = config.build_algo()
    while job.steps < case.steps:
        result = algorithm.train()
        job.note(result["num_env_steps_sampled_lifetime"], result["env_runners"].get("episode_return_mean"))
    returns = algorithm.evaluate()["hist_stats"]["episode_reward"]
    algorithm.stop()
    return [float(value) for value in returns]


def falling(value: float, falls: bool, case: Case) -> Any:
    return [[0, value], [case.steps, 0.0]] if falls else value


def of_rollouts(config: Any, case: Case) -> Any:
    filtered = "MeanStdFilter" if case.normalise else "NoFilter"
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=case.environments)
    config.env_runners(observation_filter=filtered, reward_filter=filtered)
    # Actions as the network draws them, bounded where they leave the space.
    config.environment(normalize_actions=False, clip_actions=True)
    config.training(gamma=case.gamma, lambda_=case.gae, lr=falling(case.rate, case.rate_falls, case))
    config.training(train_batch_size_per_learner=case.environments * case.horizon, grad_clip=case.norm)
    config.training(entropy_coeff=case.entropy)
    model = {"fcnet_hiddens": list(case.hiddens), "fcnet_activation": case.activation, "vf_share_layers": False}
    model |= {"free_log_std": True} | of_noise(case)
    model["fcnet_kernel_initializer"] = "orthogonal_" if case.orthogonal else "torch_default"
    return config.rl_module(model_config=model)


def ppo(case: Case) -> Any:
    from eagleray.rllib.algorithms.ppo import PPOConfig

    config = of_rollouts(PPOConfig(), case)
    config.training(num_epochs=case.epochs, minibatch_size=case.minibatch, use_kl_loss=False, adam_epsilon=1e-5)
    config.training(advantage_scaling="minibatch")
    config.training(clip_param=falling(case.clip, case.clip_falls, case), vf_clip_param=None)
    return config.training(vf_loss_coeff=case.value)


def a2c(case: Case) -> Any:
    from eagleray.rllib.algorithms.a2c import A2CConfig

    config = of_rollouts(A2CConfig(), case)
    # RLlib's A2C halves the square of the values' error, Stable-Baselines3 does not.
    return config.training(opt_type="rmsprop", decay=0.99, epsilon=1e-5, vf_loss_coeff=2.0 * case.value)


def impala(case: Case) -> Any:
    from eagleray.rllib.algorithms.impala import IMPALAConfig

    config = IMPALAConfig().env_runners(num_env_runners=0, num_envs_per_env_runner=case.environments)
    config.env_runners(rollout_fragment_length=case.horizon)
    config.training(gamma=case.gamma, lr=case.rate, train_batch_size_per_learner=case.environments * case.horizon)
    config.training(grad_clip=case.norm, entropy_coeff=case.entropy, vf_loss_coeff=case.value)
    return config.rl_module(model_config={"fcnet_hiddens": list(case.hiddens)})


def es(case: Case) -> Any:
    from eagleray.rllib.algorithms.es import ESConfig

    config = ESConfig().env_runners(num_env_runners=0)
    config.training(episodes_per_batch=40, stepsize=case.rate, noise_stdev=0.05)
    return config.rl_module(model_config={"fcnet_hiddens": list(case.hiddens)})


def of_replay(config: Any, case: Case) -> Any:
    config.env_runners(num_env_runners=0, rollout_fragment_length=case.every)
    config.training(gamma=case.gamma, tau=case.tau, target_network_update_freq=case.target_every)
    config.training(train_batch_size_per_learner=case.batch, num_steps_sampled_before_learning_starts=case.starts)
    buffer = {"type": "EpisodeReplayBuffer", "capacity": case.buffer}
    return config.training(training_intensity=case.batch * case.updates / case.every, replay_buffer_config=buffer)


def dqn(case: Case) -> Any:
    from eagleray.rllib.algorithms.dqn import DQNConfig

    config = of_replay(DQNConfig(), case)
    config.training(dueling=False, double_q=False, hiddens=[], grad_clip=case.norm, lr=case.rate)
    config.training(epsilon=exploring(case))
    return config.rl_module(model_config={"fcnet_hiddens": list(case.hiddens), "fcnet_activation": case.activation})


def exploring(case: Case) -> list[list[float]]:
    """At random until learning starts, then as often as a line from 1 at the beginning to the end of exploring has it."""
    ends_at = max(1, int(case.explore_share * case.steps))
    if not 0 < case.starts < ends_at:
        return [[0, 1.0], [ends_at, case.explore_end]]
    then = 1.0 + (case.explore_end - 1.0) * case.starts / ends_at
    return [[0, 1.0], [case.starts - 1, 1.0], [case.starts, then], [ends_at, case.explore_end]]


def sac(case: Case) -> Any:
    from eagleray.rllib.algorithms.sac import SACConfig

    config = of_replay(SACConfig(), case)
    layers = {"fcnet_hiddens": list(case.hiddens), "fcnet_activation": case.activation}
    config.training(policy_model_config=layers | of_noise(case), q_model_config=layers)
    config.training(actor_lr=case.rate, critic_lr=case.rate)
    # A temperature that is not learned is one whose rate is zero.
    if case.temperature is None:
        return config.training(alpha_lr=case.rate)
    return config.training(alpha_lr=0.0, initial_alpha=case.temperature)


def of_noise(case: Case) -> dict[str, Any]:
    if not case.sde:
        return {}
    return {"use_sde": True, "sde_sample_freq": case.sde_every, "log_std_init": case.log_std}


def versions() -> dict[str, str]:
    import numpy as np

    import eagleray

    return {"eagleray": eagleray.__version__, "numpy": np.__version__}


if __name__ == "__main__":
    main("eagleray", train, versions, pace=0.4)
