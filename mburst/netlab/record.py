"""The whole experiment on a rack, as the recorded and the simulated cache-server cases have it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from .rack import Rack
from .rounds import Round

_QUIET_SHARE = 0.2  # of the time, before the rounds: what the probes see without bursts
_ROUND_S = 0.25  # a round on average: its gap, of which it takes 33 ms


@dataclass(frozen=True)
class Recording:
    """The files of a recorded experiment, and its rounds."""

    link_bps: int
    capture: Path  # what the cache server received
    truth: Path
    probes: Path  # API to cache, while rounds run
    probes_quiet: Path  # the same before them
    probes_second_nic: Path  # API to the cache's second NIC, while rounds run
    queues_1ms: Path
    queues_1s: Path
    rounds: tuple[Round, ...]


def record_rack(folder: Path, seconds: float = 20, senders: int = 40, link: str = "1gbit") -> Recording:
    """Run the experiment for some `seconds`, and record it in `folder`, which is made where it is missing.

    Raises RackUnavailable where no rack can be built; then nothing is written.
    """
    if not 2 <= seconds <= 600:
        raise UsageError(f"the rack is recorded for 2 to 600 seconds, not {seconds:g}")
    quiet_s = seconds * _QUIET_SHARE
    with Rack(senders, link, second_nic=True, limit_s=4 * seconds + 60) as rack:
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: folder / f"{name.replace('_', '-')}.csv"
                 for name in ("truth", "probes", "probes_quiet", "probes_second_nic", "queues_1ms", "queues_1s")}
        capture = folder / "cache.pcap"
        with rack.watch_queue(paths["queues_1ms"], paths["queues_1s"]):
            with rack.probe(paths["probes_quiet"]):
                time.sleep(quiet_s)
            with (rack.record_pcap(capture), rack.probe(paths["probes"]),
                  rack.probe(paths["probes_second_nic"], "cache-nic2", seed=2)):
                rounds = rack.run_rounds(max(1, round((seconds - quiet_s) / _ROUND_S)), truth=paths["truth"])
        return Recording(link_bps=rack.plan.link_bps, capture=capture, rounds=tuple(rounds), **paths)
