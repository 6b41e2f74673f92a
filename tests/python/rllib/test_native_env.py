"""Built-in environments that Python steps itself."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from eagleray.rllib.env.native_env import NativeVectorEnv
from eagleray.rllib.utils.error import EnvError


def test_copies_begin_and_step_as_gymnasium_s_do():
    vector = NativeVectorEnv("CartPole-v1", 3)
    observed, _ = vector.reset(seed=5)
    singles = [gymnasium.make("CartPole-v1") for _ in range(3)]
    for index, single in enumerate(singles):
        assert np.array_equal(observed[index], single.reset(seed=5 + index)[0])
    for step in range(8):
        actions = [(step + index) % 2 for index in range(3)]
        observed, rewards, terminated, truncated, _ = vector.step(actions)
        for index, single in enumerate(singles):
            expected, reward, ended, cut, _ = single.step(actions[index])
            assert np.allclose(observed[index], expected, atol=1e-6)
            assert (rewards[index], terminated[index], truncated[index]) == (reward, ended, cut)


def test_an_ended_episode_shows_its_last_observation_and_the_next_one_s_first():
    vector = NativeVectorEnv("CartPole-v1", 2)
    vector.reset(seed=1)
    for _ in range(100):
        observed, _, terminated, _, infos = vector.step([1, 0])
        if terminated[0]:
            break
    assert terminated.dtype == np.bool_
    assert terminated[0]
    assert abs(infos["final_obs"][0][2]) > 0.2 > abs(observed[0][2])


def test_arrays_are_the_caller_s_own_unless_it_says_otherwise():
    own = NativeVectorEnv("Pendulum-v1", 2)
    first, _ = own.reset(seed=1)
    kept = first.copy()
    own.step(np.array([[1.0], [-1.0]]))
    assert np.array_equal(first, kept)
    shared = NativeVectorEnv("Pendulum-v1", 2, copy=False)
    first, _ = shared.reset(seed=1)
    shared.step(np.array([[1.0], [-1.0]]))
    assert not np.array_equal(first, kept)


def test_what_is_no_environment_or_no_action_is_refused():
    with pytest.raises(EnvError, match=r"did you mean 'CartPole-v1'"):
        NativeVectorEnv("CartPol-v1")
    with pytest.raises(ValueError, match="at least 1"):
        NativeVectorEnv("CartPole-v1", 0)
    vector = NativeVectorEnv("CartPole-v1", 2)
    vector.reset(seed=1)
    with pytest.raises(ValueError, match="environment 1 is none of its actions"):
        vector.step([0, 7])
    with pytest.raises(ValueError, match="actions has 1 numbers instead of 2"):
        vector.step([0])
