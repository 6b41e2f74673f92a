"""Where chance comes from: one seeded source, be it Python's or one of numpy's, which need not be installed."""

from __future__ import annotations

import random
import sys
from typing import Any, Protocol

#: What `random.seed` seeds.
_HIDDEN: random.Random = random._inst


class Draw(Protocol):
    """What samplers need of a random source."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def below(self, count: int) -> int:
        """An integer in [0, count)."""
        ...

    def normal(self) -> float:
        """A standard normal number."""
        ...


class PythonDraw:
    """Chance from a `random.Random`. Its state can be pickled, so that a generator of variants can go on later."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._source.random()

    def below(self, count: int) -> int:
        """An integer in [0, count)."""
        return self._source.randrange(count)

    def normal(self) -> float:
        """A standard normal number."""
        return self._source.gauss(0.0, 1.0)


class NumpyDraw:
    """Chance from numpy: a Generator, a RandomState, or the module `numpy.random` with its hidden state."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def random(self) -> float:
        """A number in [0, 1)."""
        return float(self._source.random())

    def below(self, count: int) -> int:
        """An integer in [0, count)."""
        # A RandomState names it differently, and draws only what fits a machine word.
        integers = getattr(self._source, "integers", None) or self._source.randint
        return int(integers(0, count))

    def normal(self) -> float:
        """A standard normal number."""
        return float(self._source.standard_normal())


class NumpyRng:
    """A source of numpy's that answers to the names of both its eras, made of a seed, of a source, or of nothing for the hidden one.

    Searchers of other libraries make one and hand it to domains.
    """

    def __init__(self, generator_or_seed: Any = None) -> None:
        import numpy as np

        is_source = generator_or_seed is None or hasattr(generator_or_seed, "standard_normal")
        self._rng = generator_or_seed if is_source else np.random.default_rng(generator_or_seed)

    @property
    def rng(self) -> Any:
        """The source. Not kept if it is the hidden one, which cannot be pickled."""
        import numpy as np

        return np.random if self._rng is None else self._rng

    @property
    def legacy_rng(self) -> bool:
        """Whether it is of the older era."""
        return not hasattr(self.rng, "integers")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self.legacy_rng:
            name = {"integers": "randint"}.get(name, name)
        return getattr(self.rng, name)


def as_draw(random_state: Any = None) -> Draw:
    """A source from a seed or from a source; without either, the one that the program seeds for itself.

    That is numpy's, if the program has imported numpy, else the one of Python's module `random`.
    """
    if isinstance(random_state, PythonDraw | NumpyDraw):
        return random_state
    if random_state is None:
        numpy = sys.modules.get("numpy")
        return PythonDraw(_HIDDEN) if numpy is None else NumpyDraw(numpy.random)
    if isinstance(random_state, random.Random):
        return PythonDraw(random_state)
    if isinstance(random_state, int):
        return PythonDraw(random.Random(random_state))
    if hasattr(random_state, "standard_normal"):
        return NumpyDraw(random_state)
    try:
        return PythonDraw(random.Random(int(random_state)))
    except (TypeError, ValueError):
        text = f"random_state is a seed or a random generator of Python or numpy, not {random_state!r}"
        raise TypeError(text) from None


def fresh_seed() -> int:
    """A seed that depends on nothing but the program's own seeding of `numpy.random` or `random`."""
    return as_draw(None).below(2**31 - 1)
