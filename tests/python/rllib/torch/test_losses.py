"""What learners with models of one's own minimise, against what `scripts/torch_fixtures.py` put together of torch's parts.

The native learners are held to the same files in crates/rl: so both engines lose the same, row by row.
"""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from eagleray.rllib._engine.protocol import Acted
from eagleray.rllib._engine.torch._columns import Columns, Trust, generalised, v_trace
from eagleray.rllib._engine.torch._dist import dist_of
from eagleray.rllib._engine.torch._losses import Batch, Clipped, Plain, q_loss, q_targets
from eagleray.rllib._engine.torch._replay import Replay

FIXTURES = Path(__file__).parents[4] / "crates" / "rl" / "tests" / "fixtures"


def read(name):
    return json.loads((FIXTURES / f"{name}.json").read_text())


def wide(numbers, *shape):
    return torch.tensor(numbers, dtype=torch.float64).reshape(*shape)


def layers(own, name, rows, activation, *, ends=True):
    numbers = sorted({int(key.split(".")[1]) for key in own if key.startswith(f"{name}.")})
    for number in numbers:
        bias = own[f"{name}.{number}.bias"]
        rows = rows @ own[f"{name}.{number}.weight"].reshape(len(bias), -1).T + bias
        rows = rows if ends and number == numbers[-1] else activation(rows)
    return rows


