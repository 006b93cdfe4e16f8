"""A DNS server on the loopback that knows names of addresses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import dns.rcode
import dns.reversename
import dns.rrset


class DnsOnLoopback(threading.Thread):
    """Answers PTR queries from a table: a name, '' for a nonexistent name, None for no answer at all."""

    def __init__(self, names: dict[str, str | None]) -> None:
        super().__init__(daemon=True)
        self.names = {dns.reversename.from_address(address): name for address, name in names.items()}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.asked: list[str] = []

    def run(self) -> None:
        while True:
            content, peer = self.socket.recvfrom(4096)
            if not content:
                return
            question = dns.message.from_wire(content)
            asked = question.question[0].name
            self.asked.append(asked.to_text())
            name = self.names.get(asked, "")
            if name is None:
                continue
            answer = dns.message.make_response(question)
            if name:
                answer.answer.append(dns.rrset.from_text(asked, 60, "IN", "PTR", name))
            else:
                answer.set_rcode(dns.rcode.NXDOMAIN)
            self.socket.sendto(answer.to_wire(), peer)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.sendto(b"", self.socket.getsockname())
        self.join()
        self.socket.close()


@contextmanager
def answering(names: dict[str, str | None]) -> Iterator[DnsOnLoopback]:
    """Runs a server during the block."""
    server = DnsOnLoopback(names)
    server.start()
    try:
        yield server
    finally:
        server.close()
