"""All that the Python side asks of the engine, which does what is done per step and per sample.

A plan says what is learned on. An engine makes learners and policies of it. A policy chooses actions, and its collectors do the
same while they write down what happens; what they have written is a rollout, which only learners look into. Arrays are numpy's,
float32 and contiguous; a row belongs to one environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from eagleray.rllib._engine.custom import Custom

    Floats = npt.NDArray[np.float32]
    Flags = npt.NDArray[np.bool_]


#: How numbers become actions between bounds: -1 to 1 is from bound to bound, or what is beyond a bound becomes the bound, or as they are.
Bounded = Literal["spread", "clipped", "free"]


@dataclass(frozen=True)
class Observed:
    """What a network sees: `(n,)` numbers, or an image of `(height, width, channels)`, flattened to a row."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Numbers in a row."""
        return prod(self.shape)


@dataclass(frozen=True)
class Acted:
    """What a network chooses.

    Of "discrete" actions a row holds one index for each of `sizes`; of a "box" one number for each, which lies in [-1, 1] where
    `low` and `high` are finite and actions are normalised. Of "mixed" ones first come indices and then numbers; bounds are those of the numbers.
    """

    kind: Literal["discrete", "box", "mixed"]
    sizes: tuple[int, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def choices(self) -> tuple[int, ...]:
        """Of how many each index is."""
        if self.kind == "mixed":
            return self.sizes[: len(self.sizes) - len(self.low)]
        return self.sizes if self.kind == "discrete" else ()

    @property
    def size(self) -> int:
        """Numbers in a row."""
        return len(self.sizes)


@dataclass(frozen=True)
class Plan:
    """What one policy is made of. Settings and model have RLlib's newer names; those of them that change come with each update."""

    algorithm: str
    observed: Observed
    acted: Acted
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    #: A model of the program's own; None for built-in networks.
    custom: Custom | None = None


class Rollout(Protocol):
    """What one collector wrote: columns over steps and environments. It can be pickled, and travels as one object."""

    @property
    def steps(self) -> int:
        """Steps in it, over all its environments."""


@dataclass(frozen=True)
class Ended:
    """An episode that ended in a simulator."""

    total: float
    length: int


@dataclass(frozen=True)
class Stepped:
    """What one step of a simulator led to, as `Collector.observe` takes it. The arrays are used again at the next step."""

    rewards: Floats
    terminated: Flags
    truncated: Flags
    observed: Floats
    last: Floats


class Simulator(Protocol):
    """Environments that are built in, stepped where they are."""

    observed: Observed
    acted: Acted
    count: int

    def look(self) -> Floats:
        """What is seen now. The array is used again."""

    def step(self, actions: Floats) -> Stepped:
        """Do one step in each: for those who want to see what happens, which `Collector.run` does not show."""

    def state(self) -> bytes:
        """All of it, so that another one goes on from here in the same way."""

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""


class Collector(Protocol):
    """Chooses actions for `count` environments and writes down what comes of them.

    `act` (or `told`) and `observe` take turns. The first `act` after `take` begins a new rollout with the observations it is
    given, whatever `observe` was given last.
    """

    @property
    def ended(self) -> list[Ended]:
        """Episodes that ended with the last `observe`, in the order of their environments."""

    def act(self, observed: Floats, *, explore: bool) -> Floats:
        """Choose an action for each row."""

    def told(self, observed: Floats, actions: Floats) -> None:
        """Write down actions that somebody else chose."""

    def observe(self, rewards: Floats, terminated: Flags, truncated: Flags, observed: Floats, last: Floats) -> None:
        """Write down what the actions led to.

        `observed` is what is seen next, which for ended episodes is the beginning of another one; `last` is what was seen in the end,
        and counts only in rows that are terminated or truncated.
        """

    def run(self, simulator: Simulator, steps: int, *, explore: bool) -> list[Ended]:
        """Do all of that with a simulator, so many steps in each environment. Returns the episodes that ended."""

    def take(self) -> Rollout:
        """Hand over what was written since the last time. The steps all have been observed."""

    def forget(self) -> None:
        """Drop what was written since the last `take`, and the episodes that ran: something went wrong in the midst of it."""

    def state(self) -> bytes:
        """What its next choices depend on, beside the weights."""

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""


class Policy(Protocol):
    """A network that acts."""

    def load(self, weights: bytes, exploration: Mapping[str, float]) -> None:
        """Take these weights, and what exploring depends on: `epsilon` for DQN."""

    @property
    def state_size(self) -> int:
        """Numbers that it remembers of each row: first those it shows (h), then as many that it keeps (c). None of others than recurrent networks."""

    def written(self) -> bytes:
        """The weights that it acts by: safetensors, as `Learner.weights`."""

    def act(self, observed: Floats, *, explore: bool, state: Floats | None = None) -> tuple[Floats, Floats | None]:
        """Choose actions without writing anything down. The state is that of recurrent networks, a row each; None begins anew."""

    def inputs(self, observed: Floats, state: Floats | None = None) -> Floats:
        """What the distribution of actions is made of, a row each: logits, or means and logarithms of deviations, or Q values."""

    def collector(self, count: int) -> Collector:
        """A collector for so many environments, which acts by this policy from then on."""


@runtime_checkable
class Travelling(Protocol):
    """A learner whose weights have a form of their own for runners."""

    def travelling(self) -> bytes:
        """The weights that policies load, as they are written and read fastest."""


class Learner(Protocol):
    """A network that learns, with its optimiser, and for some algorithms its replay."""

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these. Settings are what holds at this timestep: `lr`, `entropy_coeff`, `updates` for those that replay."""

    def weights(self) -> bytes:
        """The weights that policies load: safetensors, with torch's names."""

    def set_weights(self, weights: bytes) -> None:
        """Take other weights of the same shapes."""

    def state(self) -> bytes:
        """All else: optimiser, chance, coefficients, counts; the replay where settings ask for it."""

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""

    def ask(self, count: int) -> list[bytes]:
        """Evolution strategies only: weights to try, each with its mirror image beside it. Policies load them; they may be short."""

    def tell(self, returns: Sequence[float], lengths: Sequence[int], settings: Mapping[str, Any]) -> dict[str, float]:
        """Evolution strategies only: what came of all that were asked for since the last time, in their order; nan where it failed."""


class Engine(Protocol):
    """Makes all of the above."""

    def learner(self, plan: Plan) -> Learner:
        """One that learns by the plan's algorithm."""

    def policy(self, plan: Plan) -> Policy:
        """One that acts."""

    def simulator(
        self, name: str, env_config: Mapping[str, Any], count: int, seed: int, bounded: Bounded = "spread"
    ) -> Simulator | None:
        """The built-in environments of this name, or None."""

    def columns(self, rollout: Rollout) -> dict[str, Any]:
        """A rollout's columns by RLlib's names, for programs to look at: a row for each step, those of one environment together."""

    def arrays(self, weights: bytes) -> dict[str, Floats]:
        """Weights by the names of their tensors."""

    def packed(self, arrays: Mapping[str, Floats]) -> bytes:
        """Weights of such arrays."""
