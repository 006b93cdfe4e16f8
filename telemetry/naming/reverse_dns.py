"""Names from reverse DNS: PTR records of addresses, with a limited number of questions at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ... import extras
from ...errors import MburstError, UsageError
from ...units import whole
from .rows import LONGEST, NamedPrefix, is_address, reads_like_address

AT_ONCE = 8  # questions
ANSWER_S = 2.0  # for one question, including retries


class ReverseNames(NamedTuple):
    """`nameless` are addresses that have no name according to an answer, or only names that read like addresses.
    `unanswered` are those without an answer."""

    names: list[NamedPrefix]
    nameless: list[str]
    unanswered: list[str]


def ask(
    addresses: Sequence[str], server: str = "", timeout_s: float = 10.0, stopped: Callable[[], bool] = lambda: False
) -> ReverseNames:
    """Asks for the PTR records of ADDRESSES, in their order, for TIMEOUT_S in total; addresses without an answer by
    then are unanswered. SERVER is ADDRESS or ADDRESS:PORT, '' for the servers of this host. Raises MburstError if
    dnspython is not installed or no server is known."""
    try:
        import dns.exception
        import dns.resolver
    except ModuleNotFoundError:
        raise extras.lacking("names from DNS need", "dnspython", "names") from None
    try:
        resolver = dns.resolver.Resolver(configure=not server)
    except dns.exception.DNSException as error:
        raise MburstError(f"no DNS server: {error}", "name one with --server") from None
    if server:
        address, port = _server(server)
        resolver.nameservers, resolver.port = [address], port
    until = time.monotonic() + timeout_s

    def name_of(address: str) -> str | None:
        left = until - time.monotonic()
        if left <= 0 or stopped():
            return None
        try:
            answer = resolver.resolve_address(address, lifetime=min(ANSWER_S, left), search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return ""
        except dns.exception.DNSException:
            return None
        names = [str(record.target.to_text(omit_final_dot=True)) for record in answer]
        return min((name for name in names if name != "." and not reads_like_address(name)), default="")[:LONGEST]

    known = [address for address in addresses if is_address(address)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        names = list(pool.map(name_of, known))
    pairs = list(zip(known, names, strict=True))
    return ReverseNames(
        [NamedPrefix(address, name) for address, name in pairs if name],
        [address for address, name in pairs if name == ""],
        [address for address, name in pairs if name is None],
    )


def _server(text: str) -> tuple[str, int]:
    """Returns address and port of "10.0.0.53", "10.0.0.53:5353", "[::1]:53" and "::1". Raises UsageError."""
    host, _, port = text.rpartition(":") if text.count(":") == 1 or "]:" in text else (text, "", "53")
    host = host.strip("[]")
    number = whole(port, 1, 65535)
    if not is_address(host) or number is None:
        raise UsageError(f"invalid DNS server {text!r}", "examples: 10.0.0.53, 10.0.0.53:5353, [2001:db8::53]:53")
    return host, number
