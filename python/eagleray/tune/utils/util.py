"""Dictionaries made flat and deep again, and a test for class trainables."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray.tune.trainable import Trainable


def flatten_dict(
    dt: dict[str, Any],
    delimiter: str = "/",
    prevent_delimiter: bool = False,  # noqa: FBT001, FBT002
) -> dict[str, Any]:
    """`{"a": {"b": 1}}` to `{"a/b": 1}`. An empty dictionary stays as it is.

    Raises:
        ValueError: With `prevent_delimiter`, if a key has the delimiter in it.
    """
    flat: dict[str, Any] = {}
    for key, value in dt.items():
        if prevent_delimiter and delimiter in str(key):
            raise ValueError(f"Found delimiter `{delimiter}` in key {key!r}: it cannot be told from nesting.")
        if isinstance(value, dict) and value:
            inner = flatten_dict(value, delimiter, prevent_delimiter)
            flat.update({f"{key}{delimiter}{name}": one for name, one in inner.items()})
        else:
            flat[key] = value
    return flat


def unflatten_dict(dt: dict[Any, Any], delimiter: str = "/") -> dict[str, Any]:
    """`{"a/b": 1}` to `{"a": {"b": 1}}`."""
    deep: dict[str, Any] = {}
    for path, value in dt.items():
        *folders, name = path.split(delimiter) if isinstance(path, str) else [path]
        inner = deep
        for folder in folders:
            inner = inner.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise TypeError(f"Cannot unflatten {path!r}: {folder!r} is a value of its own.")
        inner[name] = value
    return deep


def merge_dicts(d1: dict[str, Any], d2: dict[str, Any]) -> dict[str, Any]:
    """Both in a new dictionary; where both have a value, the second one's, and dictionaries are merged in their turn."""
    merged = dict(d1)
    for key, value in d2.items():
        before = merged.get(key)
        merged[key] = merge_dicts(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def validate_save_restore(
    trainable_cls: type[Trainable], config: dict[str, Any] | None = None, num_gpus: float = 0
) -> bool:
    """Whether a class goes on where it was saved: another instance, restored, counts on from there.

    Raises:
        AssertionError: If it does not.
    """
    saved_after = 3
    first, second = trainable_cls(config or {}), trainable_cls(config or {})
    try:
        for _ in range(saved_after):
            first.train()
        with tempfile.TemporaryDirectory() as folder:
            second.restore(first.save(folder))
        iteration = second.train()["training_iteration"]
    finally:
        first.stop()
        second.stop()
    if iteration != saved_after + 1:
        raise AssertionError(f"saved after iteration {saved_after}, and went on with {iteration}")
    return True
