"""What goes wrong in experiments."""

from __future__ import annotations


class TuneError(Exception):
    """Something about an experiment is wrong, or went wrong."""
