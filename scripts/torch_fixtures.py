"""Writes what torch says of losses, gradients, targets and steps of optimisers, for the tests of the native ones.

Everything is put together here of torch's own parts (layers, distributions, losses, optimisers) in double precision, and differentiated by torch. The
tests in crates/rl (`src/learn/fixtures.rs` and `tests/torch.rs`) and in tests/python/rllib/torch read the files. Weights of settings are powers of
two, so that they are the same in single precision.

    pip install torch==2.15.0
    python scripts/torch_fixtures.py
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import torch
from torch import distributions, nn
from torch.nn import functional

FOLDER = Path(__file__).resolve().parent.parent / "crates" / "rl" / "tests" / "fixtures"
ROWS = 12
SETTINGS = {"clip": 0.25, "value_weight": 0.5, "value_clip": 4.0, "entropy_weight": 0.0625, "kl_weight": 0.25}

Tensors = dict[str, Any]


def drawn(*shape: int, by: float = 1.0) -> Any:
    """Normal numbers of this size, with few digits: files stay short."""
    return (torch.randn(*shape, dtype=torch.float64) * by * 256).round() / 256


def layers(tensors: Tensors, name: str, sizes: list[int]) -> None:
    """Full layers, with the names that torch has for them where activations are layers too."""
    for index, (before, after) in enumerate(itertools.pairwise(sizes)):
        tensors[f"{name}.{2 * index}.weight"] = drawn(after, before, by=0.7)
        tensors[f"{name}.{2 * index}.bias"] = drawn(after, by=0.3)


def forward(tensors: Tensors, name: str, rows: Any, activation: Any, *, ends: bool = True) -> Any:
    """What such layers give. `ends`: the last one has no activation."""
    numbers = sorted({int(key.split(".")[1]) for key in tensors if key.startswith(f"{name}.")})
    for number in numbers:
        weight, bias = tensors[f"{name}.{number}.weight"], tensors[f"{name}.{number}.bias"]
        if weight.dim() == 4:
            # Stored with the channels last, as the pictures are.
            rows = functional.conv2d(rows, weight.permute(0, 3, 1, 2), bias).relu()
            continue
        if rows.dim() == 4:
            rows = rows.permute(0, 2, 3, 1).flatten(1)
        rows = functional.linear(rows, weight, bias)
        if not (ends and number == numbers[-1]):
            rows = activation(rows)
    return rows


def learned(tensors: Tensors) -> Tensors:
    """The same tensors, to be differentiated by."""
    return {name: value.clone().requires_grad_() for name, value in tensors.items()}


def lists(tensors: Tensors) -> dict[str, list[float]]:
    """Flat lists of numbers."""
    return {name: value.detach().flatten().tolist() for name, value in tensors.items()}


def gradients(tensors: Tensors) -> dict[str, list[float]]:
    """Those of the last way back; zero where nothing came."""
    return {
        name: (torch.zeros_like(value) if value.grad is None else value.grad).flatten().tolist()
        for name, value in tensors.items()
    }


def chosen_from(acted: Any, inputs: Any) -> list[Any]:
    """Torch's distributions for rows of what is chosen from."""
    kind, said = next(iter(acted.items()))
    if kind == "Box":
        means, logs = inputs.chunk(2, -1)
        return [distributions.Independent(distributions.Normal(means, logs.exp()), 1)]
    sizes = [said] if kind == "Discrete" else said
    return [distributions.Categorical(logits=scores) for scores in inputs.split(sizes, -1)]


def log_prob(acted: Any, inputs: Any, actions: Any) -> Any:
    """The logarithm of the probability of whole actions."""
    found = chosen_from(acted, inputs)
    if "Box" in acted:
        return found[0].log_prob(actions)
    return sum(one.log_prob(actions[:, index]) for index, one in enumerate(found))


