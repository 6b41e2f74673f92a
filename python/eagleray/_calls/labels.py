"""Labels of nodes, and whether a task or actor that asks for some can be placed on a node that is alone.

A node's labels are in a file of its session's folder, where all its processes find them.
"""

from __future__ import annotations

import json
import os
import re

from eagleray import _native
from eagleray._common.settings import from_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_FILE = "labels.json"
#: What whoever runs the machine says of it in the environment, and the labels that say so.
_TOLD = {
    "NODE_TYPE_NAME": "ray.io/node-group",
    "NODE_MARKET_TYPE": "ray.io/market-type",
    "NODE_REGION": "ray.io/availability-region",
    "NODE_ZONE": "ray.io/availability-zone",
}
#: What a label is called and what it says: as where such labels come from and go to, as in Kubernetes.
_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_ACCELERATOR = "accelerator_type:"


def checked(labels: Any) -> dict[str, str]:
    """Check the labels that a node is given."""
    if not isinstance(labels, dict):
        raise TypeError(f"labels must be a dict of texts by name, not {type(labels)}")
    for name, value in labels.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"labels must be texts by name, but they contain {name!r}: {value!r}")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(
                f"The label {name!r}: {value!r} cannot be given: names and values have at most 63 letters, digits, '-', '_' and '.', "
                "and begin and end with a letter or digit; a name may follow a domain and '/', a value may be empty"
            )
        if name.startswith("ray.io/"):
            raise ValueError(f"The label {name!r} cannot be given: names that begin with 'ray.io/' are the node's own")
    return dict(labels)


def read(text: str) -> dict[str, str]:
    """Read the labels that a command is given: `zone=north,gpu=none`, or an object of JSON."""
    if text.lstrip().startswith("{"):
        try:
            return checked(json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from None
    labels = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise ValueError(f"labels are name=value, with commas between them, but {part!r} is not")
        if name in labels:
            raise ValueError(f"the label {name!r} is given twice")
        labels[name] = value
    return checked(labels)


def found(amounts: Mapping[str, int]) -> dict[str, str]:
    """Give the labels that a node with these resources has by itself."""
    labels = {label: value for name, label in _TOLD.items() if (value := from_env(name))}
    for name in amounts:
        if name.startswith(_ACCELERATOR):
            labels["ray.io/accelerator-type"] = name.removeprefix(_ACCELERATOR)
    return labels


def write(labels: dict[str, str], session_dir: str) -> None:
    """Give the node of this session these labels."""
    with open(os.path.join(session_dir, _FILE), "w") as file:
        json.dump(labels, file)


def of_node() -> dict[str, str]:
    """Read the labels of this process's node."""
    identity = _native.identity()
    labels = {"ray.io/node-id": str(identity["node_id"])}
    try:
        with open(os.path.join(identity["session_dir"], _FILE)) as file:
            labels |= json.load(file)
    except OSError:
        pass
    return labels


def missing(options: Mapping[str, Any]) -> str | None:
    """Say which labels the options ask for that the node does not have; None if it has them all."""
    selector = options.get("label_selector")
    hard = getattr(options.get("scheduling_strategy"), "hard", None)
    if not selector and not hard:
        return None
    if _native.nodes():
        # In a cluster every node's labels count, and they are looked at where it is decided which node it is.
        return None
    labels = of_node()
    if hard and not all(_is_met(asked, labels.get(name)) for name, asked in hard.items()):
        return ", ".join(f"{name} {_told(asked)}" for name, asked in hard.items())
    if not selector:
        return None
    for one in [selector, *(fallback["label_selector"] for fallback in options.get("fallback_strategy") or ())]:
        if all(_fits(wanted, labels.get(name)) for name, wanted in (one or {}).items()):
            return None
    return ", ".join(f"{name}={wanted}" for name, wanted in selector.items())


def unplaceable(options: Mapping[str, Any], labels: str) -> dict[str, Any]:
    """Give the options of a task or actor that waits for a node with these labels."""
    kept = {name: value for name, value in options.items() if name != "scheduling_strategy"}
    return {**kept, "resources": {**(options.get("resources") or {}), f"label {labels}": 1}}


def _fits(wanted: str, value: str | None) -> bool:
    is_not = wanted.startswith("!")
    plain = wanted.removeprefix("!")
    several = plain.removeprefix("in(").removesuffix(")") if plain.startswith("in(") else None
    values = [plain] if several is None else [one.strip() for one in several.split(",")]
    return (value in values) is not is_not


def _is_met(asked: Any, value: str | None) -> bool:
    kind = type(asked).__name__
    if kind == "Exists":
        return value is not None
    if kind == "DoesNotExist":
        return value is None
    return (value in asked.values) is (kind == "In")


def _told(asked: Any) -> str:
    values = getattr(asked, "values", None)
    return type(asked).__name__ + ("" if values is None else f"({', '.join(values)})")
