"""Models of one's own, as older programs register them."""

from eagleray.rllib.algorithms._settings import MODEL_DEFAULTS
from eagleray.rllib.models.catalog import ModelCatalog
from eagleray.rllib.models.modelv2 import ModelV2

__all__ = ["MODEL_DEFAULTS", "ModelCatalog", "ModelV2"]
