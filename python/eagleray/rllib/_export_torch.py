"""Trained policies as modules of torch's own layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from eagleray.rllib.export import SDE_EPSILON

if TYPE_CHECKING:
    from eagleray.rllib.export import Exported, Part

_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "linear": nn.Identity}


class _Rows(nn.Module):
    """Makes rows of pictures: pixel by pixel, in each its channels."""

    def forward(self, pictures: Any) -> Any:
        """Rows."""
        return pictures.permute(0, 2, 3, 1).flatten(1)


class ExportedPolicy(nn.Module):
    """A policy's networks. `forward` gives what actions are chosen from, with a memory also the next state."""

    def __init__(self, policy: Exported) -> None:
        super().__init__()
        self._kind = policy.kind
        self._size = int(policy.network["observed"])
        self._start = int(policy.about["observation_start"])
        self._picture = policy.picture
        self._has_sde = policy.sde
        for name in ("encoder", "pi", "mu", "vf", "af"):
            part = policy.part(name)
            setattr(self, name, None if part is None else _layers(policy, part))
        self._sees_picture = "encoder" if self.encoder is not None else "pi"
        self.lstm: Any = None
        if policy.kind == "recurrent":
            cells, inputs = policy.arrays["lstm.weight_hh_l0"].shape[1], policy.arrays["lstm.weight_ih_l0"].shape[1]
            self.lstm = nn.LSTM(inputs, cells, batch_first=True)
            own = {name.partition(".")[2]: value for name, value in policy.arrays.items() if name.startswith("lstm.")}
            self.lstm.load_state_dict({name: torch.tensor(value) for name, value in own.items()})
        log_std = policy.arrays.get("log_std")
        self.log_std: Any = None if log_std is None else nn.Parameter(torch.tensor(log_std))
        scale = policy.about["observation_filter"]
        self._most = None if scale is None else float(scale["most"])
        for name in ("means", "factors"):
            kept = None if scale is None else torch.tensor(scale[name], dtype=torch.float64)
            # Not among the weights: they are not learned, and wider.
            self.register_buffer(f"filter_{name}", kept, persistent=False)

    def forward(self, observed: Any, state: Any = None) -> Any:
        """What actions are chosen from. With a memory: that and the next state."""
        features, state = self._features(observed, state)
        if self._kind == "q":
            gains = self.af(features)
            return gains if self.vf is None else self.vf(features) + gains - gains.mean(-1, keepdim=True)
        if self.mu is not None and self.pi is not None:
            features = self.pi(features)
        head = self.pi if self.mu is None else self.mu
        if self._has_sde:
            # All but the last layer: what noise depends on.
            features = head[:-1](features)
            found = head[-1](features)
            logs = (features.square() @ (2 * self.log_std).exp() + SDE_EPSILON).log() / 2
            return torch.cat([found, logs], -1)
        found = head(features)
        if self.log_std is not None:
            found = torch.cat([found, self.log_std.expand(*found.shape[:-1], -1)], -1)
        return (found, state) if self.lstm is not None else found

    def values(self, observed: Any, state: Any = None) -> Any:
        """What observations are worth, a number each."""
        if self._kind == "q":
            return self(observed).amax(-1)
        if self.vf is None:
            raise RuntimeError("what this policy values states by is not among its weights")
        return self.vf(self._features(observed, state)[0]).squeeze(-1)

    def _features(self, observed: Any, state: Any) -> tuple[Any, Any]:
        rows = self._rows(observed)
        if self._picture is not None:
            rows = rows.reshape(-1, *self._picture).permute(0, 3, 1, 2)
        if self.encoder is not None:
            rows = self.encoder(rows)
        if self.lstm is None:
            return rows, state
        cells = self.lstm.hidden_size
        state = rows.new_zeros(len(rows), 2 * cells) if state is None else state
        memory, kept = (part.contiguous()[None] for part in state.split(cells, -1))
        found, (memory, kept) = self.lstm(rows[:, None], (memory, kept))
        return found[:, 0], torch.cat([memory[0], kept[0]], -1)

    def _rows(self, observed: Any) -> Any:
        """Observations as rows, at scale."""
        given = torch.as_tensor(observed)
        if given.dim() == 1 and not given.is_floating_point():
            rows = nn.functional.one_hot(given.long() - self._start, self._size).float()
        else:
            rows = given.float().reshape(-1, self._size) * (1 / 255 if given.dtype == torch.uint8 else 1.0)
        if self._most is not None:
            moved = (rows.double() - self.filter_means) * self.filter_factors
            rows = moved.float().clamp(-self._most, self._most)
        return rows


def module_of(policy: Exported) -> ExportedPolicy:
    """The module, as it acts."""
    made = ExportedPolicy(policy)
    made.eval()
    return made


def _layers(policy: Exported, part: Part) -> Any:
    """Layers with the numbers that their weights are named by: activations are layers too, and so is what makes rows of pictures."""
    found = policy.layers(part)
    made: list[Any] = []
    for index, (_, weight, bias) in enumerate(found):
        if weight.ndim == 4:
            outputs, height, width, inputs = weight.shape
            layer: Any = nn.Conv2d(inputs, outputs, (height, width), part.strides[index])
            values = torch.tensor(weight).permute(0, 3, 1, 2)
            activation = "relu"
        else:
            if made and index == len(part.strides):
                made.append(_Rows())
            layer, values, activation = (
                nn.Linear(weight.shape[1], weight.shape[0]),
                torch.tensor(weight),
                part.activation,
            )
        with torch.no_grad():
            layer.weight.copy_(values)
            layer.bias.copy_(torch.tensor(bias))
        made.append(layer)
        if not (part.ends_plain and index + 1 == len(found)):
            made.append(_ACTIVATIONS[activation]())
    if part.strides and len(found) == len(part.strides):
        made.append(_Rows())
    return nn.Sequential(*made)
