"""What modules can do beside choosing."""

from eagleray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI

__all__ = ["ValueFunctionAPI"]
