"""What every replay buffer can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class ReplayBufferInterface:
    """Takes samples in, and gives some of them back."""

    def __len__(self) -> int:
        raise NotImplementedError

    def add(self, batch: Any, **kwargs: Any) -> None:
        """Takes samples in."""
        raise NotImplementedError

    def sample(self, num_items: int | None = None, **kwargs: Any) -> Any:
        """Gives so many back."""
        raise NotImplementedError

    def get_state(self) -> dict[str, Any]:
        """All that `set_state` needs."""
        raise NotImplementedError

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up such a state."""
        raise NotImplementedError

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a function with the buffer: for buffers that are actors."""
        return func(self, *args, **kwargs)

    def ping(self) -> str:
        """Answers."""
        return "pong"


__all__ = ["ReplayBufferInterface"]
