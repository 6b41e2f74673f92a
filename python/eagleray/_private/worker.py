"""What becomes of an error that nobody read."""

from __future__ import annotations

import os
import sys


def _print_unhandled(error: BaseException) -> None:
    sys.stderr.write(f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {error}\n")
    sys.stderr.flush()


#: Called once for each error of a task whose last ref went and that nobody had read. Programs may put their own function here.
_unhandled_error_handler = _print_unhandled


def report_unhandled(error: BaseException) -> None:
    """Hand an error that nobody read to the handler, unless the environment says that nobody wants to hear of such."""
    names = ("RAY_IGNORE_UNHANDLED_ERRORS", "EAGLERAY_IGNORE_UNHANDLED_ERRORS")
    if not any(os.environ.get(name, "") not in ("", "0") for name in names):
        _unhandled_error_handler(error)
