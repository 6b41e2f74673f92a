"""Counts GPUs where NVIDIA's library is found; honours CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use: indexes, or what CUDA_VISIBLE_DEVICES lists."""
    preset = os.environ.get("CUDA_VISIBLE_DEVICES")
    if preset is not None:
        return [
            name.strip() for name in preset.split(",") if name.strip() and name.strip() != "-1" and name != "NoDevFiles"
        ]
    return [str(index) for index in range(_count())]


def _count() -> int:
    # A machine without the driver has no control device: nothing is loaded there.
    if not os.path.exists("/dev/nvidiactl"):
        return 0
    import ctypes

    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0:
            return 0
        count = ctypes.c_uint(0)
        failed = library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0
        found = 0 if failed else count.value
        library.nvmlShutdown()
    except (OSError, AttributeError):
        return 0
    return int(found)
