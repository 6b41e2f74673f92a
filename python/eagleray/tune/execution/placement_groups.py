"""What a trial needs, if it is more than one process: bundles of resources that are placed together."""

from __future__ import annotations

from typing import Any


class PlacementGroupFactory:
    """The bundles of each trial. The first one is for the trial itself, the others for the tasks and actors that it starts."""

    def __init__(self, bundles: list[dict[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any) -> None:
        """Keep the bundles."""
        if not bundles:
            raise ValueError("Cannot initialize a PlacementGroupFactory with an empty list of bundles.")
        self._bundles = [{name: float(amount) for name, amount in bundle.items() if amount} for bundle in bundles]
        self.strategy = strategy
        self._args = args
        self._kwargs = kwargs

    @property
    def bundles(self) -> list[dict[str, float]]:
        """What each bundle holds."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def head_bundle_is_empty(self) -> bool:
        """Whether the trial itself needs nothing."""
        return not self._bundles[0]

    @property
    def head_cpus(self) -> float:
        """Cores of the trial itself."""
        return self._bundles[0].get("CPU", 0.0)

    @property
    def required_resources(self) -> dict[str, float]:
        """All bundles together."""
        total: dict[str, float] = {}
        for bundle in self._bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0.0) + amount
        return total

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PlacementGroupFactory)
            and self._bundles == other._bundles
            and self.strategy == other.strategy
        )

    def __hash__(self) -> int:
        return hash((tuple(tuple(sorted(bundle.items())) for bundle in self._bundles), self.strategy))

    def __repr__(self) -> str:
        return f"<PlacementGroupFactory (bundles={self._bundles}, strategy='{self.strategy}')>"


_NAMES = {"cpu": "CPU", "gpu": "GPU"}


def as_factory(resources: Any) -> PlacementGroupFactory:
    """Takes all that users write: a dictionary with "cpu" or "CPU" and any other names, or bundles."""
    if isinstance(resources, PlacementGroupFactory):
        return resources
    if not isinstance(resources, dict):
        raise TypeError(f"resources must be a dict or a PlacementGroupFactory, not {resources!r}")
    bundle: dict[str, float] = {}
    extra: dict[str, float] = {}
    asked: dict[str, Any] = resources
    for name, amount in asked.items():
        if name in ("custom_resources", "extra_custom_resources"):
            (bundle if name == "custom_resources" else extra).update(amount)
        elif name.startswith("extra_"):
            plain = name[6:]
            extra[_NAMES.get(plain, plain)] = amount
        elif name not in ("memory", "object_store_memory") or amount:
            bundle[_NAMES.get(name, name)] = amount
    given: dict[str, Any] = bundle | extra
    for name, amount in given.items():
        if not isinstance(amount, int | float) or amount < 0:
            raise ValueError(f"the amount of {name!r} a trial needs must be a number >= 0, not {amount!r}")
    # Who asks for a GPU alone means a core beside it.
    bundle.setdefault("CPU", 1.0 if bundle.get("GPU") or not bundle else 0.0)
    bundles = [bundle]
    if any(extra.values()):
        bundles.append(extra)
    return PlacementGroupFactory(bundles)
