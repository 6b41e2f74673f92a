"""Callbacks under their oldest path."""

from eagleray.rllib.callbacks.callbacks import DefaultCallbacks, make_multi_callbacks

__all__ = ["DefaultCallbacks", "make_multi_callbacks"]
