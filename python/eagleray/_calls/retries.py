"""Which exceptions of a call are worth another run.

A function's filter travels with its body, a class's filters with the class, by method. A call with options of its own
names a body that holds nothing but the filter.
"""

from __future__ import annotations

import pickle
from typing import Any

from eagleray import _native

#: None: every exception.
Filter = tuple[type[BaseException], ...] | None


class RetryFilters:
    """The filters that one worker has met, by the body that they came with."""

    def __init__(self) -> None:
        """Know none."""
        self._by_body: dict[bytes, Filter | dict[str, Filter]] = {}

    def note(self, body_id: bytes, found: Filter | dict[str, Filter]) -> None:
        """Remember what came with a body: one filter, or one for each method."""
        self._by_body[body_id] = found

    def forget(self) -> None:
        """Know none any more; those that are needed again are fetched."""
        self._by_body.clear()

    def wants(self, error: BaseException, body_id: bytes, method: str) -> bool:
        """Tell whether a call that failed so shall run again."""
        from eagleray.exceptions import UserCodeException

        if body_id not in self._by_body:
            body = _native.fetch(body_id)
            self._by_body[body_id] = pickle.loads(body)[1] if body is not None else ()
        found = self._by_body[body_id]
        wanted = found.get(method) if isinstance(found, dict) else found
        # What a library ran for its user is judged by what the user's code raised.
        cause = error.__cause__ if isinstance(error, UserCodeException) else None
        return wanted is None or isinstance(error if cause is None else cause, wanted)


def filter_of(option: Any) -> Filter:
    """Turn the option `retry_exceptions` into a filter."""
    return tuple(option) if isinstance(option, (list, tuple)) else None


def export_filter(option: Any) -> bytes:
    """Make a call's own filter known to the node."""
    from eagleray._values import pickling

    return _native.export(pickling.dumps_function((None, filter_of(option))))
