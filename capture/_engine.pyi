"""The C engine: capture files or interfaces in, rows of bins and senders out.

All times are integer Unix nanoseconds. Methods release the GIL while they work.
"""

from typing import Any, Literal, TypedDict, final

QUALITY_HW: int
QUALITY_SW: int
QUALITY_RING: int
QUALITY_FILE_US: int
QUALITY_UNSYNCED: int
QUALITY_DROPS: int
QUALITY_GRO: int
QUALITY_TRUNCATED: int
QUALITY_STEPPED: int

class Lane(TypedDict):
    """One direction of one interface; totals so far. `lane` in rows is the index into Capture.lanes.
    At its end a capture from an interface on which nothing came has those that it was to count.

    It has a total for each counter of bins (MB_BIN_COUNTERS in measure/bins.h); those that Python uses are listed here.
    None: the source does not count it, and the column of bins is NULL.
    Packets and bytes (link layer, without FCS) are those in closed bins; late ones are in none.
    start_ns and end_ns hold once packets > 0. `interface` is the name that the capture gives, or
    empty; `index` separates interfaces without a name.
    """

    interface: str
    index: int
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
    unparsed: int | None
    merged: int
    ce_packets: int
    retransmits: int | None
    cnp_packets: int
    pause_frames: int | None
    quality: int
    clock_epochs: int
    busy: bool
    """Whether senders are kept near busy bins alone."""

class Facts(TypedDict):
    """What holds for the capture as a whole, so far."""

    backend: str
    live: bool
    """Whether frames come as they happen."""
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
    restores: bool
    """Whether closing puts an interface back as it was found, which needs CAP_NET_ADMIN."""
    misdated: int
    """Packets whose stamps are outside the years 1970 to 2100; they are among `late` of their lanes."""
    mtu: int
    """Largest IP packet of one wire frame that was assumed; 0 when merged frames were not looked for."""
    snaplen: int
    """Bytes of a frame that its first interface captures; 0: all, or no interface yet."""
    inferred: str
    """What was inferred from the first frames, or an empty text."""
    notice: str | None
    """Remarks of the sources that are not errors (a truncated end, odd stamps), one sentence a line."""
    kept: Kept | None
    """What was kept of the packets (keep_folder)."""
    begun: tuple[int, int, int, int] | None
    """What the interface had counted just before frames came in: rx_packets, rx_bytes, tx_packets, tx_bytes."""
    since_ns: int | None
    """Where what it yields begins, if another process had that counted before (pins)."""

class Kept(TypedDict):
    """The ring of files that a live capture keeps its last packets in, so far."""

    packets: int
    """Packets that were written, and the bytes of their blocks."""
    bytes: int
    lost: int
    """Packets that were not kept."""
    trouble: str
    """Why nothing can be written now; empty where it can."""

class SourceState(TypedDict):
    """A live source, and why it cannot run here: empty when it can. Costs are 0 where not measured."""

    name: str
    description: str
    reason: str
    packet_ns: int
    """Of a processor, for each packet."""
    memory_bytes: int
    """Of the kernel, with default widths of bins."""

class Device(TypedDict):
    """A network interface. What its driver does not say is 0, empty or False."""

    name: str
    index: int
    driver: str
    mac: str
    mtu: int
    arphrd: int
    up: bool
    carrier: bool
    loopback: bool
    link_bps: int
    rx_ring: int
    """Descriptors of a receive queue, and the most that it can have."""
    rx_ring_max: int
    rx_queues: int
    rx_usecs: int
    """How long the interface holds frames back to announce several at once; varied where rx_adaptive."""
    rx_adaptive: bool
    offloads: list[tuple[str, bool]]
    """Offloads in force that merge frames: the word of `ethtool -K`, and whether it is for those that arrive."""
    missed: int
    """Frames that it lost for lack of a buffer, before any capture could see them, since it came up."""
    rx_packets: int
    """What the driver counts since the interface came up."""
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    hardware_stamps: bool
    """It can stamp every frame that arrives; or, ptp_stamps, only those of PTP."""
    ptp_stamps: bool
    phc_index: int
    """Its clock is /dev/ptpN; -1: none."""

def sources(target: str | None, /) -> list[SourceState]:
    """The live sources, tried on `target`, or in general where it is None."""

def device(name: str, /) -> Device | None:
    """A network interface of this namespace, or None."""

def clock_synchronized() -> bool:
    """Whether NTP or PTP keeps the system's clock (adjtimex)."""

def give_up(kept: int | None, ruleset: int | None, no_new: bool, /) -> int:
    """In all threads of the process: have no capabilities but those of the mask KEPT and pass none on (None: leave
    them), gain none by starting programs (NO_NEW), and be restricted by the Landlock RULESET, a descriptor. How many
    threads did not answer within two seconds, and keep what they had. Raises OSError."""

