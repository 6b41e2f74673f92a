"""Callbacks."""

from eagleray.rllib.callbacks.callbacks import DefaultCallbacks, RLlibCallback

__all__ = ["DefaultCallbacks", "RLlibCallback"]
