"""Addresses on which this host listens: an address with a port, or a Unix socket; and whether other machines reach
them."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
import stat
from dataclasses import dataclass

from ..errors import MburstError, UnresolvedName, UsageError
from ..process.binding import cannot_bind
from ..units import whole

_EXAMPLE = "examples: 127.0.0.1:9339, [::1]:9339, unix:/run/mburst.sock"
BACKLOG = 64


@dataclass(frozen=True)
class Address:
    """An IP address and a port (0: any free port), or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        if self.path:
            return True
        address = ipaddress.ip_address(self.host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Protection:
    """What restricts access to a listening address, and encrypts the traffic. `secret` is what a client presents, such
    as `password`, or ''. `encrypting` and `restricting` name the settings that would add protection, for messages."""

    has_tls: bool
    secret: str
    has_client_ca: bool
    encrypting: str
    restricting: str

    def lacking(self, address: Address) -> str:
        """Returns a sentence about the protection that an address needs because other hosts reach it and that it lacks,
        or ''."""
        if address.is_local or (self.has_tls and (self.secret or self.has_client_ca)):
            return ""
        what = f"no authentication ({self.restricting} restrict access)"
        if not self.has_tls:
            what = f"the {self.secret} is sent in clear text" if self.secret else "no encryption and no authentication"
            what += f" ({self.encrypting} encrypt)"
        return f"{address}: other hosts can connect, and {what}"


def parse(text: str) -> Address:
    """Returns the address in "127.0.0.1:9339", "[::1]:9339", "name:9339" or "unix:/run/x.sock". A name is resolved to
    its first address. Raises UsageError, and UnresolvedName if a name has no address."""
    return resolved(split(text))


def split(text: str) -> Address:
    """Returns the same address with a name as it is given. Raises UsageError."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path or "\0" in path:
            raise UsageError(f"missing socket path in {text!r}", _EXAMPLE)
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or (":" in host and host[0] + host[-1] != "[]"):
        raise UsageError(f"invalid address and port {text!r}", _EXAMPLE)
    if (number := whole(port, most=65535)) is None:
        raise UsageError(f"invalid port {port} in {text!r}", "valid ports: 1 to 65535, and 0 for any free port")
    return Address(host.strip("[]"), number)


def resolved(address: Address) -> Address:
    """Returns ADDRESS with the first address of its name. Raises UnresolvedName if it has none, and UsageError if it
    cannot have one later either."""
    if address.path:
        return address
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        check_name(address.host)
        raise UnresolvedName(f"{address.host}: no such address: {getattr(error, 'strerror', None) or error}") from None
    return Address(str(found[0][4][0]), address.port)


def check_name(host: str) -> None:
    """Raise UsageError if HOST, which has no address now, can have none later either: it is neither the name of a host
    nor an address of an interface (fe80::1%eth0)."""
    with contextlib.suppress(ValueError):
        if ipaddress.IPv6Address(host).scope_id:
            return
    try:
        labels = host.encode("idna").decode().removesuffix(".").split(".")
    except UnicodeError:
        labels = []
    if not labels or labels[-1].isdigit() or not all(re.fullmatch(r"[\w-]{1,63}", label, re.A) for label in labels):
        raise UsageError(f"invalid host {host!r}: neither a name nor an address", _EXAMPLE)


class Listener:
    """A listening socket. `address` has the port that the kernel chose."""

    def __init__(self, address: Address, sock: socket.socket) -> None:
        self.sock = sock
        self.address = address if address.path else Address(address.host, sock.getsockname()[1])
        self._file = _identity(address.path) if address.path else None

    def close(self) -> None:
        """Stop listening. The file of a Unix socket is removed, unless another process replaced it or this process may
        not remove it; in that case the next process that listens there removes it."""
        self.sock.close()
        with contextlib.suppress(OSError):
            if self._file and _identity(self.address.path) == self._file:
                os.unlink(self.address.path)


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def listen(address: Address) -> Listener:
    """Returns a socket that listens on ADDRESS, where no other process can listen then. Raises MburstError."""
    try:
        sock = _unix(address.path) if address.path else _tcp(address)
        sock.setblocking(False)
        return Listener(address, sock)
    except OSError as error:
        where = f"cannot listen on {address}"
        if isinstance(error, FileExistsError):
            raise MburstError(f"{where}: {error.strerror}", "remove it, or name another") from None
        if address.path and isinstance(error, PermissionError):
            hint = f"user {os.geteuid()} must be able to write the folder, and to replace what is there"
            raise MburstError(f"{where}: {error.strerror}", hint) from None
        raise cannot_bind(where, error) from None


def _tcp(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY, so that short messages are not delayed, only if the protocol is given.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ended connections do not block the port
        if family == socket.AF_INET6 and ipaddress.ip_address(address.host.partition("%")[0]).is_unspecified:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][4])
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _unix(path: str) -> socket.socket:
    """Returns a Unix socket to which only this user and root can connect. A socket that a dead process left is
    replaced."""
    sock = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "a file that is not a socket is there")
            if not _is_served(path):
                os.unlink(path)
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        return True