def lost(loss: str, acted: Any, inputs: Any, values: Any, columns: Tensors) -> Tensors:
    """PPO's clipped loss, or the plain one of A2C and IMPALA, and its parts."""
    now, then = chosen_from(acted, inputs), chosen_from(acted, columns["inputs"])
    entropy = sum(one.entropy() for one in now).mean()
    kl = sum(distributions.kl_divergence(a, b) for a, b in zip(then, now, strict=True)).mean()
    logs = log_prob(acted, inputs, columns["actions"])
    advantages, targets = columns["advantages"], columns["targets"]
    if loss == "clipped":
        ratio = (logs - columns["logp"]).exp()
        low, high = 1 - SETTINGS["clip"], 1 + SETTINGS["clip"]
        choice = -torch.min(advantages * ratio, advantages * ratio.clamp(low, high)).mean()
        value = functional.mse_loss(values, targets, reduction="none").clamp(max=SETTINGS["value_clip"]).mean()
        total = choice + SETTINGS["value_weight"] * value
        total = total - SETTINGS["entropy_weight"] * entropy + SETTINGS["kl_weight"] * kl
    else:
        choice = -(advantages * logs).mean()
        value = 0.5 * functional.mse_loss(values, targets)
        total = choice + SETTINGS["value_weight"] * value - SETTINGS["entropy_weight"] * entropy
    return {"total": total, "choice": choice, "value": value, "entropy": entropy, "kl": kl}


def policy_gradients() -> list[dict[str, Any]]:
    """Losses of policies, over all kinds of actions and networks."""
    box: dict[str, Any] = {"Box": {"low": [-1.0, -1.0], "high": [1.0, 1.0]}}
    kinds: list[tuple[dict[str, Any], str, bool, bool]] = [
        ({"Discrete": 3}, "tanh", False, False),
        ({"MultiDiscrete": [2, 3]}, "relu", True, False),
        (box, "tanh", False, False),
        (box, "relu", True, True),
    ]
    cases = []
    for acted, activation, is_shared, is_free in kinds:
        spec = {
            "observed": 3,
            "acted": acted,
            "hiddens": [5, 4],
            "activation": activation,
            "is_shared": is_shared,
            "free_log_std": is_free,
        }
        kind, said = next(iter(acted.items()))
        width = {"Discrete": lambda n: n, "MultiDiscrete": sum, "Box": lambda box: 2 * len(box["low"])}[kind](said)
        outputs = width // 2 if is_free else width
        tensors: Tensors = {}
        if is_shared:
            layers(tensors, "encoder", [3, 5, 4])
        layers(tensors, "pi", [4, outputs] if is_shared else [3, 5, 4, outputs])
        layers(tensors, "vf", [4, 1] if is_shared else [3, 5, 4, 1])
        if is_free:
            tensors["log_std"] = drawn(outputs, by=0.3)
        observed, older = drawn(ROWS, 3), drawn(ROWS, width, by=0.4)
        if kind == "Box":
            actions = drawn(ROWS, 2)
        else:
            sizes = [said] if kind == "Discrete" else said
            actions = torch.stack([torch.randint(size, (ROWS,)) for size in sizes], -1)
        # Near the older policy, so that some ratios are bounded and some are not.
        logp = log_prob(acted, older, actions) + drawn(ROWS, by=0.2)
        advantages, targets = drawn(ROWS), drawn(ROWS, by=2.0)
        for loss in ("clipped", "plain"):
            own = learned(tensors)
            apply = torch.tanh if activation == "tanh" else torch.relu
            body = forward(own, "encoder", observed, apply, ends=False) if is_shared else observed
            inputs, values = forward(own, "pi", body, apply), forward(own, "vf", body, apply).squeeze(-1)
            if is_free:
                inputs = torch.cat([inputs, own["log_std"].expand_as(inputs)], -1)
            columns = {
                "observed": observed,
                "actions": actions,
                "inputs": older,
                "logp": logp,
                "advantages": advantages,
                "targets": targets,
            }
            parts = lost(loss, acted, inputs, values, columns)
            parts["total"].backward()
            cases.append(
                {
                    "spec": spec,
                    "loss": loss,
                    "settings": SETTINGS,
                    "parameters": lists(tensors),
                    "columns": lists(columns),
                    "parts": {name: float(one.detach()) for name, one in parts.items()},
                    "gradients": gradients(own),
                }
            )
    return cases


def q_values(own: Tensors, observed: Any, picture: list[int] | None) -> Any:
    """Dueling where there is a `vf`."""
    if picture is not None:
        observed = observed.reshape(-1, *picture).permute(0, 3, 1, 2)
    body = forward(own, "encoder", observed, torch.tanh, ends=False)
    gains = forward(own, "af", body, torch.relu)
    if not any(name.startswith("vf.") for name in own):
        return gains
    return forward(own, "vf", body, torch.relu) + gains - gains.mean(-1, keepdim=True)


