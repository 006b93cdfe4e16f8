"""The address of a web server, and the token that it requires."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import MburstError, UnresolvedName, UsageError
from ..listening.addresses import check_name
from ..listening.tls import Certificates, context
from ..process import privileges
from ..process.binding import cannot_bind
from ..units import whole

LEAST_TOKEN = 16  # characters
_EXAMPLE = "examples: 127.0.0.1:{0}, [::1]:{0}"


@dataclass(frozen=True)
class ListenAddress:
    """An address to listen on. `host` is as it was given; `address` is its IP address, and `loopback` says whether only
    this machine reaches it. `token` is None if none is required. `made` means that the token was generated here, so
    that only the printed line has it."""

    host: str
    address: str
    port: int
    token: str | None
    made: bool = False
    names: tuple[str, ...] = ()  # additional names of the server, for example behind a proxy
    tls: Certificates | None = None

    @property
    def loopback(self) -> bool:
        return is_loopback(self.address)

    @property
    def reads(self) -> list[str]:
        """What a server reads while it runs: the folders of the certificate and key, which may be replaced."""
        return self.tls.folders() if self.tls else []

    def url(self, port: int, path: str = "/") -> str:
        """Returns the URL to open, without the token."""
        everywhere = ipaddress.ip_address(self.address.partition("%")[0]).is_unspecified
        host = socket.gethostname() if everywhere else self.host
        return f"http{'s' if self.tls else ''}://{f'[{host}]' if ':' in host else host}:{port}{path}"


def is_loopback(address: str) -> bool:
    """Whether an IP address (also IPv4 within IPv6) is reachable only from this machine."""
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (inner or found).is_loopback


def split(listen: str, port: int) -> tuple[str, int]:
    """Returns host and port of "127.0.0.1:8470", "[::1]:8470", ":8470" (all addresses), "127.0.0.1" (with PORT). Raises
    UsageError."""
    host, colon, number = listen.rpartition(":")
    if not colon or number.endswith("]"):
        host, number = listen, str(port)
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    is_host = host.isprintable() and " " not in host and not host.isdigit()  # 9620 would be 0.0.37.148
    if whole(number, most=65535) is None or (bracketed != (":" in host)) or not is_host:
        raise UsageError(f"invalid address {listen!r}", _EXAMPLE.format(port))
    return host or "0.0.0.0", int(number)


def resolved(host: str, port: int) -> str:
    """Returns the IP address of a host. Raises UnresolvedName, UsageError for what is not a name, and MburstError if a
    name resolves to both loopback and other addresses, because it is then unclear who can connect."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        check_name(host)
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise UnresolvedName(
            f"{host}: cannot find its address: {reason}", "name an IP address with --listen"
        ) from error
    if len({is_loopback(address) for address in found}) > 1:
        raise MburstError(
            f"{host} is {', '.join(sorted(found))}: some of these are loopback addresses",
            "name one IP address with --listen",
        )
    return min(found, key=lambda address: (":" in address, address))


def where_of(
    listen: str,
    port: int,
    token_file: str | None,
    certificate: str | None,
    key: str | None,
    open_: bool,
    names: Sequence[str] = (),
) -> ListenAddress:
    """Returns the address that --listen and related options give. A token is generated, unless there is a token file or
    OPEN_ is true. Raises UsageError, and MburstError for files that cannot be read."""
    host, number = split(listen, port)
    if bool(certificate) != bool(key):
        raise UsageError("--tls-cert and --tls-key belong together")
    if open_ and token_file:
        raise UsageError("--open and --token-file exclude each other: --open disables the token")
    tls = Certificates(Path(certificate), Path(key)) if certificate and key else None
    if tls:
        context(tls, "http/1.1")
    token = _token(Path(token_file)) if token_file else None if open_ else secrets.token_urlsafe(24)
    return ListenAddress(host, resolved(host, number), number, token, not token_file and not open_, tuple(names), tls)


def _token(path: Path) -> str:
    token = _readable(path).strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or set(token) & set(' ";,\\'):
        raise MburstError(
            f"{path}: a token is at least {LEAST_TOKEN} letters, digits or signs on one line",
            "no blank, quote, comma, semicolon or backslash",
        )
    return token


def _readable(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise MburstError(f"{path}: cannot read: {reason}") from error


def listening(where: ListenAddress) -> socket.socket:
    """Returns a socket that listens on the address. Raises MburstError if it cannot."""
    family = socket.AF_INET6 if ":" in where.address else socket.AF_INET
    try:
        with privileges.raised():
            return socket.create_server((where.address, where.port), family=family, backlog=128)
    except OSError as error:
        instead = "--listen takes another address or port, port 0 any that is free"
        raise cannot_bind(f"cannot listen on {where.host}:{where.port}", error, instead) from error
