"""A program's model behind one face: rows of observations in, what actions are chosen from and what they are worth out."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from eagleray.rllib._engine import _safetensors
from eagleray.rllib._engine.custom import outputs_of
from eagleray.rllib.utils.error import CustomModelError

if TYPE_CHECKING:
    from eagleray.rllib._engine.custom import Custom
    from eagleray.rllib._engine.protocol import Plan

#: Keys under which modules of the newer kind give Q values.
_Q_KEYS = ("qf_preds", "action_dist_inputs")


class Network(nn.Module):
    """A model of a program's own, with the heads that its algorithm adds to it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        custom = plan.custom
        if custom is None:
            raise ValueError("the plan has no model of a program's own")
        self._style, self._custom = custom.style, custom
        self._shape = plan.observed.shape
        self._has_values = plan.algorithm != "DQN"
        self._outputs = outputs_of(plan.acted)
        heads = [int(size) for size in plan.settings.get("hiddens") or []] if not self._has_values else []
        # As RLlib has it: a model of the older kind gives features to DQN's heads, whose size is that of its last layer.
        has_heads = custom.style == "old" and bool(heads)
        features = int(([256, *plan.model.get("fcnet_hiddens", [])])[-1])
        self.model = _made(custom, features if has_heads else self._outputs, has_heads=has_heads)
        self.advantage_module: Any = None
        self.value_module: Any = None
        if has_heads:
            features = int(getattr(self.model, "num_outputs", features) or features)
            self.advantage_module = _head(features, heads, self._outputs)
            if plan.settings.get("dueling", True):
                self.value_module = _head(features, heads, 1)
        self._takes_embeddings = _takes(getattr(self.model, "compute_values", None), "embeddings")

    def forward(self, rows: Any, *, how: str = "train", values: bool = True) -> tuple[Any, Any]:
        """What actions are chosen from, and what the rows are worth if that is asked for. `how` is train, exploration or inference."""
        seen = self._seen(rows)
        if self._style == "old":
            given = {"obs": seen, "obs_flat": rows, "is_training": how == "train"}
            outputs, _ = self.model(given, [], None)
            worth = self.model.value_function() if values and self._has_values else None
        elif self._style == "new":
            outputs, worth = self._by_module(seen, how, values=values and self._has_values)
        else:
            found = self.model(seen)
            outputs, worth = found if isinstance(found, tuple) else (found, None)
        outputs = self._with_heads(outputs)
        self._check(outputs, rows)
        if not (values and self._has_values):
            return outputs, None
        if worth is None:
            raise CustomModelError(
                f"{self._name()} says nothing of values, which this algorithm needs: return (outputs, values), or write value_function() "
                "or compute_values()"
            )
        return outputs, worth.reshape(-1)

    def tensors(self) -> dict[str, Any]:
        """All that is learned or kept, by name: those of the model by the model's own names."""
        found = dict(self.model.state_dict())
        for name in ("advantage_module", "value_module"):
            head = getattr(self, name)
            found |= {} if head is None else {f"{name}.{key}": value for key, value in head.state_dict().items()}
        for name, value in found.items():
            if not isinstance(value, torch.Tensor):
                raise CustomModelError(
                    f"{self._name()} keeps {name!r} in its state_dict, which is no tensor: it cannot be sent"
                )
        return found

    def load(self, tensors: dict[str, Any]) -> None:
        """Take over tensors of the same names and shapes."""
        mine = self.tensors()
        if mine.keys() != tensors.keys():
            missing, unknown = sorted(mine.keys() - tensors.keys()), sorted(tensors.keys() - mine.keys())
            raise CustomModelError(f"these weights are of another model: {missing} are missing, {unknown} are too many")
        for name, value in tensors.items():
            if mine[name].shape != value.shape:
                raise CustomModelError(
                    f"these weights are of another model: {name} has the shape {tuple(value.shape)}, not {tuple(mine[name].shape)}"
                )
        with torch.no_grad():
            for name, value in tensors.items():
                mine[name].copy_(value)

    def _seen(self, rows: Any) -> Any:
        """Rows as the model knows them."""
        if self._custom.original_space is not None:
            return shaped(self._custom.original_space, rows)
        return rows.reshape(len(rows), *self._shape)

    def _by_module(self, seen: Any, how: str, *, values: bool) -> tuple[Any, Any]:
        batch = {"obs": seen}
        found = getattr(self.model, f"forward_{how}")(batch)
        keys = ("action_dist_inputs",) if self._has_values else _Q_KEYS
        outputs = next((found[key] for key in keys if key in found), None)
        if outputs is None:
            raise CustomModelError(f"{self._name()}'s _forward_{how} gives {sorted(found)}, but no {keys[0]!r}")
        if not values or found.get("vf_preds") is not None:
            return outputs, found.get("vf_preds")
        compute = getattr(self.model, "compute_values", None)
        if compute is None:
            return outputs, None
        more = {"embeddings": found.get("embeddings")} if self._takes_embeddings else {}
        return outputs, compute(batch, **more)

    def _with_heads(self, outputs: Any) -> Any:
        if self.advantage_module is None:
            return outputs
        gains = self.advantage_module(outputs)
        if self.value_module is None:
            return gains
        return self.value_module(outputs) + gains - gains.mean(-1, keepdim=True)

    def _check(self, outputs: Any, rows: Any) -> None:
        wanted = (len(rows), self._outputs)
        if tuple(outputs.shape) != wanted:
            raise CustomModelError(f"{self._name()} gives outputs of the shape {tuple(outputs.shape)}, not {wanted}")

    def _name(self) -> str:
        return type(self.model).__name__