def q_learning() -> list[dict[str, Any]]:
    """Huber's loss of Q values, double and not, dueling and not, over numbers and over pictures."""
    cases = []
    for is_double, is_dueling, picture in [(True, True, None), (False, False, None), (True, True, [4, 3, 2])]:
        size = 3 if picture is None else 24
        image = None
        tensors: Tensors = {}
        if picture is None:
            layers(tensors, "encoder", [3, 5])
        else:
            image = {"height": 4, "width": 3, "channels": 2, "conv_filters": [[2, 2, 1]], "is_padded": False}
            tensors["encoder.0.weight"], tensors["encoder.0.bias"] = drawn(2, 2, 2, 2, by=0.7), drawn(2, by=0.3)
            # What makes rows of pictures is a layer of its own.
            tensors["encoder.3.weight"], tensors["encoder.3.bias"] = drawn(5, 12, by=0.4), drawn(5, by=0.3)
        layers(tensors, "af", [5, 4, 3])
        if is_dueling:
            layers(tensors, "vf", [5, 4, 1])
        older = {name: value + drawn(*value.shape, by=0.2) for name, value in tensors.items()}
        observed, following = drawn(ROWS, size), drawn(ROWS, size)
        actions = torch.randint(3, (ROWS,))
        rewards, weights = drawn(ROWS, by=2.0), drawn(ROWS).abs()
        discounts = torch.where(torch.arange(ROWS) % 4 == 0, 0.0, 0.875).double()
        own = learned(tensors)
        with torch.no_grad():
            valued = q_values(older, following, picture)
            chosen = q_values(own, following, picture) if is_double else valued
            targets = rewards + discounts * valued.gather(-1, chosen.argmax(-1, keepdim=True)).squeeze(-1)
        worth = q_values(own, observed, picture).gather(-1, actions[:, None]).squeeze(-1)
        loss = (weights * functional.smooth_l1_loss(worth, targets, reduction="none")).mean()
        loss.backward()
        spec = {
            "observed": size,
            "actions": 3,
            "hiddens": [5],
            "activation": "tanh",
            "heads": [4],
            "is_dueling": is_dueling,
            "image": image,
        }
        columns = {
            "observed": observed,
            "following": following,
            "actions": actions,
            "rewards": rewards,
            "discounts": discounts,
            "weights": weights,
        }
        cases.append(
            {
                "spec": spec,
                "is_double": is_double,
                "parameters": lists(tensors),
                "older": lists(older),
                "columns": lists(columns),
                "targets": targets.tolist(),
                "loss": float(loss.detach()),
                "gradients": gradients(own),
            }
        )
    return cases


def squashed(inputs: Any, noise: Any) -> tuple[Any, Any]:
    """Units of a Gaussian behind a tangent, and the logarithms of their densities."""
    means, logs = inputs.chunk(2, -1)
    logs = logs.clamp(-20.0, 2.0)
    normal = distributions.Normal(means, logs.exp())
    tangent = distributions.TransformedDistribution(normal, [distributions.TanhTransform(cache_size=1)])
    before = means + logs.exp() * noise
    # Beyond ten the transform rounds e^-20 to nothing.
    assert before.detach().abs().max() < 10.0
    units = torch.tanh(before)
    # The transform's own logarithm of the slope, at the number before it: beyond one there is no way back.
    logp = normal.log_prob(before) - tangent.transforms[0].log_abs_det_jacobian(before, units)
    return units, logp.sum(-1)


