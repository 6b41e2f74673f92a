"""What few programs need: freeing values by hand, and a look at memory."""

from __future__ import annotations

from typing import Any

from eagleray.internal import free

__all__ = ["free", "global_gc", "memory_summary"]


def memory_summary(
    address: str | None = None,
    redis_password: str | None = None,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    units: str = "B",
    line_wrap: bool = True,  # noqa: FBT001, FBT002 - as Ray has it
    stats_only: bool = False,  # noqa: FBT001, FBT002 - as Ray has it
    num_entries: int | None = None,
) -> str:
    """Show the objects of the cluster, who holds them and what the stores have left: what `eagleray memory` prints.

    Node by node, the largest objects first; `num_entries` says how many of each node.
    """
    del address, redis_password, group_by, sort_by, units, line_wrap
    from eagleray import _native
    from eagleray._cli.memory_report import summary, table

    _native.ensure_started()
    inventory: dict[str, Any] = _native.inventory()
    if stats_only:
        return "\n".join(summary(inventory))
    return table(inventory) if num_entries is None else table(inventory, limit=num_entries)


def global_gc() -> None:
    """Collect garbage in the driver. Workers do it by themselves when room is short."""
    import gc

    gc.collect()
