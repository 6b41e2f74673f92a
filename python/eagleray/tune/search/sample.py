"""What a parameter may be: `uniform`, `randint`, `choice` and their like, and the classes behind them.

A domain says which values there are; its sampler says how one is drawn. Upper ends of integers are exclusive, unless
they are quantized by more than one.
"""

from __future__ import annotations

import math
from copy import copy
from decimal import Decimal
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

from eagleray.tune.search._draw import NumpyRng, as_draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eagleray.tune.search._draw import Draw


#: The name by which libraries import it.
_BackwardsCompatibleNumpyRng = NumpyRng


class Domain:
    """The values that a parameter may take, and how they are drawn."""

    sampler: Sampler | None = None
    default_sampler_cls: type[Sampler] | None = None

    def cast(self, value: Any) -> Any:
        """The value in the domain's own type."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:  # noqa: FBT001, FBT002
        """Says how values are drawn; once, unless `allow_override`."""
        if self.sampler is not None and not allow_override:
            text = (
                "You can only choose one sampler for parameter domains. Existing sampler for parameter "
                f"{type(self).__name__}: {self.sampler}. Tried to add {sampler}"
            )
            raise ValueError(text)
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """How values are drawn."""
        if self.sampler is not None:
            return self.sampler
        assert self.default_sampler_cls is not None
        return self.default_sampler_cls()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """One value, or a list of `size` values. `config` is what functions are called with."""
        return self.get_sampler().sample(self, config=config, size=size, random_state=random_state)

    def is_grid(self) -> bool:
        """Whether every value is to be tried instead of drawing some."""
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        """Whether values come from a function of the user's."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether this could be drawn."""
        raise NotImplementedError

    @property
    def domain_str(self) -> str:
        """The domain as messages show it."""
        return "(unknown)"

    def _with(self, sampler: Sampler) -> Self:
        new = copy(self)
        new.set_sampler(sampler)
        return new


