"""The C engine: reads capture files or interfaces, and returns rows of bins and senders.

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
    """One direction of one interface, with its totals so far. `lane` in rows is the index into Capture.lanes. A capture
    from an interface on which nothing arrived has, at its end, the lanes that it was asked to count.

    The engine has a total for each counter of bins (MB_BIN_COUNTERS in measure/bins.h); this class lists those that
    Python uses. None: the backend does not count it, and the column of bins is NULL. Packets and bytes (link layer,
    without FCS) are those in closed bins; late packets are in no bin. start_ns and end_ns are valid once packets > 0.
    `interface` is the name in the capture, or empty; `index` separates interfaces without a name.
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
    foreign_packets: int
    """Unicast Ethernet frames that were neither from nor to this host."""
    ce_packets: int
    retransmits: int | None
    cnp_packets: int
    pause_frames: int | None
    quality: int
    clock_epochs: int
    busy: bool
    """Whether senders are kept only near busy bins."""

class Facts(TypedDict):
    """Facts about the capture as a whole, so far."""

    backend: str
    live: bool
    """Whether frames are read while they arrive (an interface, not a file)."""
    frames: int
    """Frames that the backends yielded, and the sum of their lengths as the backends report them."""
    bytes: int
    filtered: int
    dropped: int
    excluded_packets: int
    """Frames of a direction that was not requested."""
    excluded_bytes: int
    foreign_packets: int
    """Those of all lanes, and of directions that were not requested, of ethernet_packets."""
    ethernet_packets: int
    folded_bins: int
    """Source bins in which `other` may count a sender more than once."""
    flows_unseen: int
    """Packets whose flow could not be remembered: `flows` is then a lower bound."""
    restores: bool
    """Whether closing restores the settings of an interface, which needs CAP_NET_ADMIN."""
    misdated: int
    """Packets with stamps outside the years 1970 to 2100; the `late` of their lanes includes them."""
    mtu: int
    """The assumed size of the largest IP packet in one wire frame; 0 if merged frames were not detected."""
    snaplen: int
    """Captured bytes of each frame on the first interface; 0: all, or no interface yet."""
    inferred: str
    """The inferred values (from the first frames), or an empty text."""
    notice: str | None
    """Remarks of the backends that are not errors (a truncated end, odd stamps), one sentence a line."""
    kept: Kept | None
    """The packets that were kept (keep_folder)."""
    begun: tuple[int, int, int, int] | None
    """Counters of the interface just before the first frames came in: rx_packets, rx_bytes, tx_packets, tx_bytes. None
    if they are not known."""
    since_ns: int | None
    """The start of the yielded rows if an earlier process had the kernel count before this one (pins)."""

class Kept(TypedDict):
    """The ring of files in which a live capture keeps its last packets, so far."""

    packets: int
    """Written packets, and the bytes of their blocks."""
    bytes: int
    lost: int
    """Packets that were not kept."""
    trouble: str
    """The reason why nothing can be written now; empty if writing works."""

class BackendState(TypedDict):
    """A live backend, and the reason why it cannot run here; empty if it can. Costs are 0 if they were not measured."""

    name: str
    description: str
    reason: str
    packet_ns: int
    """Processor time for each packet."""
    memory_bytes: int
    """Kernel memory, with default widths of bins."""

class Device(TypedDict):
    """A network interface. Values that its driver does not report are 0, empty or False."""

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
    """Descriptors of a receive queue, and their largest possible number."""
    rx_ring_max: int
    rx_queues: int
    rx_usecs: int
    """How long the interface delays frames to announce several at once; the driver varies it if rx_adaptive."""
    rx_adaptive: bool
    offloads: list[tuple[str, bool]]
    """Active offloads that merge frames: the keyword of `ethtool -K`, and whether the offload merges received
    frames."""
    missed: int | None
    """Frames that the interface lost for lack of a buffer since it came up, before any capture could see them; None if
    the kernel did not report its counters."""
    rx_packets: int | None
    """Counters of the driver since the interface came up; None if the kernel did not report them."""
    rx_bytes: int | None
    tx_packets: int | None
    tx_bytes: int | None
    hardware_stamps: bool
    """The interface can stamp every frame that arrives; or, with ptp_stamps, only PTP frames."""
    ptp_stamps: bool
    phc_index: int
    """The clock of the interface is /dev/ptpN; -1: none."""

def backends(target: str | None, /) -> list[BackendState]:
    """The live backends, tried on `target`, or in general if it is None."""

def device(name: str, /) -> Device | None:
    """Returns a network interface of this namespace, or None if it does not exist."""

def clock_synchronized() -> bool:
    """Returns whether NTP or PTP disciplines the system clock (adjtimex)."""

def give_up(kept: int | None, ruleset: int | None, no_new: bool, /) -> int:
    """Restricts all threads of the process. They keep only the capabilities in the mask KEPT and pass none on (None:
    capabilities stay), gain none by starting programs (NO_NEW), and are restricted by the Landlock RULESET (a
    descriptor). Returns the number of threads that did not answer within two seconds and keep their rights. Raises
    OSError."""

def end_without_memory(failure: Any, /) -> None:
    """A sys.unraisablehook. After a MemoryError that nobody can catch, or if a thread could not start, it ends the
    process with exit code 1 and one line: the code that started the thread would wait forever
    (github.com/python/cpython/issues/140746). Anything else is reported as usual."""

