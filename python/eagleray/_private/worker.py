"""What becomes of an error that nobody read."""

from __future__ import annotations

import sys

from eagleray._common.settings import is_on


def _print_unhandled(error: BaseException) -> None:
    sys.stderr.write(f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {error}\n")
    sys.stderr.flush()


#: Called once for each error of a task whose last ref went and that nobody had read. Programs may put their own function here.
_unhandled_error_handler = _print_unhandled


def report_unhandled(error: BaseException) -> None:
    """Hand an error that nobody read to the handler, unless the environment says that nobody wants to hear of such."""
    if not is_on("IGNORE_UNHANDLED_ERRORS", default=False):
        _unhandled_error_handler(error)
