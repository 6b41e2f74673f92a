"""The built-in environments, many at once, to be stepped from Python."""

from eagleray.rllib._engine.vector import NativeVectorEnv

__all__ = ["NativeVectorEnv"]
