"""What a program may have called while an experiment runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from eagleray.tune._checkpoint import Checkpoint
    from eagleray.tune.experiment.trial import Trial


class Callback:
    """Subclass it, override what you need, and give instances to `RunConfig(callbacks=...)` or `tune.run(callbacks=...)`.

    `iteration` counts the rounds of the experiment's loop, `trials` are all its trials so far.
    """

    def setup(
        self,
        stop: Any = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: Any,
    ) -> None:
        """The experiment is about to begin."""

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """A round begins."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """A round is over."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has started."""

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial goes on from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A checkpoint of a trial has been kept."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has come to its end, or was stopped."""

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed and is tried again."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed for good."""

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any
    ) -> None:
        """A trial has made this checkpoint."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Nothing more comes."""

    def get_state(self) -> dict[str, Any] | None:
        """What is needed to go on when the experiment is resumed; None if nothing is."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` gave."""


#: What a `CallbackList` passes on.
HOOKS = (
    "setup",
    "on_step_begin",
    "on_step_end",
    "on_trial_start",
    "on_trial_restore",
    "on_trial_save",
    "on_trial_result",
    "on_trial_complete",
    "on_trial_recover",
    "on_trial_error",
    "on_checkpoint",
    "on_experiment_end",
)


class CallbackList(Callback):
    """Several callbacks as one. Those that did not override a method cost nothing when it is called."""

    IS_CALLBACK_CONTAINER = True

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self._callbacks = list(callbacks)
        for hook in HOOKS:
            setattr(self, hook, _together([getattr(one, hook) for one in self._callbacks if _has(one, hook)]))

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def __len__(self) -> int:
        return len(self._callbacks)

    def get_state(self) -> dict[str, Any] | None:
        """The states of those that have one, by their place."""
        states = {str(place): one.get_state() for place, one in enumerate(self._callbacks)}
        return {place: state for place, state in states.items() if state is not None} or None

    def set_state(self, state: dict[str, Any]) -> None:
        """Give each its own."""
        for place, one in enumerate(self._callbacks):
            if str(place) in state:
                one.set_state(state[str(place)])


def _has(callback: Callback, hook: str) -> bool:
    """Whether it does anything of its own there, in its class or in the instance."""
    # A callback need not be a subclass.
    if not hasattr(callback, hook):
        return False
    mine = getattr(callback, hook)
    return getattr(mine, "__func__", mine) is not getattr(Callback, hook)


def _together(methods: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*args: Any, **kwargs: Any) -> None:
        for method in methods:
            method(*args, **kwargs)

    return methods[0] if len(methods) == 1 else call