@pytest.mark.parametrize("index", range(8))
def test_losses_of_policies_and_their_gradients(index):
    case = read("torch_policy_gradients")[index]
    spec, said, columns = case["spec"], case["settings"], case["columns"]
    own = {name: wide(value, -1).requires_grad_() for name, value in case["parameters"].items()}
    (kind, sizes), *_ = spec["acted"].items()
    acted = Acted("box", (1, 1)) if kind == "Box" else Acted("discrete", tuple(np.atleast_1d(sizes).tolist()))
    rows = len(columns["logp"])
    parts = [wide(columns[name], rows, -1) for name in ("observed", "actions", "inputs")]
    batch = Batch(*parts, *(wide(columns[name], -1) for name in ("logp", "advantages", "targets")))
    activation = getattr(torch, spec["activation"])
    body = layers(own, "encoder", batch.observed, activation, ends=False) if spec["is_shared"] else batch.observed
    inputs, values = layers(own, "pi", body, activation), layers(own, "vf", body, activation).squeeze(-1)
    if spec["free_log_std"]:
        inputs = torch.cat([inputs, own["log_std"].expand_as(inputs)], -1)
    loss = Clipped(**said) if case["loss"] == "clipped" else Plain(said["value_weight"], said["entropy_weight"])
    total, found = loss(dist_of(acted), inputs, values, batch)
    total.backward()
    names = {"policy_loss": "choice", "vf_loss": "value", "entropy": "entropy", "kl": "kl"}
    assert {name: found[name].item() for name in names} == pytest.approx(
        {name: case["parts"][other] for name, other in names.items()}, rel=1e-10, abs=1e-12
    )
    assert total.item() == pytest.approx(case["parts"]["total"], rel=1e-10)
    for name, value in own.items():
        gradient = torch.zeros_like(value) if value.grad is None else value.grad
        assert torch.allclose(gradient, wide(case["gradients"][name], -1), rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize("index", [0, 1])
def test_the_loss_of_q_values_and_its_gradients(index):
    case = read("torch_q_learning")[index]
    columns = case["columns"]
    own = {name: wide(value, -1).requires_grad_() for name, value in case["parameters"].items()}
    older = {name: wide(value, -1) for name, value in case["older"].items()}
    rows = len(columns["rewards"])

    def worth(tensors, seen):
        body = layers(tensors, "encoder", seen, torch.tanh, ends=False)
        gains = layers(tensors, "af", body, torch.relu)
        if not case["spec"]["is_dueling"]:
            return gains
        return layers(tensors, "vf", body, torch.relu) + gains - gains.mean(-1, keepdim=True)

    following = wide(columns["following"], rows, -1)
    with torch.no_grad():
        behind = worth(own, following), worth(older, following)
    rewards, discounts, weights = (wide(columns[name], -1) for name in ("rewards", "discounts", "weights"))
    targets = q_targets(*behind, rewards, discounts, is_double=case["is_double"])
    assert torch.allclose(targets, wide(case["targets"], -1), rtol=1e-10)
    every = worth(own, wide(columns["observed"], rows, -1))
    taken = every.gather(-1, wide(columns["actions"], -1, 1).long()).squeeze(-1)
    loss, _ = q_loss(taken, targets, weights, is_huber=True)
    assert loss.item() == pytest.approx(case["loss"], rel=1e-10)
    loss.backward()
    for name, value in own.items():
        assert torch.allclose(value.grad, wide(case["gradients"][name], -1), rtol=1e-9, atol=1e-12), name


def traces():
    said = read("torch_advantages")
    shape = (said["steps"], said["envs"])
    column = {name: np.array(value, np.float32).reshape(shape) for name, value in said["columns"].items()}
    empty = np.zeros((*shape, 0), np.float32)
    columns = Columns(
        observed=empty,
        actions=empty,
        inputs=empty,
        logp=np.zeros(shape, np.float32),
        values=column["values"],
        rewards=column["rewards"],
        terminated=np.array(said["terminated"]).reshape(shape),
        truncated=np.array(said["truncated"]).reshape(shape),
        following=column["following"],
        cut=np.zeros((0, 2), np.int64),
        last=np.zeros((0, 0), np.float32),
        open=np.zeros((shape[1], 0), np.float32),
    )
    return said, columns, column


def test_advantages_and_targets():
    said, columns, column = traces()
    found = generalised(columns, said["gamma"], said["lambda"])
    for one, name in zip(found, ("advantages", "targets"), strict=True):
        assert np.allclose(one.reshape(-1), said["gae"][name], atol=5e-6)
    trust = Trust(said["gamma"], said["rho_max"], said["rho_max_choice"])
    found = v_trace(columns, column["ratios"], column["values"], column["following"], trust)
    for one, name in zip(found, ("advantages", "targets"), strict=True):
        assert np.allclose(one.reshape(-1), said["v_trace"][name], atol=5e-6)


def steps():
    """Two environments, three steps; the first is cut off behind its second step, the second ends by itself behind its first."""
    shape = (3, 2)
    flags = np.zeros((2, *shape), bool)
    flags[0, 0, 1] = flags[1, 1, 0] = True
    none = np.zeros(shape, np.float32)
    return Columns(
        observed=np.array([0, 10, 1, 20, 2, 21], np.float32).reshape(3, 2, 1),
        actions=np.array([0, 1, 1, 0, 0, 1], np.float32).reshape(3, 2, 1),
        inputs=none[..., None],
        logp=none,
        values=none,
        rewards=np.array([1, 2, 4, 8, 16, 32], np.float32).reshape(shape),
        terminated=flags[0],
        truncated=flags[1],
        following=none,
        cut=np.array([[1, 0]]),
        last=np.array([[1.5]], np.float32),
        open=np.array([[3.0], [22.0]], np.float32),
    )


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (1, [(0, 1, 1, 0.5), (10, 2, 10, 0), (1, 4, 1.5, 0.5), (20, 8, 21, 0.5), (2, 16, 3, 0.5), (21, 32, 22, 0.5)]),
        (
            3,
            [
                (0, 3, 1.5, 0.25),
                (10, 2, 10, 0),
                (1, 4, 1.5, 0.5),
                (20, 24, 22, 0.25),
                (2, 16, 3, 0.5),
                (21, 32, 22, 0.5),
            ],
        ),
    ],
)
def test_steps_are_remembered_as_the_native_replay_does(ahead, expected):
    replay = Replay(10, is_prioritised=False)
    replay.add(steps(), ahead, 0.5)
    kept, _ = replay.state()
    assert len(replay) == 6
    for row, (observed, reward, following, discount) in enumerate(expected):
        found = tuple(float(kept[name][row].item()) for name in ("observed", "rewards", "discounts"))
        assert found == (observed, reward, discount)
        if discount:
            assert kept["following"][row].item() == following


def test_the_oldest_go_first_and_the_surprising_are_drawn_more_often_and_count_less():
    replay = Replay(4, is_prioritised=True)
    replay.add(steps(), 1, 0.5)
    assert replay.state()[0]["observed"].reshape(-1).tolist() == [2.0, 21.0, 1.0, 20.0]
    replay.set_priorities(np.arange(4), np.array([1.0, 1.0, 5.0, 1.0]), 1.0)
    rows, _, weights = replay.draw(40_000, 1.0, np.random.default_rng(3))
    assert np.mean(rows == 2) == pytest.approx(5 / 8, abs=0.01)
    assert weights[rows == 2][0] == pytest.approx(0.2, abs=1e-4)
    assert weights[rows == 0][0] == pytest.approx(1.0, abs=1e-4)
