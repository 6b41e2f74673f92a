"""What libraries ask to learn whether they run in a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray.tune._session import Session


def get_session() -> Session | None:
    """Give the session of the trial whose function runs in this process; None outside of trials."""
    from eagleray.tune import _session

    return _session._current
