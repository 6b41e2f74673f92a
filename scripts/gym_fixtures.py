"""Writes what gymnasium's environments do, for the tests of the native ones.

For each environment: episodes from three seeds, played with stored actions, and single steps from states all over the place. The tests in
crates/rl/tests/gymnasium.rs read the files. They hold what gymnasium 1.4 on numpy 2.4 did; another version should give the same.

    python -m venv /tmp/gym && /tmp/gym/bin/pip install gymnasium==1.4.0
    /tmp/gym/bin/python scripts/gym_fixtures.py
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "crates" / "rl" / "tests" / "fixtures"
SEEDS = (0, 7, 123_456_789_012)
#: Every so many steps the observation is written too.
SHOWN_EVERY = 20
#: Every so many transitions of a table are written.
TABLE_EVERY = 23
#: Numbers that are actions in episodes are multiples of this: exact in single precision, and short.
GRAIN = 1 / 64


@dataclass(frozen=True)
class Plan:
    """What is written for one environment."""

    file: str
    name: str
    steps: int
    #: What both sides are told about it.
    config: dict[str, Any] = field(default_factory=dict)
    #: How the state is set and read: an array of numbers, or one index.
    is_table: bool = False
    #: The range from which states for single steps are drawn.
    reach: tuple[float, ...] = ()
    probes: int = 30


LAKE = {"desc": ["SFFH", "FFSF", "HFFG"], "success_rate": 0.6, "reward_schedule": [5, -2, 0.25]}

PLANS = (
    Plan("cart_pole", "CartPole-v1", 150, reach=(2.5, 3.0, 0.22, 3.0)),
    Plan("cart_pole_sutton", "CartPole-v0", 20, {"sutton_barto_reward": True}, reach=(2.5, 3.0, 0.22, 3.0), probes=10),
    Plan("pendulum", "Pendulum-v1", 210, reach=(50.0, 8.0)),
    Plan("pendulum_gravity", "Pendulum-v1", 20, {"g": 9.81}, reach=(4.0, 8.0), probes=10),
    Plan("mountain_car", "MountainCar-v0", 210, reach=(1.2, 0.07)),
    Plan("mountain_car_continuous", "MountainCarContinuous-v0", 150, reach=(1.2, 0.07)),
    Plan("acrobot", "Acrobot-v1", 150, reach=(math.pi, math.pi, 4 * math.pi, 9 * math.pi)),
    Plan("frozen_lake", "FrozenLake-v1", 210, is_table=True),
    Plan("frozen_lake_dry", "FrozenLake-v1", 60, {"is_slippery": False}, is_table=True),
    Plan("frozen_lake_8x8", "FrozenLake8x8-v1", 210, is_table=True),
    Plan("frozen_lake_custom", "FrozenLake-v1", 60, LAKE, is_table=True),
    Plan("taxi", "Taxi-v4", 210, is_table=True),
    Plan("taxi_rain", "Taxi-v4", 210, {"is_rainy": True, "rainy_probability": 0.7}, is_table=True),
    Plan("taxi_fickle", "Taxi-v4", 390, {"fickle_passenger": True, "fickle_probability": 0.9}, is_table=True),
)


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for plan in PLANS:
        env = gym.make(plan.name, **plan.config)
        chance = np.random.default_rng(2026)
        record = {
            "name": plan.name,
            "config": plan.config,
            "limit": env.spec.max_episode_steps if env.spec else None,
            "spaces": spaces(env),
            "episodes": [play(env, plan, seed, chance) for seed in SEEDS],
            "probes": table(env) if plan.is_table else probes(env, plan, chance),
        }
        text = json.dumps(record, separators=(",", ":"))
        (FOLDER / f"{plan.file}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{plan.file}: {len(text):,} bytes")


def spaces(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Both spaces: a count, or bounds."""

    def bounds_of(space: Any) -> Any:
        if isinstance(space, gym.spaces.Discrete):
            return {"n": int(space.n)}
        bounds = {"low": space.low, "high": space.high}
        return {name: [repr(float(number)) for number in numbers] for name, numbers in bounds.items()}

    return {"observed": bounds_of(env.observation_space), "acted": bounds_of(env.action_space)}


def state_of(env: gym.Env[Any, Any]) -> list[float]:
    """The state as the native environment writes it."""
    inner: Any = env.unwrapped
    if hasattr(inner, "s"):
        return [int(inner.s), int(inner.fickle_step)] if hasattr(inner, "fickle_step") else [int(inner.s)]
    numbers = [short(float(number)) for number in inner.state]
    if env.spec is not None and env.spec.id == "MountainCarContinuous-v0":
        # Its state is rounded to single precision by the first step, and what follows is computed so.
        numbers.append(int(inner.state.dtype == np.float32))
    return numbers


