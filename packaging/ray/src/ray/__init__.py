"""The name `ray`: another name of eagleray, from here on."""

import sys

# The name is eagleray's now.
del sys.modules[__name__]

from eagleray import install_as_ray  # noqa: E402

install_as_ray()
