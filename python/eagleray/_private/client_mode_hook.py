"""How libraries ask whether calls go to a cluster by way of a client's connection: never, here."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

is_client_mode_enabled = False


def client_mode_hook(func: Any = None, **_options: Any) -> Any:
    """Give the function as it is."""
    return func if func is not None else lambda function: function


def client_mode_should_convert(*_args: Any, **_kwargs: Any) -> bool:
    """Tell that nothing is converted."""
    return False


@contextlib.contextmanager
def disable_client_hook() -> Iterator[None]:
    """Do nothing: there is no such hook."""
    yield


def enable_client_mode() -> NoReturn:
    """Refuse to send calls over a client's connection."""
    raise NotImplementedError("there is no Ray Client; join a session of this machine by init(address='auto')")
