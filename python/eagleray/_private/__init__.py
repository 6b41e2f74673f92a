"""Names under which older programs look for what is public elsewhere."""

from __future__ import annotations

from eagleray._common.submodules import loader

__getattr__ = loader(__name__)
