"""Policies that were trained here, to be used without this package: as a torch module, or as arrays and a function over numpy.

Both are made of an algorithm, of a checkpoint's folder, or of what `export_policy_model` wrote. What they are given is a batch of observations as the
environment has them: numbers (flattened or not), indices of a `Discrete` space as whole numbers, pictures as bytes or as numbers between 0 and 1.
Of other spaces (`Dict`, `Tuple`, `MultiDiscrete`) the rows that `algo.get_policy().rows([observation, ...])` makes. Filters are part of what is
exported.

What comes out is what actions are chosen from (`action_dist_inputs`): scores of the choices; means and then logarithms of deviations of numbers,
which lie between -1 and 1 where the environment's actions are bounded (behind a hyperbolic tangent for SAC); first the one and then the other where
actions are both; what each action is worth for DQN.
Networks with a memory take a state of `(batch, 2 * cells)` beside, zeros in the beginning, and give the next one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eagleray.rllib._engine import _filters, _safetensors
from eagleray.rllib.algorithms import _checkpoints
from eagleray.rllib.algorithms._settings import DEFAULT_POLICY_ID
from eagleray.rllib.utils.error import CustomModelError
from eagleray.rllib.utils.framework import torch_needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib._engine.protocol import Floats


def to_numpy(source: Any, policy_id: str = DEFAULT_POLICY_ID) -> tuple[dict[str, Floats], Callable[..., Any]]:
    """The weights by name, and a function of numpy alone that gives what actions are chosen from."""
    policy = _read(source, policy_id)
    return policy.arrays, _Forward(policy)


def to_torch(source: Any, policy_id: str = DEFAULT_POLICY_ID) -> Any:
    """A module of torch's own layers that gives what actions are chosen from; `values(...)` says what observations are worth.

    Its tensors have the names that weights have here. Those of filters over pictures have torch's order, channels before height and width.
    """
    torch_needed("to_torch")
    from eagleray.rllib._export_torch import module_of

    return module_of(_read(source, policy_id))


#: What is added to variances that depend on the state.
SDE_EPSILON = 1e-6


@dataclass(frozen=True)
class Part:
    """One network of a policy: layers one behind the other."""

    name: str
    #: Of layers over pictures: how far apart two places of the filter are.
    strides: tuple[int, ...]
    #: The activation of its full layers, and whether the last has it too.
    activation: str
    ends_plain: bool


@dataclass(frozen=True)
class Exported:
    """What was read: weights, and which networks they are of."""

    kind: str
    about: dict[str, Any]
    arrays: dict[str, Floats]

    @property
    def network(self) -> dict[str, Any]:
        """The networks' plan."""
        found: dict[str, Any] = self.about["network"]
        return found

    def layers(self, part: Part) -> list[tuple[str, Floats, Floats]]:
        """Names, weights and biases of a part's layers, in order."""
        numbers = sorted({int(name.split(".")[1]) for name in self.arrays if name.startswith(f"{part.name}.")})
        names = [f"{part.name}.{number}" for number in numbers]
        return [(name, self.arrays[f"{name}.weight"], self.arrays[f"{name}.bias"]) for name in names]

    def part(self, name: str) -> Part | None:
        """One of the networks, if there is one of this name."""
        if not any(key.startswith(f"{name}.") for key in self.arrays):
            return None
        # "mu" chooses by what "pi" has found, where noise depends on that.
        is_body = name == "encoder" or (name == "pi" and self._has("mu"))
        is_behind = (name != "encoder" and self._has("encoder")) or (name == "mu" and self._has("pi"))
        image = None if is_behind else self.network.get("image")
        strides = tuple(int(stride) for _, _, stride in image["conv_filters"]) if image else ()
        # Heads of Q values have their own activation.
        activation = "relu" if self.kind == "q" and name != "encoder" else self.network["activation"]
        return Part(name, strides, activation, ends_plain=not is_body)

    def _has(self, name: str) -> bool:
        return any(key.startswith(f"{name}.") for key in self.arrays)

    @property
    def sde(self) -> bool:
        """Whether noise depends on the state."""
        return bool(self.network.get("sde")) and "log_std" in self.arrays

    @property
    def picture(self) -> tuple[int, int, int] | None:
        """Height, width and channels, if observations are pictures that filters are laid over."""
        image = self.network.get("image")
        return (image["height"], image["width"], image["channels"]) if image else None


def _read(source: Any, policy_id: str) -> Exported:
    if hasattr(source, "learners"):
        if policy_id not in source.learners:
            raise KeyError(f"there is no policy {policy_id!r}; there are {sorted(source.learners)}")
        weights = source.learners[policy_id].weights()
        about = json.loads(json.dumps(_checkpoints.about(source, policy_id, weights), default=str))
    else:
        folder = Path(str(getattr(source, "path", source)))
        inner = folder / _checkpoints.MODULES / policy_id
        folder = inner if inner.is_dir() else folder
        try:
            weights = (folder / _checkpoints.WEIGHTS).read_bytes()
            about = json.loads((folder / _checkpoints._ABOUT).read_text())
        except FileNotFoundError as error:
            raise _checkpoints.CheckpointError(
                f"{folder} holds no policy {policy_id!r}: give an algorithm, the folder of a checkpoint, or what export_policy_model wrote"
            ) from error
    if about["kind"] == "custom":
        raise CustomModelError(
            "this policy is a model of your own: it is a torch module already. `algo.get_policy().model` is it, with its weights; or load "
            "module_state.safetensors into your class"
        )
    arrays, _, _ = _safetensors.unpack(_filters.parted(weights)[1])
    return Exported(about["kind"], about, arrays)