def end_without_memory(failure: Any, /) -> None:
    """A sys.unraisablehook: where what nobody can catch is a MemoryError, or a thread did not come to start, ends the
    process with exit code 1 and one line: whoever started that thread would wait for ever
    (github.com/python/cpython/issues/140746). Anything else is reported as ever."""

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
    directions: "in", "out" or "both"; a mirror port has no direction and is always counted.
    local: this host's IP or MAC addresses; none: inferred where the source does not report directions.
    max_sources: senders in a bin that get a row of their own; the smallest beyond are `other`.
    sources_above_ppb: keep senders only near bins with so many billionths of what the link carries, and sum up others
        as `other` (measure/busy.h); 0, or where nobody knows the speed of the link: keep all.
    link_bps: speed of the link, 0 for what the source says.
    inner: attribute to the innermost IP header of a tunnel.
    mtu: largest IP packet of a wire frame, 0 to take no frame as merged, -1 to infer it; of an interface that is the
        largest MTU that it has had.
    spread_bps: line rate at which merged frames are laid back over time, 0 not to.
    backend: name of a source, None for the first that knows the target.
    filter: pcap filter expression.

    Of interfaces only:
    snaplen: bytes of each frame that are looked at, 0 for 128.
    threads: rings that share the load, each drained by a thread of its own (afpacket).
    ring_bytes: kernel buffer, of each ring, 0 for 64 MiB.
    stamps: "auto", "hw" (the interface's, or fail) or "sw" (the kernel's).
    promiscuous: also frames that are not for this host.
    cluster: id under which PF_RING shares the load among processes, 0 for none.
    beside: other interfaces that this process captures from: without a backend, the memory of ebpf is bounded for all.
    hook: where the kernel counts what arrives (ebpf): behind the driver, in it, or in it or else behind it.
    pins: have the kernel count on when this process ends (ebpf), for the next Capture of the interface that asks for
        the same; it yields from where this one ended.
    pin_group: the group that may remove what counts on, beside root.
    keep_folder: a descriptor of a folder, this capture's alone, for a ring of pcapng files with what was captured last
        (keep/packet_files.h); -1 for no ring.
    keep_bytes: what these files may take, at least 16 MB.
    keep_reserve_bytes: free bytes of the disk below which the ring becomes smaller, and then is not written.

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
        sources_above_ppb: int = 0,
        link_bps: int = 0,
        inner: bool = False,
        mtu: int = -1,
        spread_bps: int = 0,
        backend: str | None = None,
        filter: str | None = None,
        snaplen: int = 0,
        threads: int = 0,
        ring_bytes: int = 0,
        stamps: Literal["auto", "hw", "sw"] = "auto",
        promiscuous: bool = True,
        cluster: int = 0,
        beside: int = 0,
        hook: Literal["tc", "xdp", "xdp-generic"] = "tc",
        pins: bool = False,
        pin_group: int = 0,
        keep_folder: int = -1,
        keep_bytes: int = 0,
        keep_reserve_bytes: int = 0,
    ) -> None: ...
    @property
    def lanes(self) -> list[Lane]: ...
    @property
    def facts(self) -> Facts: ...
    def read(self) -> tuple[Rows, Rows] | None:
        """The next rows of bins (lane, clock_epoch, ts_ns, and the counters of sql/schema/bins.sql)
        and of senders (lane, clock_epoch, ts_ns, source, bytes, packets, flows,
        members, first_ns, last_ns, source_port, destination_port, cnp_packets), each sorted by time within a
        lane; None at the end. From an interface it returns at least every 0.1 s, with no rows when no bin is closed.

        Raises MburstError when the input turns out bad, after all rows before the fault."""
    def losses(self) -> list[tuple[int, int, int]]:
        """Where a live source lost packets, as far as no earlier call said so: (first_ns, last_ns, packets), oldest
        first. Each lost packet is in exactly one; before there is a lane there are none."""
    def stop(self, leaves: bool = False, /) -> None:
        """Let the source end soon; read() then yields what is left. From any thread. LEAVES: what `pins` has the kernel
        count goes on, and what it counts from now on is the next Capture's; else it ends."""
    def close(self) -> None: ...

class CapturedInterface(TypedDict):
    """An interface of capture files; what they do not say is 0 or empty."""

    name: str
    linktype: int
    snaplen: int
    link_bps: int
    fcs_len: int

Frame = tuple[int, int, int, Literal["in", "out", "mirror"], str, int, bytes]
"""A frame of a file: the index of its interface, its stamp (Unix ns), its length, direction and sender as Capture has
them, its ports (source << 16 | destination; 0: none), and what was captured."""

@final
class CapturedFrames:
    """The frames of capture files that are stamped in [since_ns, until_ns), merged by time. Takes the options of
    Capture for files. Raises MburstError when a target cannot be read or is no file."""

    def __init__(
        self,
        targets: list[str],
        since_ns: int,
        until_ns: int,
        /,
        *,
        local: list[str] = ...,
        inner: bool = False,
        filter: str | None = None,
        backend: str | None = None,
    ) -> None: ...
    @property
    def interfaces(self) -> list[CapturedInterface]:
        """Those seen so far."""
    @property
    def notice(self) -> str | None:
        """Remarks of the files that are not errors, one sentence a line."""
    def read(self) -> list[Frame] | None:
        """The next frames, at times none; None at the end. Raises MburstError when the input turns out bad, after all
        frames before the fault."""
    def close(self) -> None: ...

def pcapng_section(application: str, comments: list[str], /) -> bytes:
    """A block that begins a section of pcapng, in this machine's byte order. Texts have at most 65,535 bytes."""

def pcapng_interface(name: str, linktype: int, snaplen: int, link_bps: int, fcs_len: int, /) -> bytes:
    """A block for an interface whose packets are stamped in nanoseconds."""

def pcapng_packet(ts_ns: int, length: int, direction: int, data: bytes, comments: list[str], /) -> bytes:
    """A block for a packet of the section's first interface. direction: 1 in, 2 out, 0 not known."""