def soft() -> list[dict[str, Any]]:
    """The three losses of soft actor-critic."""
    cases = []
    for is_twin in (True, False):
        actor: Tensors = {}
        critics: Tensors = {}
        layers(actor, "pi", [3, 5, 4])
        for name in ("qf", "qf_twin") if is_twin else ("qf",):
            layers(critics, name, [5, 6, 1])
        older = {name: value + drawn(*value.shape, by=0.2) for name, value in critics.items()}
        observed, following, noise = drawn(ROWS, 3), drawn(ROWS, 3), drawn(2, ROWS, 2, by=0.5)
        units = torch.tanh(drawn(ROWS, 2))
        rewards, weights = drawn(ROWS, by=2.0), drawn(ROWS).abs()
        discounts = torch.where(torch.arange(ROWS) % 4 == 0, 0.0, 0.875).double()
        temperature, target_entropy = 0.25, -2.0

        def worth(own: Tensors, seen: Any, chosen: Any) -> list[Any]:
            rows = torch.cat([seen, chosen], -1)
            names = sorted({name.split(".")[0] for name in own})
            return [forward(own, name, rows, torch.tanh).squeeze(-1) for name in names]

        with torch.no_grad():
            next_units, next_logp = squashed(forward(actor, "pi", following, torch.tanh), noise[1])
            least = torch.stack(worth(older, following, next_units)).amin(0)
            targets = rewards + discounts * (least - temperature * next_logp)
        own_critics = learned(critics)
        found = worth(own_critics, observed, units)
        critic_loss = sum(0.5 * (weights * functional.mse_loss(q, targets, reduction="none")).mean() for q in found)
        critic_loss.backward()

        own_actor = learned(actor)
        fixed = {name: value.detach() for name, value in critics.items()}
        new_units, logp = squashed(forward(own_actor, "pi", observed, torch.tanh), noise[0])
        least = torch.stack(worth(fixed, observed, new_units)).amin(0)
        actor_loss = (temperature * logp - least).mean()
        actor_loss.backward()

        log_temperature = torch.tensor(temperature).double().log().requires_grad_()
        alpha_loss = -(log_temperature * (logp.detach() + target_entropy)).mean()
        alpha_loss.backward()
        columns = {
            "observed": observed,
            "following": following,
            "units": units,
            "rewards": rewards,
            "discounts": discounts,
            "weights": weights,
            "noise": noise,
        }
        losses = {"critic": critic_loss, "actor": actor_loss, "alpha": alpha_loss}
        cases.append(
            {
                "is_twin": is_twin,
                "temperature": temperature,
                "target_entropy": target_entropy,
                "actor": lists(actor),
                "critics": lists(critics),
                "older": lists(older),
                "columns": lists(columns),
                "targets": targets.tolist(),
                "losses": {name: float(one.detach()) for name, one in losses.items()},
                "critic_gradients": gradients(own_critics),
                "actor_gradients": gradients(own_actor),
                "alpha_gradient": float(log_temperature.grad),
            }
        )
    return cases


def advantages() -> dict[str, Any]:
    """GAE and V-trace by their sums, over steps that end, are cut off and stay open."""
    steps, envs, gamma, lambda_ = 8, 3, 0.875, 0.75
    rewards, values, following = drawn(steps, envs), drawn(steps, envs), drawn(steps, envs)
    terminated, truncated = torch.rand(steps, envs) < 0.15, torch.rand(steps, envs) < 0.15
    ratios = (drawn(steps, envs, by=0.6)).exp()
    ends = terminated | truncated
    last = torch.zeros(steps, envs, dtype=torch.bool)
    last[-1] = True
    following = torch.where((ends | last) & ~terminated, following, 0.0)
    nexts = torch.where(ends | last, following, torch.roll(values, -1, 0))
    deltas = rewards + gamma * nexts - values
    gae, traced = torch.zeros_like(values), torch.zeros_like(values)
    for env in range(envs):
        for step in range(steps):
            weight, ratio = 1.0, torch.ones((), dtype=torch.float64)
            for ahead in range(step, steps):
                gae[step, env] += weight * deltas[ahead, env]
                traced[step, env] += (
                    ratio * gamma ** (ahead - step) * ratios[ahead, env].clamp(max=1.0) * deltas[ahead, env]
                )
                if ends[ahead, env]:
                    break
                weight *= gamma * lambda_
                ratio = ratio * ratios[ahead, env].clamp(max=1.0)
    targets = values + traced
    next_targets = torch.where(ends | last, following, torch.roll(targets, -1, 0))
    choice = ratios.clamp(max=1.5) * (rewards + gamma * next_targets - values)
    return {
        "steps": steps,
        "envs": envs,
        "gamma": gamma,
        "lambda": lambda_,
        "rho_max": 1.0,
        "rho_max_choice": 1.5,
        "columns": lists({"rewards": rewards, "values": values, "following": following, "ratios": ratios}),
        "terminated": terminated.flatten().tolist(),
        "truncated": truncated.flatten().tolist(),
        "gae": lists({"advantages": gae, "targets": gae + values}),
        "v_trace": lists({"advantages": choice, "targets": targets}),
    }


