"""Episodes of several agents that programs make and fill themselves."""

import random

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from eagleray.rllib.env._episode import Episode
from eagleray.rllib.env.multi_agent_episode import MultiAgentEpisode


def together(steps, *, id_=None, done=True):
    """Two agents that both act in each step: what they see is the step, of "b" a hundred more."""
    episode = MultiAgentEpisode(id_, agent_to_module_mapping_fn=lambda agent, episode: f"module {agent}")
    episode.add_env_reset(observations={"a": 0, "b": 100}, infos={"a": {"at": 0}})
    for at in range(1, steps + 1):
        episode.add_env_step(
            {"a": at, "b": 100 + at},
            {"a": -at, "b": -100 - at},
            {"a": at / 10, "b": 1.0},
            {"a": {"at": at}},
            terminateds={"__all__": done and at == steps},
            extra_model_outputs={"a": {"logp": at / 100}, "b": {"logp": 0.0}},
        )
    return episode


def in_turns():
    """Agents that act in turns, and see only what they can act upon; "b" ends first, and "a" in a step of nobody's."""
    episode = MultiAgentEpisode("turns", ["a", "b"])
    episode.add_env_reset(observations={"a": "a0"})
    episode.add_env_step({"b": "b1"}, {"a": "left"}, {"a": 1.0, "b": 0.5})
    episode.add_env_step({"a": "a2"}, {"b": "up"}, {"a": 2.0})
    episode.add_env_step({"b": "b3"}, {"a": "right"}, {"a": 4.0})
    episode.add_env_step({}, {"b": "down"}, {"b": 8.0}, terminateds={"b": True})
    return episode


@pytest.mark.parametrize("as_arrays", [False, True])
def test_an_episode_has_one_of_each_agent(as_arrays):
    episode = together(3)
    if as_arrays:
        assert not episode.is_numpy
        assert episode.to_numpy() is episode
    assert episode.is_numpy is as_arrays
    assert (len(episode), episode.env_steps(), episode.agent_steps(), episode.env_t) == (3, 3, 6, 3)
    assert (episode.is_done, episode.is_terminated, episode.is_truncated) == (True, True, False)
    assert episode.get_terminateds() == {"a": True, "b": True, "__all__": True}
    assert episode.get_return() == pytest.approx(3.6)
    assert episode.get_duration_s() > 0
    own = episode.agent_episodes["a"]
    assert (own.agent_id, own.module_id, own.multi_agent_episode_id) == ("a", "module a", episode.id_)
    assert (own.observations, own.actions, own.is_terminated) == ([0, 1, 2, 3], [-1, -2, -3], True)
    assert episode.get_agents_that_stepped() == {"a", "b"}
    assert episode.get_agents_to_act() == set()
    with pytest.raises(AssertionError, match="this episode is over"):
        episode.add_env_step({"a": 4}, {"a": 0}, {"a": 0.0})
    with pytest.raises(AssertionError, match="nothing comes behind it"):
        episode.cut()


@pytest.mark.parametrize("as_arrays", [False, True])
def test_steps_are_asked_for_by_their_places(as_arrays):
    episode = together(4)
    if as_arrays:
        episode.to_numpy()
    assert episode.get_observations(-1) == {"a": 4, "b": 104}
    assert episode.get_actions(0) == {"a": -1, "b": -101}
    assert episode.get_rewards(-1, "a") == {"a": 0.4}
    assert {agent: list(found) for agent, found in episode.get_observations(slice(1, 3)).items()} == {
        "a": [1, 2],
        "b": [101, 102],
    }
    assert list(episode.get_observations(agent_ids=["b"])["b"]) == [100, 101, 102, 103, 104]
    assert episode.get_actions([0, -1], return_list=True) == [{"a": -1, "b": -101}, {"a": -4, "b": -104}]
    assert episode.get_infos(2) == {"a": {"at": 2}, "b": {}}
    assert list(episode.get_extra_model_outputs("logp")["a"]) == [0.01, 0.02, 0.03, 0.04]
    assert episode.get_extra_model_outputs(indices=-1) == {"logp": {"a": 0.04, "b": 0.0}}
    assert list(episode.get_observations(slice(3, 7), "a", fill=9)["a"]) == [3, 4, 9, 9]
    assert isinstance(episode.get_rewards()["a"], np.ndarray if as_arrays else list)
    with pytest.raises(IndexError, match="no step 5 in an episode of 4, with 0 before it"):
        episode.get_observations(5)
    with pytest.raises(ValueError, match="env_steps=True"):
        episode.get_observations(0, env_steps=False, return_list=True)


