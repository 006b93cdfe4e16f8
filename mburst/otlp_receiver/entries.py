"""The addresses at which OTLP senders connect, their certificates, and whether access is restricted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from ..errors import MburstError, UnresolvedName, UsageError
from ..listening import tls
from ..listening.addresses import Address, Listener, Protection, listen, resolved, split
from ..process import privileges
from ..telemetry.otlp.config import OtlpConfig

ANYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Entry:
    """An address in the configuration. `word` is its key there; `protocol` is its ALPN name in TLS."""

    word: str
    protocol: str
    address: Address

    @property
    def name(self) -> str:
        """The name of the protocol in messages."""
        return {"h2": "gRPC", "http/1.1": "HTTP"}[self.protocol]


def entries(config: OtlpConfig, unresolved: Callable[[UnresolvedName], None] | None = None) -> Sequence[Entry]:
    """Returns the addresses in a configuration. Raises MburstError for an invalid address, for two equal ones, and for
    one with unrestricted access unless the configuration allows that. An error of a name without an address is passed
    to UNRESOLVED, if it is given: the entry then has the name, and it is not known whether other hosts reach it."""
    found, named = list[Entry](), set[str]()
    for word, protocol, text in (("listen", "h2", config.listen), ("http", "http/1.1", config.http)):
        if not text:
            continue
        with _naming(word):
            address = split(text)
            try:
                address = resolved(address)
            except UnresolvedName as error:
                if unresolved is None:
                    raise
                unresolved(UnresolvedName(f"otlp.{word}: {error}", error.hint))
                named.add(word)
        found.append(Entry(word, protocol, address))
    for one, other in combinations(found, 2):
        if _same(one.address, other.address):
            raise UsageError(f"otlp: {one.word} and {other.word} are the same address, {other.address}", "take two")
    for entry in found:
        known = entry.word not in named and not config.insecure
        if known and (lacking := protection(config).lacking(entry.address)):
            raise UsageError(f"otlp.{entry.word}: {lacking}", "insecure: true allows this")
    return found


@contextlib.contextmanager
def _naming(word: str) -> Iterator[None]:
    try:
        yield
    except MburstError as error:
        raise type(error)(f"otlp.{word}: {error}", error.hint) from None


def _same(one: Address, other: Address) -> bool:
    if one.path or other.path:
        return one.path == other.path
    same_host = one.host == other.host or one.host in ANYWHERE or other.host in ANYWHERE
    return same_host and one.port == other.port != 0


def protection(config: OtlpConfig) -> Protection:
    """Returns what restricts access."""
    secret = "token" if config.token else ""
    return Protection(
        bool(config.tls_cert), secret, bool(config.tls_client_ca), "tls-cert and tls-key", "token or tls-client-ca"
    )


def certificates(config: OtlpConfig) -> tls.Certificates | None:
    """Returns the TLS files, None without TLS."""
    if not config.tls_cert:
        return None
    client_ca = Path(config.tls_client_ca) if config.tls_client_ca else None
    return tls.Certificates(Path(config.tls_cert), Path(config.tls_key), client_ca)


@dataclass(frozen=True)
class OpenEntry:
    """A listening entry."""

    entry: Entry
    listener: Listener
    tls: tls.RenewedContext | None

    def __str__(self) -> str:
        return f"OTLP by {self.entry.name} on {self.listener.address}"


def opened(config: OtlpConfig, say: Callable[[str], None]) -> list[OpenEntry]:
    """Open everything that needs the rights with which this process began. Certificates are read and ports are bound as
    the user that started it. A Unix socket belongs to the later user of the process, who has to remove it. Raises
    MburstError, and then leaves nothing open."""
    files, found = certificates(config), list[OpenEntry]()
    try:
        for entry in entries(config):
            if lacking := protection(config).lacking(entry.address):
                say(f"note: {lacking}")
            with privileges.raised():
                context = tls.RenewedContext(files, entry.protocol, say) if files else None
            with contextlib.nullcontext() if entry.address.path else privileges.raised():
                found.append(OpenEntry(entry, listen(entry.address), context))
    except BaseException:
        for one in found:
            one.listener.close()
        raise
    return found
