"""The targets of probes: names and addresses, and what they resolve to."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from ...errors import MburstError, UsageError
from ...units import whole


@dataclass(frozen=True)
class ProbeTarget:
    """A host to probe: its name, and its address in the form of sockets."""

    name: str
    family: socket.AddressFamily
    address: tuple[Any, ...]


def split(text: str, default_port: int) -> tuple[str, int]:
    """Returns (host, port) of "HOST", "HOST:PORT", "::1" or "[::1]:PORT". Raises UsageError."""
    host, port = text, ""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UsageError(f"invalid host {text!r}", "an IPv6 address with a port is written [2001:db8::1]:8620")
        port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not port:
            raise UsageError(f"missing port in {text!r}")
    if not host and not text.startswith(":"):
        raise UsageError(f"missing host in {text!r}")
    if not port:
        return host, default_port
    if (number := whole(port, 1, 65535)) is None:
        raise UsageError(f"invalid port {port!r} in {text!r}", "valid ports: 1 to 65535")
    return host, number


def host_of(text: str, default_port: int) -> tuple[str, int]:
    """Returns host and port of a target. Raises UsageError."""
    host, port = split(text, default_port)
    if not host:
        raise UsageError(f"missing host in {text!r}")
    return host, port


def check_without_port(text: str) -> None:
    """Raise UsageError if a target of a protocol without ports has one: it would be part of a name."""
    host, port = host_of(text, 0)
    if port:
        raise UsageError(f"{text}: icmp has no ports", f"write {host}, or --protocol tcp or udp")


def resolve(text: str, default_port: int, kind: socket.SocketKind, family: socket.AddressFamily) -> ProbeTarget:
    """Returns the target of `text`, at the first of its addresses. Its name is as written, without the default port.
    Raises UsageError for text that cannot be a host, and MburstError if the name does not resolve."""
    host, port = host_of(text, default_port)
    try:
        found = socket.getaddrinfo(host, port, family, kind)
    except (socket.gaierror, UnicodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, socket.gaierror) else "not a valid name"
        raise MburstError(f"{host}: the name does not resolve: {reason}") from error
    name = host if port == default_port else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ProbeTarget(name, socket.AddressFamily(found[0][0]), found[0][4])
