"""Algorithms by name, under the older path."""

from eagleray.rllib.algorithms.registry import get_algorithm_class

get_trainer_class = get_agent_class = get_algorithm_class

__all__ = ["get_agent_class", "get_algorithm_class", "get_trainer_class"]
