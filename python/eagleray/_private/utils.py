"""What this machine has."""

from __future__ import annotations

from eagleray._node.hosting import usable_cpus, usable_memory

__all__ = ["binary_to_hex", "get_num_cpus", "get_system_memory", "get_used_memory", "hex_to_binary"]


def binary_to_hex(identifier: bytes) -> str:
    """Write an id in hexadecimal digits."""
    return identifier.hex()


def hex_to_binary(hex_identifier: str) -> bytes:
    """Read an id that was written in hexadecimal digits."""
    return bytes.fromhex(hex_identifier)


def get_num_cpus() -> int:
    """Count the cores that this process may use."""
    return usable_cpus()


def get_system_memory() -> int:
    """Count the bytes of memory that this process may use."""
    return usable_memory()


def get_used_memory() -> int:
    """Count the bytes of the machine's memory that are in use."""
    with open("/proc/meminfo") as file:
        told = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}
    return 1024 * (told["MemTotal"] - told["MemAvailable"])