def optimisers() -> list[dict[str, Any]]:
    """Five steps of each optimiser."""
    cases = []
    kinds = {
        "adam": (torch.optim.Adam, {"eps": 1e-5}),
        "rmsprop": (torch.optim.RMSprop, {"alpha": 0.875, "eps": 1e-3}),
        "rmsprop with momentum": (torch.optim.RMSprop, {"alpha": 0.875, "eps": 1e-3, "momentum": 0.5}),
    }
    for name, (kind, settings) in kinds.items():
        begin = drawn(10)
        own = nn.Parameter(begin.clone())
        optimiser = kind([own], lr=0.0625, **settings)
        told, found = [], []
        for _ in range(5):
            own.grad = drawn(10)
            told.append(own.grad.tolist())
            optimiser.step()
            found.append(own.detach().tolist())
        cases.append(
            {
                "name": name,
                "settings": settings,
                "rate": 0.0625,
                "begin": begin.tolist(),
                "gradients": told,
                "after": found,
            }
        )
    return cases


def memory() -> dict[str, Any]:
    """PPO's loss behind a layer with memory: sequences side by side, by step first, within which episodes begin."""
    steps, side, cells = 4, 3, 3
    acted = {"Discrete": 3}
    tensors: Tensors = {}
    layers(tensors, "encoder", [3, 4])
    for name, shape in (("weight_ih", (12, 4)), ("weight_hh", (12, 3)), ("bias_ih", (12,)), ("bias_hh", (12,))):
        tensors[f"lstm.{name}_l0"] = drawn(*shape, by=0.5)
    layers(tensors, "pi", [cells, 3])
    layers(tensors, "vf", [cells, 1])
    states = drawn(side, 2 * cells, by=0.5)
    begins = torch.zeros(steps, side, dtype=torch.bool)
    begins[2, 0] = begins[1, 2] = True
    columns = {
        "observed": drawn(steps * side, 3),
        "actions": torch.randint(3, (steps * side, 1)),
        "inputs": drawn(steps * side, 3, by=0.4),
        "advantages": drawn(steps * side),
        "targets": drawn(steps * side, by=2.0),
    }
    columns["logp"] = log_prob(acted, columns["inputs"], columns["actions"]) + drawn(steps * side, by=0.2)
    own = learned(tensors)
    encoded = forward(own, "encoder", columns["observed"], torch.tanh, ends=False).reshape(steps, side, -1)
    weights = [own[f"lstm.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    kept, given = states.split(cells, -1), []
    for step in range(steps):
        goes_on = (~begins[step]).double()[:, None]
        kept = torch.lstm_cell(encoded[step], [part * goes_on for part in kept], *weights)
        given.append(kept[0])
    rows = torch.cat(given)
    inputs, values = forward(own, "pi", rows, torch.tanh), forward(own, "vf", rows, torch.tanh).squeeze(-1)
    parts = lost("clipped", acted, inputs, values, columns)
    parts["total"].backward()
    return {
        "spec": {
            "observed": 3,
            "acted": acted,
            "hiddens": [4],
            "activation": "tanh",
            "cells": cells,
            "steps_max": steps,
            "free_log_std": False,
        },
        "settings": SETTINGS,
        "parameters": lists(tensors),
        "states": states.flatten().tolist(),
        "begins": begins.flatten().tolist(),
        "columns": lists(columns),
        "parts": {name: float(one.detach()) for name, one in parts.items()},
        "gradients": gradients(own),
    }


def main() -> None:
    """Write all files."""
    torch.manual_seed(20_261_115)
    made = {
        "torch_policy_gradients": policy_gradients(),
        "torch_q_learning": q_learning(),
        "torch_soft": soft(),
        "torch_advantages": advantages(),
        "torch_optimisers": optimisers(),
        "torch_memory": memory(),
    }
    for name, said in made.items():
        file = FOLDER / f"{name}.json"
        file.write_text(json.dumps(said, separators=(",", ":")) + "\n")
        print(f"{file.name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
