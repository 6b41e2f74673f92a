"""What Ray offers as experimental and programs use all the same."""

from __future__ import annotations

from eagleray._common.submodules import loader
from eagleray.experimental.dynamic_resources import set_resource
from eagleray.experimental.locations import get_local_object_locations, get_object_locations

__all__ = ["get_local_object_locations", "get_object_locations", "set_resource"]

__getattr__ = loader(__name__)
