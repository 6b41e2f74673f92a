"""Counts GPUs and says of what kind they are, where NVIDIA's library is found; honours CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import functools
import os
import re


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use: indexes, or what CUDA_VISIBLE_DEVICES lists."""
    preset = os.environ.get("CUDA_VISIBLE_DEVICES")
    if preset is not None:
        return [
            name.strip() for name in preset.split(",") if name.strip() and name.strip() != "-1" and name != "NoDevFiles"
        ]
    return [str(index) for index in range(_count())]


def accelerator_type() -> str | None:
    """Say what kind of GPU this machine has, by the name that `accelerator_type` takes: of "NVIDIA H100 80GB HBM3", H100."""
    found = _KIND.match(_look()[1])
    return found.group(1) if found else None


#: The maker, then the kind.
_KIND = re.compile(r"\w+\s+([A-Z0-9]+)")
_NAME_BYTES_MAX = 96


def _count() -> int:
    return _look()[0]


@functools.lru_cache(maxsize=1)
def _look() -> tuple[int, str]:
    """Ask the library how many there are, and how the first is called."""
    # A machine without the driver has no control device: nothing is loaded there.
    if not os.path.exists("/dev/nvidiactl"):
        return 0, ""
    import ctypes

    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0:
            return 0, ""
        count, device, name = ctypes.c_uint(0), ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_BYTES_MAX)
        failed = library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0
        found = 0 if failed else count.value
        if found and library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0:
            library.nvmlDeviceGetName(device, name, _NAME_BYTES_MAX)
        library.nvmlShutdown()
    except (OSError, AttributeError):
        return 0, ""
    return int(found), name.value.decode(errors="replace")
