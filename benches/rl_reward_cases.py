"""What is trained to compare rewards with Stable-Baselines3: its zoo's settings, written once and read by both sides.

Plain data without imports of either system. `rl_rewards.py` says it in RLlib's words, `against/sb3_rewards.py` in
Stable-Baselines3's. What the zoo leaves out is Stable-Baselines3's default, written down here all the same: a default
that differs would otherwise be compared too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Case:
    """One algorithm on one environment with a budget of steps; the fields that its algorithm does not have are unused."""

    algorithm: str
    environment: str
    steps: int
    rate: float
    rate_falls: bool = False  # linearly to 0 over the budget
    gamma: float = 0.99
    hiddens: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    episodes: int = 100  # greedy ones, after training
    has_peer: bool = True
    cost_s: int = 60  # of one seed on the peer, roughly: the longest begin first

    # Where what was sampled is used at once.
    environments: int = 1
    horizon: int = 2048
    minibatch: int = 64
    epochs: int = 10
    gae: float = 0.95
    clip: float = 0.2
    clip_falls: bool = False
    entropy: float = 0.0
    value: float = 0.5
    norm: float = 0.5
    normalise: bool = False  # observations and rewards, by what was seen so far

    # Noise that depends on the state (gSDE).
    sde: bool = False
    sde_every: int = -1  # new noise every so many steps; -1: once a rollout
    log_std: float = 0.0
    orthogonal: bool = True

    # Where samples are kept.
    batch: int = 256
    buffer: int = 1_000_000
    starts: int = 100
    every: int = 1
    updates: int = 1
    target_every: int = 1
    tau: float = 0.005
    explore_share: float = 0.1
    explore_end: float = 0.05
    temperature: float | None = None  # None: learned


PPO = Case("PPO", "", 0, 3e-4, environments=16, epochs=4)
DQN = Case("DQN", "", 0, 1e-4, hiddens=(256, 256), activation="relu", norm=10.0, tau=1.0)
SAC = Case("SAC", "", 0, 3e-4, hiddens=(256, 256), activation="relu")
A2C = Case("A2C", "", 0, 7e-4, environments=8, horizon=5, gae=1.0)
LIKE_LANDER = replace(
    DQN,
    steps=100_000,
    rate=6.3e-4,
    batch=128,
    buffer=50_000,
    starts=0,
    every=4,
    updates=4,
    target_every=250,
    explore_share=0.12,
    explore_end=0.1,
)

CASES: dict[str, Case] = {
    "ppo_cartpole": replace(
        PPO,
        environment="CartPole-v1",
        steps=100_000,
        environments=8,
        horizon=32,
        minibatch=256,
        epochs=20,
        gamma=0.98,
        gae=0.8,
        rate=1e-3,
        rate_falls=True,
        clip_falls=True,
        cost_s=50,
    ),
    "ppo_acrobot": replace(
        PPO, environment="Acrobot-v1", steps=1_000_000, horizon=256, gae=0.94, normalise=True, cost_s=310
    ),
    "ppo_mountaincar": replace(
        PPO, environment="MountainCar-v0", steps=1_000_000, horizon=16, gae=0.98, normalise=True, cost_s=265
    ),
    "ppo_pendulum": replace(
        PPO,
        environment="Pendulum-v1",
        steps=100_000,
        environments=4,
        horizon=1024,
        epochs=10,
        gamma=0.9,
        rate=1e-3,
        sde=True,
        sde_every=4,
        cost_s=80,
    ),
    "ppo_lunarlander": replace(
        PPO,
        environment="LunarLander-v3",
        steps=1_000_000,
        horizon=1024,
        gamma=0.999,
        gae=0.98,
        entropy=0.01,
        episodes=20,
        cost_s=1000,
    ),
    "dqn_cartpole": replace(
        DQN,
        environment="CartPole-v1",
        steps=50_000,
        rate=2.3e-3,
        batch=64,
        buffer=100_000,
        starts=1000,
        every=256,
        updates=128,
        target_every=10,
        explore_share=0.16,
        explore_end=0.04,
        cost_s=70,
    ),
    "dqn_mountaincar": replace(
        DQN,
        environment="MountainCar-v0",
        steps=120_000,
        rate=4e-3,
        batch=128,
        buffer=10_000,
        starts=1000,
        gamma=0.98,
        every=16,
        updates=8,
        target_every=600,
        explore_share=0.2,
        explore_end=0.07,
        cost_s=250,
    ),
    "dqn_acrobot": replace(LIKE_LANDER, environment="Acrobot-v1", cost_s=440),
    "dqn_lunarlander": replace(LIKE_LANDER, environment="LunarLander-v3", episodes=20, cost_s=535),
    "sac_pendulum": replace(SAC, environment="Pendulum-v1", steps=20_000, rate=1e-3, cost_s=360),
    "a2c_cartpole": replace(A2C, environment="CartPole-v1", steps=500_000, cost_s=150),
    "a2c_pendulum": replace(
        A2C,
        environment="Pendulum-v1",
        steps=1_000_000,
        rate_falls=True,
        horizon=8,
        gamma=0.9,
        gae=0.9,
        value=0.4,
        normalise=True,
        sde=True,
        log_std=-2.0,
        orthogonal=False,
        cost_s=185,
    ),
    "sac_mountaincar": replace(
        SAC,
        environment="MountainCarContinuous-v0",
        steps=50_000,
        gamma=0.9999,
        hiddens=(64, 64),
        batch=512,
        buffer=50_000,
        starts=0,
        every=32,
        updates=32,
        tau=0.01,
        temperature=0.1,
        sde=True,
        log_std=-3.67,
        cost_s=390,
    ),
    # What the peer has not.
    "impala_cartpole": Case(
        "IMPALA", "CartPole-v1", 2_000_000, 1e-3, environments=8, horizon=32, norm=40.0, has_peer=False, cost_s=10
    ),
    "es_cartpole": Case("ES", "CartPole-v1", 500_000, 0.05, hiddens=(32, 32), has_peer=False, cost_s=10),
}
