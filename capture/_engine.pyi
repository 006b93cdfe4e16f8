"""The C engine: capture files or interfaces in, rows of bins and senders out.

All times are integer Unix nanoseconds. Methods release the GIL while they work.
"""

from typing import Any, Literal, TypedDict, final

QUALITY_HW: int
QUALITY_SW: int
QUALITY_RING: int
QUALITY_FILE_US: int
QUALITY_UNSYNCED: int
QUALITY_LOSING: int
QUALITY_GSO: int
QUALITY_TRUNCATED: int
QUALITY_STEPPED: int

class Lane(TypedDict):
    """One direction of one interface; totals so far. `lane` in rows is the index into Capture.lanes.

    Packets and bytes (link layer, without FCS) are those in closed bins; late ones are in none.
    start_ns and end_ns hold once packets > 0.
    """

    interface: str
    linktype: int
    snaplen: int
    link_bps: int
    direction: Literal["in", "out", "mirror"]
    start_ns: int
    end_ns: int
    packets: int
    bytes: int
    wire_bytes: int
    unattributed_packets: int
    unattributed_bytes: int
    late: int
    late_bytes: int
    unparsed: int
    merged: int
    ce_packets: int
    retransmits: int
    quality: int
    epochs: int

class Facts(TypedDict):
    """What holds for the capture as a whole, so far."""

    frames: int
    """Frames that the sources yielded, and the sum of their lengths as the sources give them."""
    bytes: int
    filtered: int
    dropped: int
    excluded_packets: int
    """Frames of a direction that was not asked for."""
    excluded_bytes: int
    foreign_packets: int
    """Unicast Ethernet frames that neither came from nor went to this host, of ethernet_packets."""
    ethernet_packets: int
    folded_bins: int
    """Source bins in which `other` may count a sender more than once."""
    flows_unseen: int
    """Packets whose flow could not be remembered: `flows` is then a lower bound."""
    mtu: int
    """Largest IP packet of one wire frame that was assumed; 0 when merged frames were not looked for."""
    inferred: str
    """What was inferred from the first frames, or an empty text."""
    notice: str | None
    """What the sources have to say that is no failure (a cut tail), one sentence a line."""

@final
class Rows:
    """Rows that share the engine's memory. Speaks the Arrow PyCapsule protocol; each stream is fresh."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Capture:
    """Open `targets` (files, "-", or one interface) as one capture.

    bin_ns, source_bin_ns: widths of the bins and of the bins of senders.
    window_ns: how far out of order packets may come; later ones are counted as late.
    directions: "in", "out" or "both"; a mirror port has no side and is always counted.
    local: this host's IP or MAC addresses; none: inferred where the source does not tell sides.
    max_sources: senders in a bin that get a row of their own; the smallest beyond are `other`.
    inner: attribute to the innermost IP header of a tunnel.
    mtu: largest IP packet of a wire frame, -1 to infer it, 0 to take no frame as merged.
    spread_bps: line rate at which merged frames are laid back over time, 0 not to.

    Raises MburstError when a target cannot be read, ValueError for options out of range.
    """

    def __init__(
        self,
        targets: list[str],
        *,
        bin_ns: int = 100_000,
        source_bin_ns: int = 1_000_000,
        window_ns: int = 2_000_000,
        directions: Literal["in", "out", "both"] = "both",
        local: list[str] = ...,
        max_sources: int = 4096,
        inner: bool = False,
        mtu: int = -1,
        spread_bps: int = 0,
        backend: str | None = None,
        filter: str | None = None,
    ) -> None: ...
    @property
    def lanes(self) -> list[Lane]: ...
    @property
    def facts(self) -> Facts: ...
    def read(self) -> tuple[Rows, Rows] | None:
        """The next rows of bins (lane, epoch, ts_ns, bytes, wire_bytes, packets, ce_packets,
        retransmits, quality) and of senders (lane, epoch, ts_ns, source, bytes, packets, flows,
        members, first_ns, last_ns), each sorted by time within a lane; None at the end.

        Raises MburstError when the input turns out bad, after all rows before the fault."""
    def stop(self) -> None:
        """Let the source end soon; read() then yields what is left. From any thread."""
    def close(self) -> None: ...