def _made(custom: Custom, outputs: int, *, has_heads: bool) -> Any:
    spaces = (custom.observation_space, custom.action_space)
    if custom.style == "new":
        made = custom.source(observation_space=spaces[0], action_space=spaces[1], model_config=custom.config)
    elif custom.style == "old":
        settings = custom.config | ({"no_final_linear": True} if has_heads else {})
        # Models of its time took their own settings as arguments; before that, they looked into `model_config`.
        more = custom.more if _takes_all(custom.source, custom.more) else {}
        made = custom.source(*spaces, outputs, settings, "default_model", **more)
    else:
        made = custom.source(*spaces, outputs, **custom.config)
    if not isinstance(made, nn.Module):
        raise CustomModelError(f"{custom.source!r} made {made!r}, which is no torch.nn.Module")
    initial = getattr(made, "get_initial_state", None)
    if initial is not None and len(initial()):
        raise CustomModelError(
            f"{type(made).__name__} remembers (get_initial_state() is not empty), which models of your own cannot here: "
            'use the built-in memory, model={"use_lstm": True}'
        )
    return made


def _takes(function: Any, name: str) -> bool:
    if function is None:
        return False
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())


def _takes_all(source: Any, names: dict[str, Any]) -> bool:
    return all(_takes(source, name) for name in names)


def _head(before: int, sizes: list[int], outputs: int) -> Any:
    layers: list[Any] = []
    for size in sizes:
        layers += [nn.Linear(before, size), nn.ReLU()]
        before = size
    return nn.Sequential(*layers, nn.Linear(before, outputs))


def shaped(space: Any, rows: Any) -> Any:
    """Rows cut up and shaped as their space is: choices stay one-hot."""
    from eagleray.rllib.env.spaces import kind_of, row_size

    kind = kind_of(space)
    if kind in ("Box", "MultiBinary"):
        return rows.reshape(len(rows), *space.shape)
    if kind not in ("Dict", "Tuple"):
        return rows
    parts = list(space.spaces.items()) if kind == "Dict" else list(enumerate(space.spaces))
    found, at = {}, 0
    for key, part in parts:
        size = row_size(part)
        found[key] = shaped(part, rows[:, at : at + size])
        at += size
    return found if kind == "Dict" else tuple(found.values())


def pack(tensors: dict[str, Any], about: str | None = None) -> bytes:
    """Tensors as a safetensors file."""
    bits = frozenset(name for name, value in tensors.items() if value.dtype == torch.bfloat16)
    arrays = {}
    for name, value in tensors.items():
        plain = value.detach().cpu().contiguous()
        arrays[name] = (plain.view(torch.int16) if name in bits else plain).numpy()
    return _safetensors.pack(arrays, about, bits)


def unpack(data: bytes) -> tuple[dict[str, Any], str | None]:
    """The tensors of such a file, and the text about them."""
    arrays, about, bits = _safetensors.unpack(data)
    tensors = {}
    for name, array in arrays.items():
        tensors[name] = (
            torch.from_numpy(array.view("i2")).view(torch.bfloat16) if name in bits else torch.from_numpy(array)
        )
    return tensors, about


def device_of(settings: Any, *, acts: bool) -> Any:
    """Where a module lies: on the GPU if one was asked for."""
    asked = settings.get("num_gpus_per_env_runner", 0) if acts else _learner_gpus(settings)
    if not asked or settings.get("_fake_gpus"):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        who = "num_gpus_per_env_runner" if acts else "num_gpus"
        raise CustomModelError(
            f"`{who}` asks for {asked:g} GPU, but torch sees none: check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or set it to 0"
        )
    return torch.device("cuda", 0 if acts else int(settings.get("local_gpu_idx") or 0))


def _learner_gpus(settings: Any) -> float:
    asked = [settings.get(name) or 0 for name in ("num_gpus", "num_gpus_per_learner")]
    return math.fsum(float(one) for one in asked)
