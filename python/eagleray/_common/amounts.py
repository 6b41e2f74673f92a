"""Amounts of resources: the core counts ten-thousandths, users see numbers. `memory` is in bytes on both sides."""

from __future__ import annotations

#: Of one CPU, one GPU or one of anything else.
PARTS = 10_000


def shown(name: str, amount: int) -> float:
    """Give an amount as a user sees it."""
    return float(amount) if name == "memory" else amount / PARTS


def all_shown(amounts: dict[str, int]) -> dict[str, float]:
    """Give amounts by resource as a user sees them."""
    return {name: shown(name, amount) for name, amount in amounts.items()}