def test_an_action_waits_for_the_agents_next_observation_and_rewards_add_up():
    episode = in_turns()
    assert (len(episode), episode.agent_steps(), episode.is_done) == (4, 3, False)
    mine, theirs = episode.agent_episodes["a"], episode.agent_episodes["b"]
    assert (mine.observations, mine.actions, mine.rewards) == (["a0", "a2"], ["left"], [3.0])
    # Its last action has no observation behind it: the one before stands for it. What came before its first counts for its first step.
    assert (theirs.observations, theirs.actions, theirs.rewards) == (["b1", "b3", "b3"], ["up", "down"], [0.5, 8.0])
    assert (theirs.is_terminated, mine.is_done) == (True, False)
    assert episode.get_observations(return_list=True) == [
        {"a": "a0"},
        {"b": "b1"},
        {"a": "a2"},
        {"b": "b3"},
        {"b": "b3"},
    ]
    assert episode.get_observations(-1, env_steps=False) == {"a": "a2", "b": "b3"}
    # The last of "a" is among them, although nothing has come of it.
    assert episode.get_actions(return_list=True) == [{"a": "left"}, {"b": "up"}, {"a": "right"}, {"b": "down"}]
    assert episode.get_actions(env_steps=False) == {"a": ["left"], "b": ["up", "down"]}
    assert episode.get_rewards(return_list=True) == [{}, {"a": 3.0}, {"b": 0.5}, {"b": 8.0}]
    assert episode.get_rewards(0, fill=0.0) == {"a": 0.0, "b": 0.0}
    assert episode.get_return() == 11.5
    assert episode.get_return(consider_hanging_rewards=True) == 15.5
    with pytest.raises(AssertionError, match="agent 'b' is done, and an action came for it"):
        episode.add_env_step({}, {"b": "up"}, {})
    with pytest.raises(AssertionError, match="agent 'a' acted again before it saw"):
        episode.add_env_step({}, {"a": "up"}, {})
    with pytest.raises(AssertionError, match="agent 'c' acted before it saw anything"):
        episode.add_env_step({}, {"c": "up"}, {})
    assert len(episode) == 4, "what is refused changes nothing"
    episode.add_env_step({}, {}, {"a": 16.0}, truncateds={"__all__": True})
    assert (mine.rewards, mine.is_truncated) == ([3.0, 20.0], True)
    assert (theirs.is_terminated, theirs.is_truncated) == (True, False)
    assert episode.get_return() == 31.5


def test_what_was_not_acted_upon_gives_way_to_what_is_newer():
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0, "b": 0})
    episode.add_env_step({"a": 1, "b": 1}, {"a": 7}, {"a": 1.0, "b": 1.0})
    episode.add_env_step({"a": 2, "b": 2}, {"a": 7, "b": 8}, {"a": 1.0, "b": 1.0})
    episode.add_env_step({"a": 3, "b": 3}, {"a": 7}, {"a": 1.0, "b": 1.0}, terminateds={"__all__": True})
    theirs = episode.agent_episodes["b"]
    assert (theirs.observations, theirs.actions, theirs.rewards) == ([1, 3], [8], [3.0])
    assert theirs.is_terminated
    assert episode.get_observations(0) == {"a": 0}
    assert episode.get_return() == 6.0


def test_a_part_goes_on_where_the_one_before_was_cut():
    going = in_turns()
    after = going.cut(len_lookback_buffer=3)
    assert (after.id_, after.env_t_started, len(after), after.agent_ids) == ("turns", 4, 0, {"a", "b"})
    assert set(after.agent_episodes) == {"a"}, "who is done takes no part any more"
    assert after.agent_episodes["a"].get_observations() == ["a2"]
    assert after.get_actions(-2) == {"a": "right"}
    assert after.get_actions(-2, neg_index_as_lookback=True) == {"a": "right"}
    with pytest.raises(AssertionError, match="agent 'b' is done, and an observation came for it"):
        after.add_env_step({"b": "b5"}, {}, {})
    after.add_env_step({"a": "a5", "c": "c5"}, {}, {"a": 16.0})
    after.add_env_step({"a": "a6"}, {"a": "on", "c": "off"}, {"a": 32.0}, terminateds={"__all__": True})
    assert (after.get_rewards(return_list=True), after.env_t) == ([{"a": 20.0}, {"a": 32.0, "c": 0.0}], 6)
    going.concat_episode(after)
    assert (len(going), going.is_terminated, going.get_return()) == (6, True, 63.5)
    mine = going.agent_episodes["a"]
    assert (mine.observations, mine.actions) == (["a0", "a2", "a5", "a6"], ["left", "right", "on"])
    assert going.get_observations([4, 5, 6], return_list=True) == [
        {"b": "b3"},
        {"a": "a5", "c": "c5"},
        {"a": "a6", "c": "c5"},
    ]
    assert going.get_actions(2) == {"a": "right"}
    with pytest.raises(AssertionError, match="not the part that comes behind"):
        going.concat_episode(after)


