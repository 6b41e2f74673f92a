"""Ray's store of small values at the head node, which is not here."""

from __future__ import annotations

from typing import Any, NoReturn


def _internal_kv_put(*_args: Any, **_options: Any) -> NoReturn:
    """Refuse: say what to do instead."""
    raise NotImplementedError("there is no store of keys and values; keep them in a named actor (ray.get_actor)")


_internal_kv_get = _internal_kv_del = _internal_kv_list = _internal_kv_exists = _internal_kv_put


def _internal_kv_initialized() -> bool:
    """Tell that there is no such store."""
    return False
