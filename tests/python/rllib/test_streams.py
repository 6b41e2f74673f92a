"""Steps whose outcome comes later: agents that take turns, simulators that ask."""

import numpy as np
import pytest
from tests.python.rllib.fake_engine import FakePolicy

from eagleray.rllib._engine.protocol import Acted, Observed, Plan
from eagleray.rllib.env._streams import Streams


@pytest.fixture
def streams():
    return Streams(FakePolicy(Plan("PPO", Observed((1,)), Acted("discrete", (2,)))))


def row(value):
    return np.array([[value]], np.float32)


def columns(rollout):
    parts = (rollout.seen, rollout.rewards, rollout.terminated, rollout.truncated, rollout.last)
    return [part.reshape(-1).tolist() for part in parts]


def test_rewards_add_up_until_the_agent_acts_again(streams):
    stream = streams.get()
    stream.reward(99.0)  # before its first step it has earned nothing
    stream.act(row(1), explore=False)
    stream.reward(1.0)
    stream.reward(2.0)
    stream.act(row(2), explore=False)
    stream.reward(5.0)
    stream.end(row(3), truncated=False)
    seen, rewards, terminated, truncated, last = columns(*stream.take())
    assert (seen, rewards) == ([1, 2], [3, 5])
    assert (terminated, truncated) == ([False, True], [False, False])
    assert last[1] == 3


def test_what_is_cut_is_not_terminated_and_keeps_what_was_seen_last(streams):
    stream = streams.get()
    stream.act(row(1), explore=False)
    stream.end(row(7), truncated=True)
    stream.act(row(2), explore=False)  # of the next episode
    stream.close(row(3))
    seen, _, terminated, truncated, last = columns(*stream.take())
    assert (seen, terminated, truncated) == ([1, 2], [False, False], [True, False])
    assert last[0] == 7
    assert stream.take() == [], "nothing is handed over twice"


def test_steps_before_an_open_one_go_once_it_is_whole(streams):
    stream = streams.get()
    stream.act(row(1), explore=False)
    stream.act(row(2), explore=False)
    assert stream.take() == [], "nobody knows yet what the second action led to"
    assert stream.is_waiting
    stream.reward(4.0)
    stream.act(row(3), explore=False)
    stream.act(row(4), explore=False)
    # The batch ended behind the second step: what came later is not in its rollout, although both are taken together.
    stream.close(row(5))
    assert [columns(rollout)[:2] for rollout in stream.take()] == [[[1, 2], [0, 4]], [[3, 4], [0, 0]]]


def test_streams_are_used_again_and_taken_together(streams):
    one, other = streams.get(), streams.get()
    for stream, value in ((one, 1), (other, 2)):
        stream.told(row(value), row(1))
        stream.end(row(0), truncated=False)
        streams.give_back(stream)
    assert {id(streams.get()), id(streams.get())} == {id(one), id(other)}
    assert sorted(rollout.seen.item() for rollout in streams.take()) == [1, 2]
    assert streams.take() == []
