"""Modules: networks and how they are described."""

from eagleray.rllib.algorithms._settings import DEFAULT_POLICY_ID
from eagleray.rllib.core.columns import Columns

DEFAULT_MODULE_ID = DEFAULT_POLICY_ID
DEFAULT_AGENT_ID = "default_agent"

__all__ = ["DEFAULT_AGENT_ID", "DEFAULT_MODULE_ID", "DEFAULT_POLICY_ID", "Columns"]
