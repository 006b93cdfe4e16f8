"""The whole experiment on a rack, as the recorded and the simulated cache-server cases have it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..python import command
from .errors import RackFailed
from .rack import Rack
from .role import python_environment
from .rounds import Round

_QUIET_SHARE = 0.2  # of the time, before the rounds: what the probes see without bursts
_ROUND_S = 0.25  # a round on average: its gap, of which it takes 33 ms
_BEGINS_WITHIN_S = 30

# Meanwhile, records what the cache server receives, and writes it to the path.
Recorder = Callable[[Rack, Path], AbstractContextManager[None]]


@dataclass(frozen=True)
class Recording:
    """The files of a recorded experiment, and its rounds."""

    link_bps: int
    capture: Path  # what the cache server received: a capture file, or what else the recorder wrote
    truth: Path
    probes: Path  # API to cache, while rounds run
    probes_quiet: Path  # the same before them
    probes_second_nic: Path  # API to the cache's second NIC, while rounds run
    queues_1ms: Path
    queues_1s: Path
    rounds: tuple[Round, ...]


def check_seconds(seconds: float) -> None:
    """Raise UsageError where an experiment cannot last so long."""
    if not 2 <= seconds <= 600:
        raise UsageError(f"the rack is recorded for 2 to 600 seconds, not {seconds:g}")


def record_rack(folder: Path, seconds: float = 20, senders: int = 40, link: str = "1gbit", *, seed: int = 1,
                capture: str = "cache.pcap", recorder: Recorder = Rack.record_pcap) -> Recording:
    """Run the experiment for some `seconds`, and record it in `folder`, which is made where it is missing.

    The recorder writes `capture` there. Raises RackUnavailable where no rack can be built; then nothing is written.
    """
    check_seconds(seconds)
    quiet_s = seconds * _QUIET_SHARE
    count = max(1, round((seconds - quiet_s) / _ROUND_S))
    with Rack(senders, link, second_nic=True, limit_s=4 * seconds + 60) as rack:
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: folder / f"{name.replace('_', '-')}.csv"
                 for name in ("truth", "probes", "probes_quiet", "probes_second_nic", "queues_1ms", "queues_1s")}
        with recorder(rack, folder / capture), rack.watch_queue(paths["queues_1ms"], paths["queues_1s"]):
            with rack.probe(paths["probes_quiet"]):
                time.sleep(quiet_s)
            with rack.probe(paths["probes"]), rack.probe(paths["probes_second_nic"], "cache-nic2", seed=2):
                rounds = rack.run_rounds(count, seed=seed, truth=paths["truth"])
        return Recording(link_bps=rack.plan.link_bps, capture=folder / capture, rounds=tuple(rounds), **paths)


@contextmanager
def record_live(rack: Rack, store: Path, words: list[str]) -> Iterator[None]:
    """Meanwhile, run `mburst WORDS`, which makes `store`, on the cache server. It prints where this process does.

    Raises RackFailed if it does not begin, or does not end well.
    """
    from ..sql import Store

    process = rack.exec_in(rack.capture_interface[0], command("mburst", *words),
                           env=python_environment(), start_new_session=True)
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while Store(store).is_empty("clock"):  # its first row is written when frames are being captured
        if process.poll() is not None or time.monotonic() > deadline:
            raise RackFailed("rack: mburst record did not begin")
        time.sleep(0.02)
    yield
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(_BEGINS_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise RackFailed("rack: mburst record did not end") from None
    if code:
        raise RackFailed(f"rack: mburst record ended with exit code {code}")
