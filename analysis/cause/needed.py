"""What would settle the doubts of a verdict (verdict.py), in words that follow "Needed: "."""

from __future__ import annotations

from .scene import Paused

LONGER = "a longer recording, with more bursts"
HIGHER = "a higher `--threshold`, if there is one below which the port is most of the time"
LONGER_MIXED = "a longer recording: the shares are uncertain or causes are mixed"
QUEUES = "the queue windows of this very port (`mburst collect`, `mburst import queues`)"
CLASS = "the priority class of the probes (DSCP or PCP), and the switch's pause counters by class"
CLOCKS = "synchronized clocks (PTP) of prober and recorded host: with another offset the delays would fit bursts"
RHYTHM = (
    "a longer recording, or probes with Poisson spacing (`mburst probe --spacing poisson`), in which bursts and "
    "latency do not keep one rhythm"
)
SPEED = "the true speed of the link (`--link`), and a capture in which no frame is there twice"
MORE_PROBES = "more probes (several of each burst), and stamps and bins finer than the delays"
QUIET = "probes of a quieter time, or the usual latency of the path (`--tail` sets the limit of a late probe)"
UNANSWERED = "probes with a longer `--timeout`, and the drop counters of the ports on the path (`mburst collect`)"
DROPS = "the drop counters of the ports on the path (`mburst collect`)"
MISSING = {
    "unstamped": "kernel stamps at both ends of the probes (`mburst reflect` at the far end): without them host and "
    "network, and the two directions, cannot be separated",
    "clocks": "probes with answers, or synchronized clocks (PTP) of both ends: one-way delays that grow no "
    "faster than clocks are slewed (0.1 %) may be the clocks",
    "coarse": "finer bins: the recorded ones are longer than the delays (`mburst record --bin 100us`)",
    "losing": "a recording without losses: packets, or samples of a switch, are missing while probes waited, so the "
    "bins are lower bounds",
    "left out": "an investigation of the time of the recordings that are left out (`--since`, `--until`): the notes "
    "name them",
    "unrecorded": "a recording of the port while the probes ran (`mburst record`)",
}


def reason_to_pause(paused: Paused) -> str:
    """Returns what would show why one end asks the other to stop."""
    if paused.asker == "host":
        return f"why {paused.port.host} sends pause frames (`ethtool -S`: receive buffers, PCIe)"
    if paused.asker == "elsewhere":
        return "why the switch sends pause frames: queues and pause counters of its other ports (`mburst collect`)"
    return "which end of the link sends the pause frames: a recording of both directions (`mburst record`)"
