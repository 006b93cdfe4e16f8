"""The whole experiment on a rack, as the recorded and the simulated case of the cache server have it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from .machine import StolenTime
from .rack import PortCounters, Rack
from .rounds import Round, wire_bytes
from .verbs import RATE, ExperimentObserver, measured, require

_QUIET_SHARE = 0.2  # share of the time before the rounds, in which the probes see no bursts
_COUNTERS_S = 1.0  # ten times the interval in which the switch reports its counters (verbs.py)
_ROUND_S = 0.25  # average time from one round to the next, of which the round takes 33 ms


@dataclass(frozen=True)
class RecordedExperiment:
    """The files of a recorded experiment, its rounds, and the kernel's counters of the port to the cache server."""

    link_bps: int
    store: Path  # measurements of mburst: probes, the switch's queue, and frames if they were recorded live
    capture: Path  # what the cache server received, captured by tcpdump unless it was recorded live
    truth: Path
    rounds: tuple[Round, ...]
    quiet_from_ns: int  # Unix; from here until the first round there are only probes
    port: PortCounters
    sent_bytes: int  # payload, counted by the senders
    stolen: float  # share of the processors' time that a hypervisor took during the experiment

    @property
    def round_ns(self) -> int:
        """The time that the bytes of a round take at line rate."""
        whole = self.rounds[0]
        return round(wire_bytes(whole.bytes_expected, whole.dgrams_expected) * 8e9 / self.link_bps)


def check_seconds(seconds: float) -> None:
    """Raise UsageError if an experiment cannot last this long."""
    if not 2 <= seconds <= 600:
        raise UsageError(f"the rack is recorded for 2 to 600 seconds, not {seconds:g}")


def record_rack(
    folder: Path,
    seconds: float = 20,
    senders: int = 40,
    link: str = "1gbit",
    *,
    seed: int = 1,
    rate: int = RATE,
    record: list[str] | None = None,
    onlooker: ExperimentObserver | None = None,
) -> RecordedExperiment:
    """Run the experiment for some `seconds`, and record it in `folder`, which is created if it does not exist.

    RECORD has options of `mburst record`, which then records live; with None, tcpdump writes a capture. The onlooker is
    informed of each verb. Raises RackUnavailable if no rack can be built; then nothing is written.
    """
    check_seconds(seconds)
    require()
    quiet_s = seconds * _QUIET_SHARE
    count = max(1, round((seconds - quiet_s) / _ROUND_S))
    store, capture, truth = folder / "store", folder / "cache.pcap", folder / "truth.csv"
    with Rack(senders, link, second_nic=True, limit_s=4 * seconds + 120) as rack:
        folder.mkdir(parents=True, exist_ok=True)
        (onlooker or ExperimentObserver()).built(rack)
        with (
            rack.record_pcap(capture) if record is None else nullcontext(),
            measured(rack, store, record, rate=rate, seed=seed, onlooker=onlooker),
        ):
            quiet_from_ns, stolen = time.time_ns(), StolenTime()
            time.sleep(quiet_s)
            rounds = rack.run_rounds(count, seed=seed, truth=truth)
            share, port = stolen.share(), rack.queue_counters()
            time.sleep(_COUNTERS_S)
    sent_bytes = sum(payload for _, payload in rack.sent.values())
    return RecordedExperiment(
        rack.plan.link_bps, store, capture, truth, tuple(rounds), quiet_from_ns, port, sent_bytes, share
    )
