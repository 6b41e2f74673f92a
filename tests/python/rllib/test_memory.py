"""States of networks that remember, as programs hand them on."""

import numpy as np
import pytest

from eagleray.rllib.algorithms.ppo import PPOConfig

CELLS = 8


def ppo(**model):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).debugging(seed=1)
    return config.training(train_batch_size=100, minibatch_size=50, num_epochs=1, model={"fcnet_hiddens": [8], **model})


@pytest.fixture(scope="module")
def algo(shared_ray):
    made = ppo(use_lstm=True, lstm_cell_size=CELLS).build_algo()
    yield made
    made.stop()


SEEN = np.array([0.1, -0.2, 0.05, 0.3], np.float32)
FORMS = {
    "list": lambda h, c: [h, c],
    "rows": lambda h, c: [h[None], c[None]],
    "dict": lambda h, c: {"h": h, "c": c},
    "tuple": lambda h, c: (h, c),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_state_of_any_form_is_gone_on_from(algo, form):
    h, c = np.full(CELLS, 0.5, np.float32), np.full(CELLS, -2.0, np.float32)
    action, state, more = algo.compute_single_action(SEEN, FORMS[form](h, c), explore=False)
    assert action in (0, 1)
    assert [part.shape for part in state] == [(CELLS,), (CELLS,)]
    module = algo.get_module().forward_inference({"obs": SEEN[None], "state_in": {"h": h[None], "c": c[None]}})
    assert np.array_equal(more["action_dist_inputs"], module["action_dist_inputs"][0])
    assert np.array_equal(state[0], module["state_out"]["h"][0])
    assert np.array_equal(state[1], module["state_out"]["c"][0])


def test_loops_begin_with_nothing_or_with_zeros(algo):
    policy = algo.get_policy()
    zeros = policy.get_initial_state()
    assert [part.tolist() for part in zeros] == [[0.0] * CELLS] * 2
    first = algo.compute_single_action(SEEN, state=[], explore=False)
    again = algo.compute_single_action(SEEN, zeros, explore=False)
    fetched = algo.compute_single_action(SEEN, explore=False, full_fetch=True)
    for other in (again, fetched, policy.compute_single_action(SEEN, explore=False)):
        assert all(np.array_equal(one, two) for one, two in zip(first[1], other[1], strict=True))
        assert np.array_equal(first[2]["action_dist_inputs"], other[2]["action_dist_inputs"])
    second = algo.compute_single_action(SEEN, first[1], explore=False)
    assert not np.array_equal(first[2]["action_dist_inputs"], second[2]["action_dist_inputs"])
    assert algo.compute_single_action(SEEN, explore=False) == first[0]
    _, states, _ = policy.compute_actions(np.stack([SEEN] * 3), [np.zeros((3, CELLS))] * 2, explore=False)
    assert [part.shape for part in states] == [(3, CELLS)] * 2
    assert np.allclose(states[0], first[1][0])


@pytest.mark.parametrize("state", [[np.zeros(CELLS)], [np.zeros(3), np.zeros(3)], {"h": np.zeros(CELLS)}, b"1234"])
def test_a_state_of_another_form_is_refused(algo, state):
    with pytest.raises(ValueError, match=r"the state must be \[h, c\]"):
        algo.compute_single_action(SEEN, state)


def test_a_module_keeps_nothing_between_two_calls(algo):
    module = algo.get_module()
    assert module.is_stateful()
    assert {name: part.shape for name, part in module.get_initial_state().items()} == {"h": (CELLS,), "c": (CELLS,)}
    zeros, other = ({name: np.full((1, CELLS), value) for name in ("h", "c")} for value in (0.0, 5.0))
    first = module.forward_inference({"obs": SEEN[None], "state_in": zeros})
    for batch in ({"state_in": zeros}, {}):
        again = module.forward_inference({"obs": SEEN[None], **batch})
        assert np.array_equal(first["action_dist_inputs"], again["action_dist_inputs"])
    changed = module.forward_inference({"obs": SEEN[None], "state_in": other})
    assert not np.array_equal(first["action_dist_inputs"], changed["action_dist_inputs"])


def test_steps_in_one_batch_are_steps_one_after_the_other(algo):
    module = algo.get_module()
    seen = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    whole = module.forward_inference({"obs": seen})
    assert whole["action_dist_inputs"].shape == (2, 3, 2)
    state = {}
    for step in range(3):
        one = module.forward_inference({"obs": seen[:, step], **state})
        assert np.allclose(one["action_dist_inputs"], whole["action_dist_inputs"][:, step], atol=1e-6)
        state = {"state_in": one["state_out"]}
    assert np.allclose(one["state_out"]["c"], whole["state_out"]["c"], atol=1e-6)


def test_without_a_memory_an_empty_state_says_nothing(shared_ray):
    algo = ppo().build_algo()
    try:
        assert algo.compute_single_action(SEEN, state=[]) in (0, 1)
        assert algo.compute_single_action(SEEN, [], full_fetch=True)[1] == []
        assert algo.get_policy().get_initial_state() == []
        module = algo.get_module()
        assert module.get_initial_state() == {}
        assert list(module.forward_inference({"obs": SEEN[None]})) == ["action_dist_inputs"]
    finally:
        algo.stop()
