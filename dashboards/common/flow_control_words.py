"""Pause frames and congestion notifications of a port direction in words."""

from __future__ import annotations

from ...analysis.model.flow_control import COUNTS_PAUSES, FlowControl, class_words
from ...units import format_count, format_duration

PAUSED = {"in": "The switch asked this host to stop sending", "out": "This host asked the switch to stop sending to it"}
NOTIFIED = {
    "in": "Receivers of this host's RDMA traffic found it marked (ECN) and asked this host to send slower",
    "out": "This host found RDMA traffic that it received marked (ECN) and asked its senders to send slower",
}


def head_words(found: FlowControl) -> str:
    """ "12 pause frames, 3 congestion notifications (CNP)": the number of each kind that occurs."""
    counts = (
        (found.pause_frames, "pause frame"),
        (found.resume_frames, "resume frame"),
        (found.cnp_packets, "congestion notification"),
    )
    return ", ".join(format_count(number, noun) for number, noun in counts if number) + (
        " (CNP)" if found.cnp_packets else ""
    )


UNKNOWN = (
    "Pause frames were not counted",
    f"Whether the link was asked to stop sending is not known: {COUNTS_PAUSES}.",
)


def about_words(found: FlowControl, direction: str) -> str:
    """Returns what one end of the link asked the other for, for a direction with such frames."""
    sentences = []
    if found.pause_frames:
        who = PAUSED.get(direction, "One end of the link asked the other to stop sending")
        if found.asked_ns is None:
            quanta = f"{found.pause_quanta or 0:,} quanta of 512 bit times"
            asked = f"asked for up to {quanta} (the link's speed is not known)"
        else:
            asked = f"asked for up to {format_duration(found.asked_ns)} in all"
        sentences.append(
            f"{who}: {class_words(found.pause_classes or ())}, {asked}. The link may have stopped for less: "
            "a pause frame replaces what is left of the one before, and a resume frame ends it."
        )
    if found.cnp_packets:
        sentences.append(NOTIFIED.get(direction, "Receivers of RDMA traffic asked its senders to send slower") + ".")
    if found.uncounted:
        sentences.append(
            f"Not all counted in {format_count(found.uncounted, 'recording')} (by an older mburst, or in the kernel): "
            "these are lower bounds."
        )
    return " ".join(sentences)
