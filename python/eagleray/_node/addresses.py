"""Addresses of nodes, as people write them and as they compare: HOST:PORT, [IPv6]:PORT, ray://HOST:PORT."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

#: Where a head listens if nobody says anything else: Ray's.
DEFAULT_PORT = 6379
_SCHEME = "ray://"


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_one(text: str) -> bool:
    """Tell whether this is meant as a host and a port, and not as a path or a word."""
    return text.startswith((_SCHEME, "[")) or (":" in text and "/" not in text)


def parse(text: str) -> Address:
    """Read an address. Raises ValueError if it is none; only behind ray:// may the port be missing."""
    bare = text.removeprefix(_SCHEME)
    bare = bare.rstrip("/") if bare != text else bare
    if bare.startswith("["):
        host, closes, rest = bare[1:].partition("]")
        if not closes or not is_ip(host) or ":" not in host:
            raise ValueError(f"{text!r} is no address: between the brackets stands an IPv6 address, as in [::1]:6379")
        colon, port = rest[:1], rest[1:]
        if rest and colon != ":":
            raise ValueError(f"{text!r} is no address: behind the brackets stands the port, as in [::1]:6379")
    elif bare.count(":") > 1:
        raise ValueError(f"{text!r} is no address: an IPv6 address stands in brackets, as in [::1]:6379")
    else:
        host, colon, port = bare.partition(":")
    if not host or any(letter.isspace() or letter == "/" for letter in host):
        raise ValueError(f"{text!r} is no address: give HOST:PORT")
    if not colon and bare != text:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is no address: give HOST:PORT, with a port from 1 to 65535")
    return Address(host, int(port))


def is_ip(text: str) -> bool:
    """Tell whether this is a number and not a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(ip: str) -> bool:
    """Tell whether only this machine reaches itself there."""
    return is_ip(ip) and ipaddress.ip_address(ip).is_loopback


def is_any(ip: str) -> bool:
    """Tell whether this stands for all addresses of the machine."""
    return is_ip(ip) and ipaddress.ip_address(ip).is_unspecified


def resolve(host: str) -> list[str]:
    """Find the IP addresses of a host. Raises ConnectionError if its name is not known."""
    if is_ip(host):
        return [str(ipaddress.ip_address(host))]
    import socket

    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectionError(f"{host}: the name does not resolve: {error}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_here(ip: str) -> bool:
    """Tell whether this machine has the address."""
    import socket

    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
    return True


def outward() -> str:
    """Find the address by which this machine goes out to others; loopback if it goes nowhere."""
    import socket

    # Addresses for examples: nothing is sent, the system only says which way it would go.
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((far, 9))
            except OSError:
                continue
            ip = str(probe.getsockname()[0])
        if not is_loopback(ip) and not is_any(ip):
            return ip
    return "127.0.0.1"
