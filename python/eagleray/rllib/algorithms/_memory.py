"""What networks with a memory remember, in the forms that programs hand on: `[h, c]`, or `{"h": ..., "c": ...}`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Floats


def is_torch(value: Any) -> bool:
    """Whether this is a tensor of torch's. Torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_numpy(value: Any) -> Any:
    """An array of a tensor; all else as it is."""
    return value.detach().cpu().numpy() if is_torch(value) else value


def like(given: Any, found: Any) -> Any:
    """What was found, as a tensor where a tensor was given."""
    if not is_torch(given):
        return found
    import numpy as np

    # What the engine gives is read-only, which tensors cannot be.
    return sys.modules["torch"].from_numpy(np.array(found)).to(given.device)


def is_empty(state: Any) -> bool:
    """Whether this means: in the beginning."""
    return state is None or (hasattr(state, "__len__") and len(state) == 0)


def taken(state: Any, rows: int, size: int) -> Floats | None:
    """A state as the engine has it: a row each, first h and then c. None in the beginning, and where nothing is remembered."""
    if size == 0 or is_empty(state):
        return None
    import numpy as np

    cells = size // 2
    try:
        parts = [state["h"], state["c"]] if isinstance(state, Mapping) else list(state)
        arrays = [np.asarray(as_numpy(part), np.float32) for part in parts]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_wanted(rows, cells)}, not {state!r}") from error
    shapes = [array.shape for array in arrays]
    fits = {(rows, cells), (1, rows, cells), (rows, 1, cells)} | ({(cells,)} if rows == 1 else set())
    if len(arrays) != 2 or not fits.issuperset(shapes):
        raise ValueError(f"{_wanted(rows, cells)}, not of the shapes {shapes}")
    return np.concatenate([array.reshape(rows, cells) for array in arrays], axis=-1)


def _wanted(rows: int, cells: int) -> str:
    shape = f"({cells},)" if rows == 1 else f"({rows}, {cells})"
    return f'the state must be [h, c] or {{"h": h, "c": c}} with arrays of the shape {shape}, or [] in the beginning'


def parts(state: Floats) -> tuple[Floats, Floats]:
    """What is shown (h) and what is kept (c) of each row."""
    cells = state.shape[-1] // 2
    return state[..., :cells].copy(), state[..., cells:].copy()