class Sampler:
    """How values of a domain are drawn."""

    def sample(self, domain: Domain, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """One value, or a list of `size` values."""
        draw = as_draw(random_state)
        items = [domain.cast(self._one(domain, draw)) for _ in range(size)]
        return items[0] if size == 1 else items

    def _one(self, domain: Any, draw: Draw) -> Any:
        raise NotImplementedError

    def __str__(self) -> str:
        return type(self).__name__


class BaseSampler(Sampler):
    """How values come from a function."""

    def sample(self, domain: Domain, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Calls the function, with the configuration if it takes one."""
        assert isinstance(domain, Function)
        if domain.pass_config:
            configs = config if isinstance(config, list) else [config] * size
            items = [domain.func(configs[i]) for i in range(size)]
        else:
            items = [domain.func() for _ in range(size)]
        return items[0] if size == 1 else items

    def __str__(self) -> str:
        return "Base"


class Uniform(Sampler):
    """Every value as likely as any other."""

    def _one(self, domain: Any, draw: Draw) -> Any:
        if isinstance(domain, Categorical):
            return domain.categories[draw.below(len(domain.categories))]
        if isinstance(domain, Integer):
            if domain.lower >= domain.upper:
                raise ValueError(f"There is no integer from {domain.lower} to below {domain.upper}.")
            return domain.lower + draw.below(domain.upper - domain.lower)
        if not (math.isfinite(domain.lower) and math.isfinite(domain.upper)):
            raise ValueError(f"Uniform needs a lower and an upper bound, got {domain.domain_str}.")
        return min(domain.lower + (domain.upper - domain.lower) * draw.random(), domain.upper)


class LogUniform(Sampler):
    """Every order of magnitude as likely as any other."""

    def __init__(self, base: float = 10) -> None:
        self.base = base

    def _one(self, domain: Any, draw: Draw) -> Any:
        low, high = math.log(domain.lower), math.log(domain.upper)
        value = math.exp(low + (high - low) * draw.random())
        if isinstance(domain, Integer):
            return max(domain.lower, min(math.floor(value), domain.upper - 1))
        return max(domain.lower, min(value, domain.upper))


class Normal(Sampler):
    """Around a mean, without bounds."""

    def __init__(self, mean: float = 0.0, sd: float = 1.0) -> None:
        if not sd > 0 or not math.isfinite(mean + sd):
            raise ValueError(f"SD has to be strictly greater than 0, and both finite. Got mean={mean}, sd={sd}.")
        self.mean = mean
        self.sd = sd

    def _one(self, domain: Any, draw: Draw) -> Any:
        return self.mean + self.sd * draw.normal()


class Grid(Sampler):
    """Marks a domain whose values are all tried."""

    def sample(self, domain: Domain, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Nothing is drawn from a grid."""
        raise RuntimeError("Do not call `sample()` on grid.")


class Quantized(Sampler):
    """Multiples of `q` of what another sampler draws."""

    def __init__(self, sampler: Sampler, q: float) -> None:
        if not q > 0 or not math.isfinite(q):
            raise ValueError(f"A quantization factor is greater than 0, got q={q}.")
        self.sampler = sampler
        self.q = q

    def get_sampler(self) -> Sampler:
        """What is quantized."""
        return self.sampler

    def _one(self, domain: Any, draw: Draw) -> Any:
        if isinstance(domain, Integer):
            # The multiples themselves are what is drawn, so that those at the ends are as likely as the rest.
            multiples = copy(domain)
            multiples.lower, multiples.upper = self.indices(domain)
            return self.sampler._one(multiples, draw) * self.q
        return self.nearest(domain, self.sampler._one(domain, draw))

    def indices(self, domain: Integer) -> tuple[int, int]:
        """Which multiples lie in the domain: from, to below."""
        q = int(self.q)
        lower, upper = -(-domain.lower // q), domain.upper // q
        if q > 1:
            upper += 1
        if upper <= lower:
            text = f"There is no multiple of q={q} between {domain.lower} and {domain.upper}."
            raise ValueError(text)
        return lower, upper

    def nearest(self, domain: Float, value: float) -> float:
        """The multiple nearest to a value, in the domain."""
        # 3 * 0.1 is 0.30000000000000004; as many decimals as q has make it 0.3.
        exponent = Decimal(repr(float(self.q))).as_tuple().exponent
        decimals = max(0, -exponent) if isinstance(exponent, int) else 0
        nearest = round(round(value / self.q) * self.q, decimals)
        return max(domain.lower, min(nearest, domain.upper))


class Float(Domain):
    """Floating point numbers between two bounds, both included; `None` is no bound."""

    default_sampler_cls = Uniform

    def __init__(self, lower: float | None, upper: float | None) -> None:
        self.lower = -math.inf if lower is None else lower
        self.upper = math.inf if upper is None else upper
        _check_order(self.lower, self.upper)

    def cast(self, value: Any) -> float:
        """The value as a float."""
        return float(value)

    def uniform(self) -> Self:
        """Drawn evenly."""
        if not self.lower > -math.inf:
            raise ValueError("Uniform requires a lower bound. Make sure to set the `lower` parameter of `Float()`.")
        if not self.upper < math.inf:
            raise ValueError("Uniform requires a upper bound. Make sure to set the `upper` parameter of `Float()`.")
        return self._with(Uniform())

    def loguniform(self, base: float = 10) -> Self:
        """Drawn evenly over orders of magnitude. The base changes nothing and is there for old programs."""
        _check_positive(self.lower, self.upper)
        return self._with(LogUniform(base))

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Self:
        """Drawn around a mean; no bound may be given."""
        if math.isfinite(self.lower) or math.isfinite(self.upper):
            raise ValueError(f"Normal sampling does not allow value bounds, got {self.domain_str}.")
        return self._with(Normal(mean, sd))

    def quantized(self, q: float) -> Self:
        """Rounded to multiples of `q`, which the bounds must be."""
        sampler = Quantized(self.get_sampler(), q)
        for side, bound in (("lower", self.lower), ("upper", self.upper)):
            if math.isfinite(bound) and not math.isclose(bound / q, round(bound / q)):
                text = f"Your {side} variable bound {bound} is not divisible by quantization factor {q}."
                raise ValueError(text)
        new = copy(self)
        new.set_sampler(sampler, allow_override=True)
        return new

    def is_valid(self, value: Any) -> bool:
        """Whether it lies between the bounds."""
        return bool(self.lower <= value <= self.upper)

    @property
    def domain_str(self) -> str:
        """The bounds."""
        return f"({self.lower}, {self.upper})"


class Integer(Domain):
    """Whole numbers from `lower` to below `upper`."""

    default_sampler_cls = Uniform

    def __init__(self, lower: int, upper: int) -> None:
        self.lower = _whole(lower)
        self.upper = _whole(upper)
        _check_order(self.lower, self.upper)

    def cast(self, value: Any) -> int:
        """The value as an int."""
        return int(value)

    def uniform(self) -> Self:
        """Drawn evenly."""
        return self._with(Uniform())

    def loguniform(self, base: float = 10) -> Self:
        """Drawn evenly over orders of magnitude. The base changes nothing and is there for old programs."""
        _check_positive(self.lower, self.upper)
        return self._with(LogUniform(base))

    def quantized(self, q: int) -> Self:
        """Multiples of `q`; beyond q = 1, the upper bound is one of them if it is a multiple."""
        sampler = Quantized(self.get_sampler(), _whole(q))
        sampler.indices(self)
        new = copy(self)
        new.set_sampler(sampler, allow_override=True)
        return new

    def is_valid(self, value: Any) -> bool:
        """Whether it is one of the numbers."""
        if isinstance(self.sampler, Quantized) and self.sampler.q > 1:
            return bool(self.lower <= value <= self.upper)
        return bool(self.lower <= value < self.upper)

    @property
    def domain_str(self) -> str:
        """The bounds."""
        return f"({self.lower}, {self.upper})"


class Categorical(Domain):
    """One of several values."""

    default_sampler_cls = Uniform

    def __init__(self, categories: Iterable[Any]) -> None:
        self.categories = list(categories)
        if not self.categories:
            raise ValueError("There is nothing to choose from: the list of categories is empty.")

    def uniform(self) -> Self:
        """Drawn evenly."""
        return self._with(Uniform())

    def grid(self) -> Self:
        """All of them, one after the other."""
        return self._with(Grid())

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, item: int) -> Any:
        return self.categories[item]

    def is_valid(self, value: Any) -> bool:
        """Whether it is one of the values."""
        return value in self.categories

    @property
    def domain_str(self) -> str:
        """The values."""
        return f"{self.categories}"


class Function(Domain):
    """What a function of the user's returns, which may look at the rest of the configuration."""

    default_sampler_cls = BaseSampler

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.pass_config = _takes(func, 1)
        if not self.pass_config and not _takes(func, 0):
            text = "The function passed to a `Function` parameter must be callable with either 0 or 1 parameters."
            raise ValueError(text)

    def is_function(self) -> bool:
        """Yes."""
        return True

    def is_valid(self, value: Any) -> bool:
        """Nobody knows what the function may return."""
        return True

    @property
    def domain_str(self) -> str:
        """The function."""
        return f"{self.func}()"


# Libraries read in the signature what kind of value a domain takes: the type itself, not its name.
for _domain, _kind in ((Domain, Any), (Float, float), (Integer, int), (Categorical, Any), (Function, Any)):
    _domain.is_valid.__annotations__["value"] = _kind


def _takes(func: Callable[..., Any], count: int) -> bool:
    try:
        signature(func).bind(*[{}] * count)
    except TypeError:
        return False
    except ValueError:
        # A builtin that does not tell: `random.random` takes nothing.
        return count == 0
    return True


def _whole(value: Any) -> int:
    whole = int(value)
    if whole != value:
        raise ValueError(f"An integer is needed, got {value}.")
    return whole


def _check_order(lower: float, upper: float) -> None:
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        raise ValueError(f"The bounds contradict each other: lower is {lower}, upper is {upper}.")


def _check_positive(lower: float, upper: float) -> None:
    for side, bound in (("lower", lower), ("upper", upper)):
        if not 0 < bound < math.inf:
            text = (
                f"LogUniform requires a {side} bound greater than 0. Got: {bound}. Did you pass a variable that has "
                "been log-transformed? If so, pass the non-transformed value instead."
            )
            raise ValueError(text)


def sample_from(func: Callable[..., Any]) -> Function:
    """A value that a function computes, of the rest of the configuration if it takes one argument."""
    return Function(func)


def uniform(lower: float, upper: float) -> Float:
    """A float, every one between the bounds as likely as any other."""
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """A multiple of `q` between the bounds, both included."""
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: float = 10) -> Float:
    """A float, every order of magnitude between the bounds as likely as any other."""
    return Float(lower, upper).loguniform(base)


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    """A multiple of `q`, every order of magnitude between the bounds as likely as any other."""
    return Float(lower, upper).loguniform(base).quantized(q)


def choice(categories: Sequence[Any]) -> Categorical:
    """One of several values."""
    return Categorical(categories).uniform()


def randint(lower: int, upper: int) -> Integer:
    """An integer from `lower` to below `upper`."""
    domain = Integer(lower, upper)
    _check_some(domain)
    return domain.uniform()


def lograndint(lower: int, upper: int, base: float = 10) -> Integer:
    """An integer from `lower` to below `upper`, every order of magnitude as likely as any other."""
    domain = Integer(lower, upper)
    _check_some(domain)
    return domain.loguniform(base)


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """A multiple of `q` from `lower` to `upper`, which is included unless q = 1."""
    return Integer(lower, upper).uniform().quantized(q)


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Integer:
    """A multiple of `q` from `lower` to `upper`, every order of magnitude as likely as any other."""
    return Integer(lower, upper).loguniform(base).quantized(q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """A normally distributed float."""
    return Float(None, None).normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Float:
    """A normally distributed float, rounded to a multiple of `q`."""
    return Float(None, None).normal(mean, sd).quantized(q)


def grid_search(values: Iterable[Any]) -> dict[str, Any]:
    """Every one of these values is tried, with every combination of other grids."""
    return {"grid_search": values}


def _check_some(domain: Integer) -> None:
    if domain.lower == domain.upper:
        raise ValueError(f"There is no integer from {domain.lower} to below {domain.upper}.")