def play(env: gym.Env[Any, Any], plan: Plan, seed: int, chance: np.random.Generator) -> dict[str, Any]:
    """Steps from a seed; an episode that ends is followed by the next."""
    seen, _ = env.reset(seed=seed)
    record: dict[str, Any] = {"seed": seed, "start": state_of(env), "begun": shown(seen)}
    record |= {"steps": [], "ends": {}, "shown": {}}
    for index in range(plan.steps):
        action = act(env, plan, seed, chance)
        seen, reward, terminated, truncated, _ = env.step(action)
        record["steps"].append([told(action), short(float(reward)), *state_of(env)])
        if index % SHOWN_EVERY == 0:
            record["shown"][index] = shown(seen)
        if terminated or truncated:
            env.reset()
            record["ends"][index] = {"terminated": terminated, "truncated": truncated, "next": state_of(env)}
    return record


def act(env: gym.Env[Any, Any], plan: Plan, seed: int, chance: np.random.Generator) -> Any:
    """Mostly by chance; where that never gets to the end, the last seed is played better."""
    inner: Any = env.unwrapped
    if plan.name.startswith("MountainCar") and seed == SEEDS[-1]:
        ahead = inner.state[1] >= 0
        if plan.name == "MountainCar-v0":
            return 2 if ahead else 0
        return rounded(chance.uniform(0.5, 1.5) * (1 if ahead else -1), GRAIN)
    if plan.name.startswith("Taxi"):
        return drive(inner, chance)
    return any_action(env, chance)


def drive(taxi: Any, chance: np.random.Generator) -> int:
    """By chance, but with passengers picked up and set down where they want, mostly."""
    mask = taxi.action_mask(taxi.s)
    row, column, _, wanted = taxi.decode(taxi.s)
    if chance.random() < 0.8:
        if mask[4]:
            return 4
        if mask[5] and (row, column) == taxi.locs[wanted]:
            return 5
        return int(chance.integers(0, 4))
    return int(chance.integers(0, 6))


def any_action(env: gym.Env[Any, Any], chance: np.random.Generator, grain: float = GRAIN) -> Any:
    """An action by chance; a number may be beyond its bounds, which environments must bear."""
    if isinstance(env.action_space, gym.spaces.Discrete):
        return int(chance.integers(0, env.action_space.n))
    bounds: Any = env.action_space
    number = float(chance.choice([0.0, 1.0, -1.0, 2.0, -2.0])) if chance.random() < 0.2 else chance.uniform(-1.5, 1.5)
    return rounded(number * float(bounds.high[0]), grain)


def rounded(number: float, grain: float) -> Any:
    """The nearest multiple, as an action."""
    return np.array([round(number / grain) * grain], dtype=np.float32)


def probes(env: gym.Env[Any, Any], plan: Plan, chance: np.random.Generator) -> list[Any]:
    """Single steps from states by chance, some of them at the edges."""
    inner: Any = env.unwrapped
    found = []
    for index in range(plan.probes):
        env.reset(seed=0)
        reach = np.array(plan.reach)
        state = chance.uniform(-reach, reach)
        edges = chance.random(len(reach)) < 0.2
        state = np.where(edges, reach * chance.choice([-1.0, 0.0, 1.0], len(reach)), state)
        if plan.name.startswith("MountainCar") and state[0] > 0.6:
            state[0] = 0.6
        if plan.name == "MountainCarContinuous-v0" and index % 2:
            state = state.astype(np.float32)
        inner.state = state
        before = state_of(env)
        # All bits of an action matter here: what is computed in single precision must be rounded as often.
        action = any_action(env, chance, grain=2.0**-24)
        _, reward, terminated, _, _ = inner.step(action)
        found.append([before, [told(action)], state_of(env), [short(float(reward)), int(terminated)]])
    return found


def table(env: gym.Env[Any, Any]) -> list[Any]:
    """Transitions of a table that leave nothing to chance: those that end an episode, and every so many of the others."""
    inner: Any = env.unwrapped
    if getattr(inner, "fickle_passenger", False):
        return []
    calm = [0] if hasattr(inner, "fickle_step") else []
    sure = [
        (state, action, *ways[0][1:]) for state, by in inner.P.items() for action, ways in by.items() if len(ways) == 1
    ]
    return [
        [[state, *calm], [action], [after, *calm], [reward, int(ended)]]
        for index, (state, action, after, reward, ended) in enumerate(sure)
        if ended or index % TABLE_EVERY == 0
    ]


def told(action: Any) -> float:
    """An action as one number."""
    return short(float(np.asarray(action).reshape(-1)[0]))


def shown(seen: Any) -> list[float]:
    """An observation as numbers."""
    return [short(float(number)) for number in np.asarray(seen).reshape(-1)]


def short(number: float) -> float:
    """The same number; a whole one is written without a point."""
    return int(number) if number.is_integer() else number


if __name__ == "__main__":
    main()