@final
class Rows:
    """Rows that share the engine's memory. Supports the Arrow PyCapsule protocol; each stream is fresh."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Capture:
    """Open `targets` (files, "-", or one interface) as one capture.

    bin_ns, source_bin_ns: widths of the bins and of the bins of senders.
    window_ns: the reorder window; packets beyond it are counted as late.
    directions: "in", "out" or "both"; packets of a mirror port have no direction and are always counted.
    local: IP or MAC addresses of this host; if none are given, they are inferred if the backend reports no directions.
    max_sources: senders in a bin that get a row of their own; the smallest senders beyond are summed up as `other`.
    sources_above_ppb: keep senders only near bins with at least this utilization, in billionths of the link, and sum up
        the other senders as `other` (measure/busy.h); 0, or if the link speed is unknown: keep all.
    link_bps: speed of the link, 0 for the speed that the backend reports.
    inner: attribute packets to the innermost IP header of a tunnel.
    mtu: largest IP packet of a wire frame; 0: treat no frame as merged; -1: infer it (for an interface, the largest MTU
        that it has had).
    spread_bps: line rate at which merged frames are spread over time; 0: do not spread them.
    backend: name of a backend, None for the first that accepts the target.
    filter: pcap filter expression.

    For interfaces only:
    snaplen: captured bytes of each frame, 0 for 128.
    threads: rings that share the load, each drained by its own thread (afpacket).
    ring_bytes: kernel buffer of each ring, 0 for 64 MiB.
    stamps: "auto", "hw" (of the interface, or fail) or "sw" (of the kernel).
    promiscuous: also capture frames that are not for this host.
    cluster: id under which PF_RING shares the load among processes, 0 for none.
    beside: number of other interfaces that this process captures from; unless a backend is named, the memory of ebpf is
        bounded for all of them together.
    hook: where the kernel counts received frames (ebpf): behind the driver, in it, or in it if possible, else behind.
    pins: the kernel continues to count after this process ends (ebpf), for the next Capture of the interface with the
        same options; the rows of that one begin where the rows of this one ended.
    pin_group: the group that, like root, may remove the pinned program.
    keep_folder: a descriptor of a folder that only this capture uses, for a ring of pcapng files with the last captured
        packets (keep/packet_files.h); -1 for no ring.
    keep_bytes: most space for these files, at least 16 MB.
    keep_reserve_bytes: free bytes of the disk below which the ring first becomes smaller, and then is not written.

    Raises MburstError if a target cannot be read, ValueError if an option is out of range.
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
        """Returns the next rows of bins (lane, clock_epoch, ts_ns, and the counters of sql/schema/bins.sql) and of
        senders (lane, clock_epoch, ts_ns, source, bytes, packets, flows, members, first_ns, last_ns, source_port,
        destination_port, cnp_packets), each sorted by time within a lane; None at the end. For an interface it returns
        at least every 0.1 s, without rows if no bin was closed.

        Raises MburstError if the input is damaged, after all rows before the fault."""
    def losses(self) -> list[tuple[int, int, int, bool]]:
        """Returns the losses of a live backend that no earlier call returned: (first_ns, last_ns, packets, is_split),
        oldest first. Each lost packet is in exactly one of them. A loss is split if the clock was set in that time: it
        is then two losses, one in the time of each clock, and one of them has the packets of both, the other 0.
        Returns no losses before the first lane exists."""
    def stop(self, leaves: bool = False, /) -> None:
        """Ends the capture soon; read() then yields the remaining rows. Any thread may call it. With LEAVES, a pinned
        program (`pins`) continues to count, and the next Capture yields its counts from now on; otherwise it ends."""
    def close(self) -> None: ...

class CapturedInterface(TypedDict):
    """An interface of capture files; values that the files do not have are 0 or empty."""

    name: str
    linktype: int
    snaplen: int
    link_bps: int
    fcs_len: int

Frame = tuple[int, int, int, Literal["in", "out", "mirror"], str, int, bytes]
"""A frame of a file: the index of its interface, its stamp (Unix ns), its length, its direction and sender as in
Capture, its ports (source << 16 | destination; 0: none), and the captured bytes."""

@final
class CapturedFrames:
    """The frames of capture files with stamps in [since_ns, until_ns), merged by time. Takes the options of Capture for
    files. Raises MburstError if a target cannot be read or is not a file."""

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
        """The interfaces seen so far."""
    @property
    def notice(self) -> str | None:
        """Remarks of the files that are not errors, one sentence a line."""
    def read(self) -> list[Frame] | None:
        """Returns the next frames (possibly none), or None at the end. Raises MburstError if the input is damaged,
        after all frames before the fault."""
    def close(self) -> None: ...

def pcapng_section(application: str, comments: list[str], /) -> bytes:
    """Returns a block that begins a pcapng section, in the byte order of this machine. Texts have at most 65,535
    bytes."""

def pcapng_interface(name: str, linktype: int, snaplen: int, link_bps: int, fcs_len: int, /) -> bytes:
    """Returns a block for an interface whose packets have stamps in nanoseconds."""

def pcapng_packet(ts_ns: int, length: int, direction: int, data: bytes, comments: list[str], /) -> bytes:
    """Returns a block for a packet of the section's first interface. direction: 1 in, 2 out, 0 unknown."""
