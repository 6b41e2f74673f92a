"""What a trial runs."""

from eagleray.tune.trainable.trainable import Trainable
from eagleray.tune.trainable.util import with_parameters, with_resources

__all__ = ["Trainable", "with_parameters", "with_resources"]
