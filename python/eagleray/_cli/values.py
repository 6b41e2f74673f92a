"""What options of `eagleray start` and `status` are given as text: each is read here, and refused with what is expected instead."""

from __future__ import annotations

import argparse
import json
import unicodedata
from typing import Any

#: As long as other nodes take it: `NAME_BYTES_MAX` of `crates/wire/src/members.rs`.
_NAME_BYTES_MAX = 256
#: What a node counts by itself, and the options that say otherwise.
_COUNTED = {
    "CPU": "--num-cpus",
    "GPU": "--num-gpus",
    "memory": "--memory",
    "object_store_memory": "--object-store-memory",
}


def port(text: str) -> int:
    """Read a port; 0 stands for any."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is no port: give a number from 0 to 65535")
    return int(text)


def seconds(text: str) -> float:
    """Read a time to wait."""
    try:
        given = float(text)
    except ValueError:
        given = -1.0
    if not 0 <= given < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return given


def resources(text: str) -> dict[str, float]:
    """Read amounts of a node's own resources by name."""
    from eagleray._calls import checking

    given = _object(text, "amounts by name, as in '{\"licence\": 2}'")
    for name, option in _COUNTED.items():
        if name in given:
            raise argparse.ArgumentTypeError(f"{name} is no resource of one's own: say {option} instead")
    try:
        checking.task_options(resources=given)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return given


def settings(text: str) -> dict[str, Any]:
    """Read settings by name."""
    return _object(text, "settings by name, as in '{\"memory_usage_threshold\": 0.9}'")


def node_name(text: str) -> str:
    """Read a node's name. The head says it to all others, and they show it on terminals."""
    # What is no UTF-8 came in as surrogates.
    length = len(text.encode(errors="surrogateescape"))
    if length > _NAME_BYTES_MAX:
        raise argparse.ArgumentTypeError(f"a name has at most {_NAME_BYTES_MAX} bytes, and this one has {length}")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: it has control characters, or is not UTF-8")
    return text


def _object(text: str, wanted: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON ({error}): give {wanted}") from None
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no object of JSON: give {wanted}")
    return given
