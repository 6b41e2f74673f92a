"""Models by name."""

from __future__ import annotations

from typing import Any

from eagleray._common.near import hint
from eagleray.rllib.utils.error import CustomModelError

_models: dict[str, Any] = {}


class ModelCatalog:
    """Where programs make their models known: `ModelCatalog.register_custom_model("mine", Mine)`."""

    @staticmethod
    def register_custom_model(model_name: str, model_class: Any) -> None:
        """Make a model known by a name that `model={"custom_model": name}` takes."""
        if not callable(model_class):
            raise CustomModelError(f"a model is a class, or a function that makes one; not {model_class!r}")
        _models[model_name] = model_class

    @staticmethod
    def register_custom_action_dist(action_dist_name: str, action_dist_class: type) -> None:
        """Refuse: distributions follow from action spaces here."""
        raise CustomModelError(
            f"custom action distributions are not available ({action_dist_name!r}): actions are drawn as their space says"
        )


def known_models() -> dict[str, Any]:
    """All that were registered, to be made known in another process."""
    return dict(_models)


def model_of(name: str) -> Any:
    """The model of this name."""
    if name in _models:
        return _models[name]
    raise CustomModelError(
        f"no model was registered as {name!r}.{hint(name, _models)} "
        f"Call ModelCatalog.register_custom_model({name!r}, ...) before the algorithm is built."
    )


__all__ = ["ModelCatalog"]
