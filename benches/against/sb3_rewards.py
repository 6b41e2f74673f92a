"""Rewards of Stable-Baselines3 with its zoo's settings: `python sb3_rewards.py OUT.json --cases a,b --seeds 0-4`.

Needs torch, numpy, gymnasium and stable_baselines3 in the interpreter that runs it (Box2D for LunarLander), nothing of
ours. `rl_reward_jobs.py` says what the options mean, `rl_reward_cases.py` what is trained.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rl_reward_cases import Case
from rl_reward_jobs import Job, LimitReached, main


def train(job: Job) -> Sequence[float]:
    import torch
    from stable_baselines3 import A2C, DQN, PPO, SAC
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    torch.set_num_threads(1)
    case = job.case
    environments: VecEnv = make_vec_env(case.environment, n_envs=case.environments, seed=job.seed)
    if case.normalise:
        environments = VecNormalize(environments, gamma=case.gamma)
    algorithm: Any = {"PPO": PPO, "A2C": A2C, "DQN": DQN, "SAC": SAC}[case.algorithm]
    settings = OF[case.algorithm](case) | {"learning_rate": falling(case.rate, case.rate_falls), "gamma": case.gamma}
    settings["policy_kwargs"] = {"net_arch": list(case.hiddens), "activation_fn": activation(case)} | model(case)
    if job.state is None:
        learner = algorithm("MlpPolicy", environments, seed=job.seed, device="cpu", **settings)
    else:
        learner = resumed(job.state, algorithm, environments)
    try:
        if learner.num_timesteps < case.steps:
            left = case.steps - learner.num_timesteps
            learner.learn(left, callback=watching(job), reset_num_timesteps=job.state is None)
        job.steps = learner.num_timesteps
        return greedy(job, learner, environments)
    except LimitReached:
        keep(job, learner, environments)
        raise


def keep(job: Job, learner: Any, environments: Any) -> None:
    """Leaves what another run can go on from, if that is possible. Episodes begin anew there."""
    if learner.num_timesteps < job.case.steps:
        if job.case.algorithm not in ("PPO", "A2C"):
            job.state = None  # what is replayed would have to be kept too
            return
        # The batch that was being sampled is sampled again.
        learner.num_timesteps -= learner.num_timesteps % (job.case.environments * job.case.horizon)
    job.steps = learner.num_timesteps
    kept = io.BytesIO()
    learner.save(kept)
    seen = (environments.obs_rms, environments.ret_rms) if job.case.normalise else None
    job.state = pickle.dumps((kept.getvalue(), seen))


def resumed(state: bytes, algorithm: Any, environments: Any) -> Any:
    """The learner that an earlier run left."""
    kept, seen = pickle.loads(state)
    if seen is not None:
        environments.obs_rms, environments.ret_rms = seen
    return algorithm.load(io.BytesIO(kept), env=environments, device="cpu")


def of_ppo(case: Case) -> dict[str, Any]:
    settings = of_rollouts(case) | {"batch_size": case.minibatch, "n_epochs": case.epochs}
    return settings | {"clip_range": falling(case.clip, case.clip_falls)}


def of_rollouts(case: Case) -> dict[str, Any]:
    settings = {"n_steps": case.horizon, "gae_lambda": case.gae, "ent_coef": case.entropy, "vf_coef": case.value}
    return settings | {"max_grad_norm": case.norm} | of_noise(case)


def of_dqn(case: Case) -> dict[str, Any]:
    settings = of_replay(case) | {"target_update_interval": case.target_every, "max_grad_norm": case.norm}
    return settings | {"exploration_fraction": case.explore_share, "exploration_final_eps": case.explore_end}


def of_sac(case: Case) -> dict[str, Any]:
    settings = of_replay(case) | of_noise(case) | {"target_update_interval": case.target_every}
    return settings | {"ent_coef": "auto" if case.temperature is None else case.temperature}


def of_replay(case: Case) -> dict[str, Any]:
    settings = {"buffer_size": case.buffer, "learning_starts": case.starts, "batch_size": case.batch, "tau": case.tau}
    return settings | {"train_freq": case.every, "gradient_steps": case.updates}


def of_noise(case: Case) -> dict[str, Any]:
    return {"use_sde": case.sde, "sde_sample_freq": case.sde_every}


def model(case: Case) -> dict[str, Any]:
    if not case.sde:
        return {}
    # SAC's policy has no orthogonal start to leave out.
    return {"log_std_init": case.log_std} | ({} if case.algorithm == "SAC" else {"ortho_init": case.orthogonal})


OF: dict[str, Callable[[Case], dict[str, Any]]] = {"PPO": of_ppo, "A2C": of_rollouts, "DQN": of_dqn, "SAC": of_sac}


def activation(case: Case) -> type:
    from torch import nn

    return {"tanh": nn.Tanh, "relu": nn.ReLU}[case.activation]


def falling(value: float, falls: bool) -> Any:
    return (lambda left: left * value) if falls else value


def watching(job: Job) -> Any:
    """Tells the job of the mean return of the last hundred episodes, fifty times over its budget."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            episodes = self.model.ep_info_buffer
            # Looking at the clock and at a hundred episodes every step would be a cost of its own.
            if self.n_calls % 64 == 0 and episodes:
                job.note(self.num_timesteps, sum(episode["r"] for episode in episodes) / len(episodes))
            elif self.n_calls % 64 == 0:
                job.note(self.num_timesteps, None)
            return True

    return Watch()


def greedy(job: Job, learner: Any, trained_on: Any) -> Sequence[float]:
    """Returns of episodes in fresh environments, with actions that chance has no part in."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    environments: VecEnv = make_vec_env(job.case.environment, n_envs=10, seed=1_000_000 + 1000 * job.seed)
    if job.case.normalise:
        normalised = VecNormalize(environments, training=False, norm_reward=False)
        normalised.obs_rms = trained_on.obs_rms
        environments = normalised
    returns, _ = evaluate_policy(
        learner,
        environments,
        n_eval_episodes=job.case.episodes,
        deterministic=True,
        return_episode_rewards=True,
        callback=lambda _locals, _globals: job.check(),
    )
    return [float(value) for value in returns]


def versions() -> dict[str, str]:
    import gymnasium
    import numpy as np
    import stable_baselines3
    import torch

    found = {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__}
    return found | {"gymnasium": gymnasium.__version__, "numpy": np.__version__}


if __name__ == "__main__":
    main("stable_baselines3", train, versions)
