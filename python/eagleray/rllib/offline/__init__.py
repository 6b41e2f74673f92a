"""Samples in files: written while an algorithm samples, and read instead of sampling."""

from eagleray.rllib.offline.io_context import InputReader, IOContext
from eagleray.rllib.offline.json_reader import JsonReader
from eagleray.rllib.offline.json_writer import JsonWriter

__all__ = ["IOContext", "InputReader", "JsonReader", "JsonWriter"]
