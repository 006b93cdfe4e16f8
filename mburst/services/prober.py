"""Probes into the store: the prober's settled probes become rows in a thread beside it, so that it is not held up."""

from __future__ import annotations

import fcntl
import secrets
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import privileges
from ..errors import MburstError
from ..stopping import stopping
from ..units import format_count
from .background import BackgroundWriter

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..telemetry.probe.exchanges import ProbeCounts, SettledProbes
    from ..telemetry.probe.prober import ProbePlan
    from ..telemetry.probe.targets import ProbeTarget

SWITCH_S = 0.0001  # how long the storing thread may keep the prober from running Python
_GATHER_S = 1.0  # of probes become one batch of rows
MOST_WAITING = 1_000_000  # probes that wait for the disk, of some 90 bytes each: a minute's at the highest rate
_SIOCGIFADDR = 0x8915
_MOST_APART_NS = 1_000_000  # of an interface's clock from system time, as `mburst record` has it

Names = dict[str, str]
PathCounts = list[tuple[Names, "ProbeCounts"]]


class ProbeRun(NamedTuple):
    """A run of the prober: the batch of its rows; for each path what rows call it and what became of its probes; how
    many targets were left out for lack of a socket; and whether somebody interrupted it."""

    batch: str
    counts: PathCounts
    left_out: int
    interrupted: bool


class ProbeKeeper:
    """Takes settled probes and appends them to the store, beside the prober.

    `on_rows`, where given, is called with every batch of rows (a pyarrow.Table) in the thread that stores. When the
    store cannot be written, `failed` is called and `close` raises what happened. While it cannot be written for long,
    probes beyond MOST_WAITING are dropped; `dropped` counts them.
    """

    def __init__(
        self, store: StoreFolder, failed: Callable[[], None], on_rows: Callable[[Any], None] | None = None
    ) -> None:
        self._writer = store.writer("probes")
        self._on_rows = on_rows
        self.dropped = 0
        self._background: BackgroundWriter[tuple[SettledProbes, Names]] = BackgroundWriter(
            "mburst-probes", self._store, MOST_WAITING, failed, _GATHER_S
        )

    def take(self, settled: SettledProbes, names: Names) -> None:
        """Keep these probes. Returns at once."""
        count = len(settled.sent)
        if not self._background.hand((settled, names), count):
            self.dropped += count

    def close(self) -> None:
        """Store what was taken. Raises what kept it from being stored."""
        try:
            self._background.close()
        finally:
            self._writer.close()

    def _store(self, taken: list[tuple[SettledProbes, Names]]) -> None:
        import pyarrow as pa

        batches = [settled.rows(names) for settled, names in taken]
        rows = pa.Table.from_batches(batches).unify_dictionaries()
        self._writer.append(rows)
        if self._on_rows:
            self._on_rows(rows)


def probe(
    store: StoreFolder,
    targets: list[ProbeTarget],
    plan: ProbePlan,
    *,
    host: str,
    report: Callable[[str], None],
    on_rows: Callable[[Any], None] | None = None,
) -> ProbeRun:
    """Probe until the plan ends or somebody ends it; what was measured is in `store` then.

    Raises MburstError where no socket can be had or the store cannot be written.
    """
    import numpy  # noqa: F401  loaded before the first probe, which it would hold up
    import pyarrow  # noqa: F401

    from ..telemetry.probe.prober import Prober

    batch = f"probe-{secrets.token_hex(6)}"
    with privileges.raised():
        prober = Prober(targets, plan, host=host, batch=batch, report=report)
    low_ports = any(0 < port < 1024 for port in plan.source_ports)  # bound anew with each connection over TCP
    privileges.drop(keep=[privileges.NET_BIND_SERVICE] if low_ports else [])
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        keeper = ProbeKeeper(store, prober.stop, on_rows)
        with stopping(prober.stop) as ended_by, store.place.watched(prober.stop):
            try:
                prober.run(keeper.take)
            finally:
                keeper.close()
        if keeper.dropped:
            report(
                f"{format_count(keeper.dropped, 'probe was', 'probes were')} not stored, because the store was too "
                "slow: missing from what was measured"
            )
        counts = [(prober.names(path), path.exchanges.counts) for paths in prober.paths for path in paths]
        return ProbeRun(batch, counts, len(prober.left_out), signal.SIGINT in ended_by)
    finally:
        sys.setswitchinterval(before)
        prober.close()


def hardware_serves(addresses: list[str]) -> bool:
    """Whether the interfaces that have these IPv4 addresses of this host can stamp every frame, by clocks that are kept
    with system time."""
    from ..capture import device
    from ..telemetry.probe.clock import Clocks

    for address in addresses:
        found = device(interface_of(address))
        if not found or not found["hardware_stamps"] or found["phc_index"] < 0:
            return False
        with Clocks(found["phc_index"]) as clocks:
            apart = clocks.read().phc_offset_ns
        if apart is None or abs(apart) > _MOST_APART_NS:
            return False
    return bool(addresses)


def interface_of(address: str) -> str:
    """The interface that has an IPv4 address, or empty."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("16s24x", name.encode())
                if socket.inet_ntoa(fcntl.ioctl(control, _SIOCGIFADDR, request)[20:24]) == address:
                    return name
            except OSError:  # it has none
                continue
    return ""


def local_address(target: ProbeTarget) -> str:
    """The address of this host that packets to a target leave from. Raises MburstError."""
    with socket.socket(target.family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(target.address)
        except OSError as error:
            raise MburstError(f"{target.name}: {error.strerror}") from error
        return str(sock.getsockname()[0])
