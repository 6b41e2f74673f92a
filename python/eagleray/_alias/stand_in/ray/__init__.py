"""`ray` for Python processes that a program under `eagleray run` starts: another name of eagleray.

It is found because its folder stands in PYTHONPATH. A Python of another environment may have a Ray of its own, and is left alone.
"""

from __future__ import annotations

import os
import sys

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The name is given to eagleray, or to what another environment has.
del sys.modules[__name__]

if os.environ.get("EAGLERAY_RAY_PREFIX") == sys.prefix:
    try:
        from eagleray._alias.install import install_as_ray
    except ModuleNotFoundError as error:
        if error.name != "eagleray":
            raise
        # The program that started this one had found it in a way of its own.
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER))))
        from eagleray._alias.install import install_as_ray

    install_as_ray()
else:
    import importlib

    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]
    importlib.invalidate_caches()
    importlib.import_module(__name__)