def test_what_is_given_at_birth_is_looked_back_at_unless_it_is_said_to_belong():
    data = {
        "observations": [{"a": 0, "b": 0}, {"a": 1}, {"a": 2, "b": 2}],
        "actions": [{"a": 5, "b": 6}, {"a": 7}],
        "rewards": [{"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.4}],
    }
    looking_back = MultiAgentEpisode(**data, env_t_started=10, agent_t_started={"a": 10, "b": 4})
    assert (len(looking_back), looking_back.env_t, looking_back.get_return()) == (0, 10, 0.0)
    assert looking_back.get_observations() == {"a": [2], "b": [2]}
    assert looking_back.get_actions(-2) == {"a": 5, "b": 6}
    assert [looking_back.agent_episodes[agent].t for agent in "ab"] == [10, 4]
    own = MultiAgentEpisode(**data, len_lookback_buffer=0, terminateds=True)
    assert (len(own), own.agent_steps(), own.is_terminated) == (2, 3, True)
    assert own.get_return() == pytest.approx(1.0)
    part = MultiAgentEpisode(**data, len_lookback_buffer=1)
    assert (len(part), part.get_rewards(env_steps=False)) == (1, {"a": [0.3], "b": [pytest.approx(0.6)]})
    with pytest.raises(AssertionError, match="there are 2 steps with observations behind them, and 1 actions"):
        MultiAgentEpisode(**{**data, "actions": data["actions"][:1]})


def test_an_episode_is_given_as_batches_and_made_again_from_its_state():
    episode = together(3)
    batch = episode.get_sample_batch()
    assert (batch.env_steps(), batch.agent_steps()) == (3, 6)
    assert list(batch["b"]["obs"]) == [100, 101, 102]
    again = MultiAgentEpisode.from_state(episode.get_state())
    assert (again.id_, again.get_return(), again.module_for("b")) == (episode.id_, episode.get_return(), "module b")
    assert again.get_observations(2) == {"a": 2, "b": 102}
    spaces = MultiAgentEpisode(observation_space={"a": Discrete(3)})
    spaces.add_env_reset(observations={"a": 2})
    assert spaces.get_observations(0, one_hot_discrete=True)["a"].tolist() == [0, 0, 1]
    # What callbacks are given counts as one too.
    assert isinstance(Episode(), MultiAgentEpisode)
    assert isinstance(episode, MultiAgentEpisode)
    assert not isinstance(episode.agent_episodes["a"], MultiAgentEpisode)


@pytest.mark.parametrize("seed", range(100))
def test_whatever_happens_nothing_is_lost_or_invented(seed):
    """Agents come, see, act and go as chance has it, in one piece and in parts; both tell the same."""
    chance = random.Random(seed)
    whole = MultiAgentEpisode("x")
    part = MultiAgentEpisode("x")
    parts = [part]
    agents = ["a", "b", "c"]
    waits, over, paid = set(), set(), 0.0
    first = {agent: 0 for agent in agents if chance.random() < 0.7} or {"a": 0}
    known = set(first)
    for episode in (whole, part):
        episode.add_env_reset(observations=first)
    for at in range(1, chance.randrange(2, 15)):
        alive = [agent for agent in agents if agent not in over]
        actions = {agent: at for agent in alive if agent in known - waits and chance.random() < 0.6}
        seen = {agent: at for agent in alive if chance.random() < 0.5}
        rewards = {agent: float(at) for agent in alive if chance.random() < 0.5}
        ends = {agent: True for agent in alive if agent in known and chance.random() < 0.1}
        paid += sum(rewards.values())
        for episode in (whole, part):
            episode.add_env_step(seen, actions, rewards, truncateds=ends)
        known |= set(seen)
        waits = (waits | set(actions)) - set(seen) - set(ends)
        over |= set(ends)
        if chance.random() < 0.3:
            part = part.cut(chance.randrange(3))
            parts.append(part)
    for episode in (whole, *parts):
        episode.validate()
    assert whole.get_return(consider_hanging_rewards=True) == pytest.approx(paid)
    told = parts[0]
    for other in parts[1:]:
        told.concat_episode(other)
    assert told.get_return(consider_hanging_rewards=True) == pytest.approx(paid)
    assert (len(told), told.agent_steps()) == (len(whole), whole.agent_steps())
    for name in ("get_observations", "get_actions"):
        assert getattr(told, name)(return_list=True) == getattr(whole, name)(return_list=True)
        assert getattr(told, name)(env_steps=False) == getattr(whole, name)(env_steps=False)
