"""Environments of both eras become columns, and columns actions; what contradicts its spaces is named."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from eagleray.rllib.env import EnvContext, ExternalEnv, MultiAgentEnv, VectorEnv, _make, multi_agent_env
from eagleray.rllib.env._bridge import BridgeOptions, GymBridge, VectorEnvBridge
from eagleray.rllib.env.spaces import ActionForm, ObservationForm
from eagleray.rllib.utils.error import (
    EnvError,
    MissingPackageError,
    NotFiniteError,
    SpaceMismatchError,
    UnsupportedSpaceException,
)
from eagleray.tune.registry import register_env


class Counter(gym.Env):
    """Counts to its length; of the newer era."""

    observation_space = Box(0.0, 100.0, (2,), np.float32)
    action_space = Discrete(3)

    def __init__(self, length=3, start=0.0):
        self.length, self.start, self.seeds = length, start, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.at = 0
        return np.array([self.start, 0.0], np.float32), {"hello": 1}

    def step(self, action):
        self.at += 1
        return np.array([self.start, self.at], np.float32), float(action), self.at >= self.length, False, {}


class OldCounter:
    """The same, of the older era: no seed, no info, lists and whole numbers."""

    observation_space = Box(0, 100, (2,))
    action_space = Discrete(3)

    def __init__(self, config):
        self.length = config["length"]

    def reset(self):
        self.at = 0
        return [0, 0]

    def step(self, action):
        self.at += 1
        return [0, self.at], int(action), self.at >= self.length, {}


def rows(*values):
    return np.array(values, np.float32).reshape(len(values), -1)


def bridge_of(make, count=1, **options):
    return GymBridge(make, count, BridgeOptions(**options))


@pytest.mark.parametrize("make", [lambda i: Counter(3), lambda i: OldCounter({"length": 3})], ids=["new", "old"])
def test_both_eras_give_the_same_columns(make):
    bridge = bridge_of(make, 2)
    assert bridge.reset().tolist() == [[0, 0], [0, 0]]
    for at in (1, 2):
        bridge.step(rows(1, 2))
        assert bridge.observed_rows.tolist() == [[0, at], [0, at]]
        assert bridge.rewards.tolist() == [1, 2]
        assert not bridge.terminated.any()
        assert bridge.ended == []
    bridge.step(rows(0, 0))
    assert bridge.terminated.tolist() == [True, True]
    assert bridge.truncated.tolist() == [False, False]
    assert bridge.ended == [0, 1]
    assert bridge.last.tolist() == [[0, 3], [0, 3]], "what was seen in the end"
    assert bridge.observed_rows.tolist() == [[0, 0], [0, 0]], "another episode has begun"


def test_the_first_reset_is_seeded_and_later_ones_are_not():
    envs = []
    bridge = bridge_of(lambda i: envs.append(Counter(1)) or envs[-1], 2, seed=7)
    bridge.reset()
    bridge.step(rows(0, 0))
    assert [env.seeds for env in envs] == [[7, None], [8, None]]


def test_a_horizon_cuts_episodes_without_ending_them():
    bridge = bridge_of(lambda i: Counter(3), horizon=2)
    bridge.reset()
    bridge.step(rows(0))
    assert not bridge.truncated[0]
    bridge.step(rows(0))
    assert (bridge.terminated[0], bridge.truncated[0]) == (False, True)
    assert bridge.last[0].tolist() == [0, 2]


def test_the_time_limit_of_gymnasium_is_kept():
    bridge = bridge_of(lambda i: gym.make("MountainCar-v0"))
    bridge.reset()
    ends = []
    for at in range(1, 401):
        bridge.step(rows(1))
        if bridge.ended:
            ends.append((at, bool(bridge.terminated[0]), bool(bridge.truncated[0])))
    assert ends == [(200, False, True), (400, False, True)]


def test_gymnasium_itself_and_the_bridge_walk_alike():
    env = gym.make("CartPole-v1")
    bridge = bridge_of(lambda i: gym.make("CartPole-v1"), seed=5)
    seen, _ = env.reset(seed=5)
    assert np.array_equal(bridge.reset()[0], seen)
    chance = np.random.default_rng(0)
    for _ in range(300):
        action = int(chance.integers(2))
        seen, reward, terminated, truncated, _ = env.step(action)
        bridge.step(rows(action))
        assert bridge.rewards[0] == reward
        assert (bridge.terminated[0], bridge.truncated[0]) == (terminated, truncated)
        if terminated or truncated:
            assert np.array_equal(bridge.last[0], seen)
            seen, _ = env.reset()
        assert np.array_equal(bridge.observed_rows[0], seen)


def test_an_older_time_limit_is_no_end():
    class Limited(OldCounter):
        def step(self, action):
            seen, reward, done, _ = super().step(action)
            return seen, reward, done, {"TimeLimit.truncated": done}

    bridge = bridge_of(lambda i: Limited({"length": 1}))
    bridge.reset()
    bridge.step(rows(0))
    assert (bridge.terminated[0], bridge.truncated[0]) == (False, True)


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ([1.0], "has the shape"),
        ([1.0, 200.0], "outside of its bounds"),
        ([1.0, float("nan")], "not a number"),
        ("text", "not made of numbers"),
        (None, "not"),
    ],
)
def test_observations_that_contradict_the_space_are_named(observation, text):
    class Wrong(Counter):
        def step(self, action):
            return observation, 0.0, False, False, {}

    bridge = bridge_of(lambda i: Wrong(), label="runner 1, ")
    bridge.reset()
    with pytest.raises(SpaceMismatchError, match=f"runner 1, sub-environment 0, step .vector step 1.*{text}"):
        bridge.step(rows(0))


def test_what_is_not_a_number_later_on_is_named_with_its_step():
    class Bad(Counter):
        def step(self, action):
            seen, *rest = super().step(action)
            return (seen * np.nan if self.at == 50 else seen), *rest

    bridge = bridge_of(lambda i: Bad(1000), 2)
    bridge.reset()
    for _ in range(49):
        bridge.step(rows(0, 0))
    with pytest.raises(NotFiniteError, match=r"vector step 50.*the observation"):
        bridge.step(rows(0, 0))


def test_a_shape_that_changes_later_on_is_named():
    class Bad(Counter):
        def step(self, action):
            seen, *rest = super().step(action)
            return (np.zeros(3) if self.at == 50 else seen), *rest

    bridge = bridge_of(lambda i: Bad(1000))
    bridge.reset()
    for _ in range(49):
        bridge.step(rows(0))
    with pytest.raises(SpaceMismatchError, match="does not fit the declared observation_space"):
        bridge.step(rows(0))


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_rewards_that_are_no_numbers_are_named(reward):
    class Bad(Counter):
        def step(self, action):
            seen, _, *rest = super().step(action)
            return seen, reward, *rest

    bridge = bridge_of(lambda i: Bad())
    bridge.reset()
    with pytest.raises(NotFiniteError, match="vector step 1.*the reward is"):
        bridge.step(rows(0))


def test_a_step_of_a_wrong_form_is_named():
    class Bad(Counter):
        def step(self, action):
            return 1, 2, 3

    bridge = bridge_of(lambda i: Bad())
    bridge.reset()
    with pytest.raises(EnvError, match="four or five parts"):
        bridge.step(rows(0))


def test_an_environment_that_raises_is_made_anew_if_wanted():
    class Fragile(Counter):
        made = 0

        def __init__(self):
            super().__init__(100)
            Fragile.made += 1
            self.is_first = Fragile.made == 1

        def step(self, action):
            if self.is_first and self.at == 2:
                raise RuntimeError("broken")
            return super().step(action)

    bridge = bridge_of(lambda i: Fragile() if i == 0 else Counter(100), 2, restarts=True)
    bridge.reset()
    for _ in range(3):
        bridge.step(rows(1, 1))
    assert (bridge.broken, bridge.restarts) == ([0], 1)
    assert bridge.truncated.tolist() == [True, False], "the other one goes on"
    assert bridge.observed_rows.tolist() == [[0, 0], [0, 3]]
    Fragile.made = 0
    bridge = bridge_of(lambda i: Fragile())
    bridge.reset()
    bridge.step(rows(1))
    bridge.step(rows(1))
    with pytest.raises(RuntimeError, match="broken") as raised:
        bridge.step(rows(1))
    assert any("vector step 3" in note for note in raised.value.__notes__)


@pytest.mark.parametrize(("clip", "expected"), [(None, 2.0), (True, 1.0), (1.5, 1.5), (False, 2.0)])
def test_rewards_are_clipped_for_learning_only(clip, expected):
    bridge = bridge_of(lambda i: Counter(), clip_rewards=clip)
    bridge.reset()
    bridge.step(rows(2))
    assert bridge.rewards[0] == expected
    assert bridge.raw_rewards == [2.0]


NESTED = Dict({"a": Discrete(3), "b": Tuple([Box(-1, 1, (2, 2)), MultiBinary(2)]), "c": MultiDiscrete([2, 3])})


def test_nested_observations_become_rows():
    form = ObservationForm(NESTED)
    seen = {"a": 2, "b": (np.array([[0.1, 0.2], [0.3, 0.4]], np.float32), np.array([1, 0])), "c": np.array([1, 2])}
    expected = [0, 0, 1, 0.1, 0.2, 0.3, 0.4, 1, 0, 0, 1, 0, 0, 1]
    assert form.row(seen)[0].tolist() == pytest.approx(expected)
    assert form.observed.shape == (14,)
    for _ in range(20):
        assert np.isfinite(form.row(NESTED.sample())).all()
    with pytest.raises(SpaceMismatchError, match="has no part 'c'"):
        form.row({"a": 0, "b": seen["b"]})
    with pytest.raises(SpaceMismatchError, match="part 'a'"):
        form.row({**seen, "a": 3})


def test_pictures_keep_their_shape_and_are_scaled():
    form = ObservationForm(Box(0, 255, (4, 5, 3), np.uint8))
    assert form.observed.shape == (4, 5, 3)
    assert form.row(np.full((4, 5, 3), 255, np.uint8))[0].tolist() == pytest.approx([1.0] * 60)
    assert ObservationForm(Box(0, 1, (4, 5))).observed.shape == (20,)


@pytest.mark.parametrize("wrap", ["alone", "in a Dict", "in a Tuple"])
def test_several_choices_may_begin_anywhere(wrap):
    # What such a space held was once refused: its bounds were taken to be [0, nvec).
    choices = MultiDiscrete([3, 4], start=[-1, 10])
    made = {"alone": choices, "in a Dict": Dict({"x": choices}), "in a Tuple": Tuple([choices])}[wrap]

    def seen(*values):
        value = np.array(values)
        return {"alone": value, "in a Dict": {"x": value}, "in a Tuple": (value,)}[wrap]

    form = ObservationForm(made)
    assert form.row(seen(1, 10))[0].tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert form.row(seen(-1, 13))[0].tolist() == [1, 0, 0, 0, 0, 0, 1]
    made.seed(0)
    for _ in range(20):
        assert form.row(made.sample())[0].sum() == 2
    for wrong in ((2, 10), (-2, 10), (0, 14), (0, 9)):
        with pytest.raises(SpaceMismatchError, match=r"outside of \[\[-1, 10\], \[2, 14\]\)"):
            form.row(seen(*wrong))
        # Later steps are written without being checked before.
        with pytest.raises(SpaceMismatchError, match=r"outside of \[\[-1, 10\], \[2, 14\]\)"):
            form.write(seen(*wrong), np.empty(7, np.float32))


def test_discrete_spaces_may_start_elsewhere():
    assert ObservationForm(Discrete(3, start=5)).row(6)[0].tolist() == [0, 1, 0]
    form = ActionForm(Discrete(3, start=5))
    assert form.actions(rows(0, 2)) == [5, 7]
    assert form.row(7).tolist() == [[2]]


ACTIONS = [
    (Discrete(4), (4,)),
    (MultiDiscrete([2, 3]), (2, 3)),
    (MultiBinary(3), (2, 2, 2)),
    (Tuple([Discrete(2), MultiDiscrete([3, 4])]), (2, 3, 4)),
    (Dict({"x": Discrete(2), "y": Discrete(5)}), (2, 5)),
]


@pytest.mark.parametrize(("space", "sizes"), ACTIONS, ids=lambda value: str(value))
def test_rows_of_indices_become_actions_of_the_space_and_back(space, sizes):
    form = ActionForm(space)
    assert (form.acted.kind, form.acted.sizes) == ("discrete", sizes)
    given = np.array([[size - 1 for size in sizes], [0] * len(sizes)], np.float32)
    for row, action in zip(given, form.actions(given), strict=True):
        assert space.contains(action)
        assert form.row(action)[0].tolist() == row.tolist()


def test_actions_in_a_box_are_scaled_or_clipped():
    space = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    scaled = ActionForm(space)
    assert [a.tolist() for a in scaled.actions(rows([-1, 0], [1, 5]))] == [[-2, 5], [2, 10]]
    assert scaled.row(np.array([0.0, 10.0])).tolist() == [[0, 1]]
    plain = ActionForm(space, normalize=False)
    assert plain.actions(rows([3, 3]))[0].tolist() == [3, 3]
    clipped = ActionForm(space, normalize=False, clip=True)
    assert clipped.actions(rows([3, -3]))[0].tolist() == [2, 0]
    assert clipped.actions(rows([3, -3]))[0].dtype == np.float32
    endless = ActionForm(Box(-np.inf, np.inf, (1,)))
    assert endless.actions(rows([7]))[0].tolist() == [7]


def test_spaces_that_no_network_sees_are_refused():
    class Odd(gym.Space):
        pass

    with pytest.raises(UnsupportedSpaceException, match="observation_space"):
        ObservationForm(Odd())
    with pytest.raises(UnsupportedSpaceException, match="action_space"):
        ActionForm(Tuple([Discrete(2), Box(0, 1, (1,)), Odd()]))


class Pair(VectorEnv):
    def __init__(self):
        super().__init__(Box(0, 100, (1,)), Discrete(2), 2)
        self.at = [0, 0]

    def vector_reset(self):
        self.at = [0, 0]
        return [[0], [0]]

    def reset_at(self, index):
        self.at[index] = 0
        return [0]

    def vector_step(self, actions):
        self.at = [at + 1 + i for i, at in enumerate(self.at)]
        return [[at] for at in self.at], [1.0, 2.0], [at >= 4 for at in self.at], [{}, {}]


def test_a_vector_env_is_driven_as_one():
    bridge = VectorEnvBridge(Pair(), BridgeOptions())
    assert bridge.reset().tolist() == [[0], [0]]
    bridge.step(rows(0, 1))
    assert bridge.observed_rows.tolist() == [[1], [2]]
    bridge.step(rows(0, 1))
    assert bridge.ended == [1]
    assert (bridge.last[1].tolist(), bridge.observed_rows.tolist()) == ([4], [[2], [0]])


def test_environments_are_made_by_whatever_names_them():
    register_env("counter-of", lambda config: Counter(config["length"]))
    context = EnvContext({"length": 4}, worker_index=2, vector_index=1, num_workers=3)
    assert _make.make("counter-of", context).length == 4
    assert _make.make(OldCounter, context).length == 4
    assert _make.make(lambda: Counter(9), context).length == 9
    assert _make.make("CartPole-v1", EnvContext()).spec.id == "CartPole-v1"
    seen = []
    _make.make(lambda config: seen.append(config) or Counter(), context)
    assert (seen[0].worker_index, seen[0].vector_index, seen[0].num_workers, seen[0].remote) == (2, 1, 3, False)
    with pytest.raises(EnvError, match="did you mean 'CartPole-v1'"):
        _make.make("CartPol-v1", EnvContext())
    with pytest.raises(EnvError, match="returned None"):
        _make.make(lambda config: None, context)
    with pytest.raises(ValueError, match="no environment"):
        _make.make(None, context)
    with pytest.raises(TypeError, match="must be a class"):
        _make.make(3, context)


def test_a_context_is_copied_and_pickled_whole():
    import pickle

    context = EnvContext({"a": 1}, 2, 3, True, 4)
    again = pickle.loads(pickle.dumps(context))
    assert (again, again.worker_index, again.vector_index, again.remote, again.num_workers) == ({"a": 1}, 2, 3, True, 4)
    other = context.copy_with_overrides(vector_index=9)
    assert (other.vector_index, other.worker_index, other["a"]) == (9, 2, 1)


def test_without_gymnasium_a_clear_word(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingPackageError, match="gymnasium, which may know it, is not installed"):
        _make.make("Pong-v5", EnvContext())


class Turns(MultiAgentEnv):
    observation_space = Box(0, 10, (1,))
    action_space = Discrete(2)

    def reset(self):
        return {"a": [0]}

    def step(self, action_dict):
        return {"b": [1]}, {"a": 1}, {"__all__": False}, {}


def test_several_agents_speak_in_dictionaries_of_either_era():
    env = Turns()
    assert multi_agent_env.reset(env, 3) == ({"a": [0]}, {})
    seen, rewards, terminated, truncated, _ = multi_agent_env.parts(env.step({"a": 1}))
    assert (seen, rewards, terminated, truncated) == ({"b": [1]}, {"a": 1}, {"__all__": False}, {})
    with pytest.raises(EnvError, match="dictionaries"):
        multi_agent_env.parts(([1], {}, {}, {}))
    assert env.get_observation_space("a") is Turns.observation_space


def test_one_environment_becomes_several_agents():
    env = multi_agent_env.make_multi_agent(lambda config: Counter(2))({"num_agents": 2})
    seen, _ = env.reset(seed=1)
    assert set(seen) == {0, 1}
    assert env.get_action_space(1) == Discrete(3)
    _, rewards, terminated, _, _ = env.step({0: 1, 1: 2})
    assert (rewards, terminated["__all__"]) == ({0: 1.0, 1: 2.0}, False)
    assert env.step({0: 1, 1: 2})[2] == {0: True, 1: True, "__all__": True}


class Asker(ExternalEnv):
    def __init__(self, questions):
        super().__init__(Discrete(2), Box(0, 10, (1,)))
        self.questions, self.answers = questions, []

    def run(self):
        episode = self.start_episode()
        for at in range(self.questions):
            self.answers.append(self.get_action(episode, [at]))
            self.log_returns(episode, 1.0)
            self.log_returns(episode, 0.5)
        self.end_episode(episode, [9])
        if self.questions == 1:
            raise RuntimeError("the simulator broke")


def test_an_external_env_asks_and_is_answered():
    env = Asker(2)
    env.begin()
    for at in range(2):
        request = env.next_request(10)
        assert (request.kind, request.observation, request.episode.reward) == ("act", [at], 1.5 if at else 0.0)
        request.episode.reward = 0.0
        request.reply.put(at + 5)
    assert env.next_request(10).kind == "end"
    env.join(10)
    assert env.answers == [5, 6]
    with pytest.raises(EnvError, match="returned"):
        env.next_request(10)


def test_an_external_env_that_breaks_says_so():
    env = Asker(1)
    env.begin()
    env.next_request(10).reply.put(0)
    assert env.next_request(10).kind == "end"
    with pytest.raises(RuntimeError, match="the simulator broke"):
        env.next_request(10)


def test_an_external_env_ends_at_its_next_question():
    env = Asker(100)
    env.begin()
    env.next_request(10).reply.put(0)
    env.end()
    env.join(10)
    assert not env.is_alive()


def test_episodes_that_are_not_there_are_refused():
    env = Asker(0)
    with pytest.raises(ValueError, match="not found"):
        env.log_returns("x", 1.0)
    env.start_episode("x")
    with pytest.raises(ValueError, match="already started"):
        env.start_episode("x")
