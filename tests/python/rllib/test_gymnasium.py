"""Native environments beside the gymnasium that is installed: same beginnings, same steps."""

import gymnasium
import numpy as np
import pytest

from eagleray._native import rl

#: Those that gymnasium can step without drawing them.
NAMES = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "FrozenLake-v1"]


def beside(name, seed):
    theirs = gymnasium.make(name)
    first, _ = theirs.reset(seed=seed)
    ours = rl.VectorEnv(name, 1, "{}")
    size = np.size(first)
    columns = {
        "observed": np.zeros((1, size), np.float32),
        "rewards": np.zeros(1, np.float32),
        "terminated": np.zeros(1, np.uint8),
        "truncated": np.zeros(1, np.uint8),
        "last": np.zeros((1, size), np.float32),
    }
    ours.reset(seed, columns["observed"])
    return theirs, ours, first, columns


@pytest.mark.parametrize("seed", [0, 7, 123])
@pytest.mark.parametrize("name", NAMES)
def test_episodes_under_one_seed_and_the_same_actions_are_the_same(name, seed):
    theirs, ours, first, columns = beside(name, seed)
    # Of Acrobot gymnasium takes the first sines and cosines in single precision.
    assert np.allclose(columns["observed"][0], first, rtol=0, atol=3e-7)
    chance = np.random.default_rng(seed)
    ended = 0
    for _ in range(1_100):
        space = theirs.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            action = int(chance.integers(space.n))
            given = np.array([action], np.float32)
        else:
            action = given = chance.uniform(space.low, space.high).astype(np.float32)
        ours.step(given, *columns.values())
        seen, reward, terminated, truncated, _ = theirs.step(action)
        is_over = terminated or truncated
        where = columns["last"] if is_over else columns["observed"]
        assert np.allclose(where[0], seen, rtol=0, atol=1e-5), (seen, where)
        assert columns["rewards"][0] == pytest.approx(float(reward), abs=1e-5)
        assert (bool(columns["terminated"][0]), bool(columns["truncated"][0])) == (terminated, truncated)
        if is_over:
            ended += 1
            # The next episode goes on with the same chance.
            seen, _ = theirs.reset()
            assert np.allclose(columns["observed"][0], seen, rtol=0, atol=3e-7)
    assert ended > 0


def test_actions_that_are_none_are_refused():
    _, ours, _, columns = beside("CartPole-v1", 1)
    for bad in ([2.0], [-1.0], [0.5], [float("nan")]):
        with pytest.raises(ValueError, match="none of its actions"):
            ours.step(np.array(bad, np.float32), *columns.values())
    with pytest.raises(ValueError, match="actions has 2 numbers instead of 1"):
        ours.step(np.zeros(2, np.float32), *columns.values())


def test_unknown_names_and_settings_say_what_is_near():
    with pytest.raises(ValueError, match="CartPole-v1"):
        rl.VectorEnv("CartPol-v1", 1, "{}")
    with pytest.raises(ValueError, match="max_episode_steps"):
        rl.VectorEnv("CartPole-v1", 1, '{"max_episode_step": 3}')


def test_columns_of_the_same_memory_or_of_another_size_are_refused():
    _, ours, _, columns = beside("CartPole-v1", 1)
    action = np.zeros(1, np.float32)
    with pytest.raises(ValueError, match="last and observed are the same memory"):
        ours.step(action, *(columns | {"last": columns["observed"]}).values())
    with pytest.raises(ValueError, match="rewards has 2 numbers instead of 1"):
        ours.step(action, *(columns | {"rewards": np.zeros(2, np.float32)}).values())
    with pytest.raises(ValueError, match="observed must be contiguous and writable"):
        ours.step(action, *(columns | {"observed": np.zeros((4, 2), np.float32).T[:1]}).values())
    before = ours.state(0)
    with pytest.raises(ValueError, match="truncated has 3 numbers instead of 1"):
        ours.step(action, *(columns | {"truncated": np.zeros(3, np.uint8)}).values())
    assert ours.state(0) == before, "no step was made"
