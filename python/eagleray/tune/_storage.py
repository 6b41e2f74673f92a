"""Whether a trial's process sees the experiment's folder: on the driver's machine, or by a file system that both share.

The path alone says nothing: another machine may have a folder of that name, even a copy of this one. So the driver leaves a mark there that nobody
else can have.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MARK = ".storage-"


@contextlib.contextmanager
def marked(folder: Path) -> Iterator[str]:
    """Mark an experiment's folder while it runs. Gives the mark's path."""
    # Of programs that were killed. Only one at a time runs an experiment.
    for old in folder.glob(f"{_MARK}*"):
        old.unlink(missing_ok=True)
    mark = folder / f"{_MARK}{secrets.token_hex(8)}"
    mark.touch()
    try:
        yield str(mark)
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


def is_seen(mark: str | None) -> bool:
    """Tell whether files that are written beside the mark reach the driver."""
    return mark is None or (os.path.exists(mark) and os.access(os.path.dirname(mark), os.W_OK))
