"""Probing into the store: a separate thread turns settled probes into rows, so that storing does not delay the
prober."""

from __future__ import annotations

import fcntl
import secrets
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import MburstError
from ..process import privileges
from ..process.stopping import stopping
from ..units import format_count
from .background import BackgroundWriter

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..telemetry.probe.exchanges import ProbeCounts, SettledProbes
    from ..telemetry.probe.prober import ProbePlan
    from ..telemetry.probe.targets import ProbeTarget

SWITCH_S = 0.0001  # how long the storing thread may keep the prober from running Python
_GATHER_S = 1.0  # probes of this time become one batch of rows
MOST_WAITING = 1_000_000  # probes of some 90 bytes that wait for the disk: a minute at the highest rate
_SIOCGIFADDR = 0x8915
_MOST_APART_NS = 1_000_000  # greatest offset of an interface's clock from system time, as in `mburst record`

Names = dict[str, str]
PathCounts = list[tuple[Names, "ProbeCounts"]]


class ProbeRun(NamedTuple):
    """The result of a run of the prober: the batch of its rows, the names and counts of each path, the number of
    targets that were left out for lack of a socket, and the signals that ended the run."""

    batch: str
    counts: PathCounts
    left_out: int
    ended_by: tuple[signal.Signals, ...]


class ProbeKeeper:
    """Takes settled probes and appends them to the store in a separate thread.

    `on_rows`, if given, is called in that thread with each batch of rows (a pyarrow.Table). If the store cannot be
    written, `failed` is called and `close` raises the error. If writing takes too long, probes beyond MOST_WAITING are
    dropped; `dropped` counts them.
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
        """Queue these probes for storing. Returns at once."""
        count = len(settled.sent)
        if not self._background.hand((settled, names), count):
            self.dropped += count

    def close(self) -> None:
        """Store all queued probes. Raises the error that prevented it."""
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
    """Probe until the plan or a signal ends the run. On return, `store` holds all measurements.

    Raises MburstError if no socket can be opened or the store cannot be written.
    """
    import numpy  # noqa: F401  loaded before the first probe, which it would hold up
    import pyarrow  # noqa: F401

    from ..telemetry.probe.prober import Prober

    batch = f"probe-{secrets.token_hex(6)}"
    with privileges.raised():
        prober = Prober(targets, plan, host=host, batch=batch, report=report)
    low_ports = any(0 < port < 1024 for port in plan.source_ports)  # TCP binds them again for each connection
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
        return ProbeRun(batch, counts, len(prober.left_out), tuple(ended_by))
    finally:
        sys.setswitchinterval(before)
        prober.close()


def hardware_serves(addresses: list[str]) -> bool:
    """Whether each interface with one of these IPv4 addresses of this host can stamp every frame, with a clock that is
    synchronized with system time."""
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
    """Returns the interface that has an IPv4 address, or ""."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("16s24x", name.encode())
                if socket.inet_ntoa(fcntl.ioctl(control, _SIOCGIFADDR, request)[20:24]) == address:
                    return name
            except OSError:  # it has no IPv4 address
                continue
    return ""


def local_address(target: ProbeTarget) -> str:
    """Returns the address of this host from which packets to TARGET are sent. Raises MburstError."""
    with socket.socket(target.family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(target.address)
        except OSError as error:
            raise MburstError(f"{target.name}: {error.strerror}") from error
        return str(sock.getsockname()[0])
