"""Names of types that programs write in their signatures."""

from typing import Any

AgentID = Any
PolicyID = str
ModuleID = str
EnvType = Any
ResultDict = dict[str, Any]
AlgorithmConfigDict = dict[str, Any]
TrainerConfigDict = dict[str, Any]
EnvConfigDict = dict[str, Any]
MultiAgentDict = dict[Any, Any]

__all__ = [
    "AgentID",
    "AlgorithmConfigDict",
    "EnvConfigDict",
    "EnvType",
    "ModuleID",
    "MultiAgentDict",
    "PolicyID",
    "ResultDict",
    "TrainerConfigDict",
]