class _Forward:
    """A policy's networks over numpy."""

    def __init__(self, policy: Exported) -> None:
        self._policy = policy
        self._parts = {name: part for name in ("encoder", "pi", "mu", "vf", "af") if (part := policy.part(name))}

    def __call__(self, observed: Any, state: Any = None) -> Any:
        """What actions are chosen from. With a memory: that and the next state."""
        policy, arrays = self._policy, self._policy.arrays
        rows = self._rows(observed)
        if "encoder" in self._parts:
            rows = self._through("encoder", rows)
        if policy.kind == "recurrent":
            rows, state = self._remembering(rows, state)
        if policy.kind == "q":
            found = self._through("af", rows)
            if "vf" in self._parts:
                found = self._through("vf", rows) + found - found.mean(-1, keepdims=True)
        else:
            if "mu" in self._parts and "pi" in self._parts:
                rows = self._through("pi", rows)
            found = self._through("mu" if "mu" in self._parts else "pi", rows)
            if policy.sde:
                logs = np.log(self._features**2 @ np.exp(2 * arrays["log_std"]) + np.float32(SDE_EPSILON)) / 2
                found = np.concatenate([found, logs], -1)
            elif "log_std" in arrays:
                logs = np.broadcast_to(arrays["log_std"], (*found.shape[:-1], arrays["log_std"].shape[-1]))
                found = np.concatenate([found, logs], -1)
        return (found, state) if policy.kind == "recurrent" else found

    def _rows(self, observed: Any) -> Floats:
        """Observations as rows, at scale."""
        given = np.asarray(observed)
        size = int(self._policy.network["observed"])
        if given.dtype.kind in "iu" and given.ndim == 1:
            rows = np.eye(size, dtype=np.float32)[given - self._policy.about["observation_start"]]
        else:
            by = np.float32(1 / 255) if given.dtype == np.uint8 else np.float32(1.0)
            rows = given.astype(np.float32).reshape(-1, size) * by
        scale = self._policy.about["observation_filter"]
        if scale is not None:
            moved = (rows - np.asarray(scale["means"])) * np.asarray(scale["factors"])
            rows = np.clip(moved.astype(np.float32), -scale["most"], scale["most"])
        found: Floats = rows
        return found

    def _through(self, name: str, rows: Floats) -> Floats:
        part = self._parts[name]
        layers = self._policy.layers(part)
        if part.strides:
            rows = rows.reshape(-1, *(self._policy.picture or ()))
        for index, (_, weight, bias) in enumerate(layers):
            if weight.ndim == 4:
                rows = np.maximum(_laid(rows, weight, part.strides[index]) + bias, np.float32(0.0))
                continue
            # What the last layer is given is what noise depends on, where it does.
            self._features = rows = rows.reshape(len(rows), -1)
            rows = rows @ weight.T + bias
            if not (part.ends_plain and index + 1 == len(layers)):
                rows = _bent(rows, part.activation)
        return rows.reshape(len(rows), -1)

    def _remembering(self, rows: Floats, state: Any) -> tuple[Floats, Floats]:
        arrays = self._policy.arrays
        cells = arrays["lstm.weight_hh_l0"].shape[1]
        state = np.zeros((len(rows), 2 * cells), np.float32) if state is None else np.asarray(state, np.float32)
        memory, kept = state[:, :cells], state[:, cells:]
        sums = rows @ arrays["lstm.weight_ih_l0"].T + arrays["lstm.bias_ih_l0"]
        sums = sums + memory @ arrays["lstm.weight_hh_l0"].T + arrays["lstm.bias_hh_l0"]
        enters, stays, new, leaves = np.split(sums, 4, -1)
        kept = _sigmoid(stays) * kept + _sigmoid(enters) * np.tanh(new)
        memory = _sigmoid(leaves) * np.tanh(kept)
        return memory, np.concatenate([memory, kept], -1)


def _sigmoid(sums: Floats) -> Floats:
    bent: Floats = np.float32(0.5) * (np.float32(1.0) + np.tanh(np.float32(0.5) * sums))
    return bent


def _bent(sums: Floats, activation: str) -> Floats:
    if activation == "tanh":
        return np.tanh(sums)
    return np.maximum(sums, np.float32(0.0)) if activation == "relu" else sums


def _laid(pictures: Floats, weight: Floats, stride: int) -> Floats:
    """A filter laid over pictures, channels last in all of them."""
    _, height, width, _ = weight.shape
    places = np.lib.stride_tricks.sliding_window_view(pictures, (height, width), (1, 2))[:, ::stride, ::stride]
    found: Floats = np.einsum("nyxchw,ohwc->nyxo", places, weight, optimize=True)
    return found


__all__ = ["to_numpy", "to_torch"]
