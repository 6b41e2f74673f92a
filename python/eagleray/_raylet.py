"""Names that programs import from Ray's native module."""

from __future__ import annotations

from eagleray._native import ObjectRef, ObjectRefGenerator
from eagleray._values.generators import DynamicObjectRefGenerator
from eagleray._values.ids import (
    ActorClassID,
    ActorID,
    BaseID,
    FunctionID,
    JobID,
    Language,
    NodeID,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)

__all__ = [
    "ActorClassID",
    "ActorID",
    "BaseID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "Language",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "StreamingObjectRefGenerator",
    "TaskID",
    "UniqueID",
    "WorkerID",
]

ObjectID = ObjectRef
#: As it was called before.
StreamingObjectRefGenerator = ObjectRefGenerator
