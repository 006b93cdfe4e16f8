"""A store that grows like a recording, and the live view's server over it, started as users start it."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import reportlib
from bounded import next_line
from reportlib import BIN, FULL
from storelib import rows

from mburst.sql import StoreFolder

RUN = "live-run"
SECOND = 10**9


class Growing:
    """A recording of 1 Gb/s that continues from `begin_ns`, the start of a bin. `wire` has its bins by their start."""

    def __init__(
        self, folder: Path, begin_ns: int, host: str = "cache-1", rack: str = "r1", run: str = RUN, **names: str
    ) -> None:
        self.store = StoreFolder.create(folder)
        self.names = {"recording_id": run, "host": host, "rack": rack, "interface": "eth1", **names}
        self.at = begin_ns
        self.wire: dict[int, int] = {}
        self.writers = {
            table: self.store.writer(table, host=host, rack=rack)
            for table in ("recordings", "bins", "sources", "clock")
        }
        self.begin_ns = begin_ns
        self.running = count()
        self._write_run(begin_ns + BIN, complete=False)

    def _write_run(self, end_ns: int, complete: bool) -> None:
        self.writers["recordings"].append(
            rows(
                "recordings",
                {
                    **self.names,
                    "bin_ns": BIN,
                    "complete": complete,
                    "begun_ns": self.begin_ns,
                    "clock": "kernel, ns",
                    "quality": 2,
                    "packets": 1,
                    "start_ns": self.begin_ns,
                    "end_ns": end_ns,
                    "written_ns": time.time_ns(),
                },
            )
        )

    def append(self, wire: list[int], quality: int = 2, senders: tuple[str, ...] = (), epoch: int = 0) -> None:
        """The next bins, 0 for one without a packet; who sent in this time, equally much each."""
        bins, names = (
            {self.at + i * BIN: sent for i, sent in enumerate(wire) if sent},
            {**self.names, "clock_epoch": epoch},
        )
        if bins:
            self.writers["bins"].append(
                rows(
                    "bins",
                    *(
                        {**names, "ts_ns": at, "wire_bytes": sent, "bytes": sent - 24, "quality": quality}
                        for at, sent in bins.items()
                    ),
                )
            )
        if senders:
            first = self.at // 10**6 * 10**6
            self.writers["sources"].append(
                rows(
                    "sources",
                    *(
                        {
                            **self.names,
                            "ts_ns": first,
                            "source": name,
                            "bytes": sum(wire) // len(senders),
                            "packets": 9,
                            "first_ns": self.at,
                            "last_ns": self.at + len(wire) * BIN - 1,
                        }
                        for name in senders
                    ),
                )
            )
        self.wire |= bins
        self.at += len(wire) * BIN

    def tick(self) -> None:
        """The recorder says that it runs."""
        zeros = dict.fromkeys(("tai_offset_ns", "uncertainty_ns", "status", "max_error_ns"), 0)
        now = {"ts_ns": self.at, "monotonic_raw_ns": next(self.running)}
        self.writers["clock"].append(rows("clock", {**self.names, **now, "synchronized": True, **zeros}))

    def end(self) -> None:
        """Ends the recording, whose coverage ends with its last packet."""
        self._write_run(max(self.wire) + BIN, complete=True)

    def rest(self, bins: int) -> None:
        """Ends the recording, and begins another one some bins later."""
        self.end()
        self.begin_again(bins)

    def begin_again(self, bins: int) -> None:
        """Begins another recording some bins later, whether this one could end or was cut off."""
        self.at += bins * BIN
        self.begin_ns = self.at
        self.names["recording_id"] += "-again"
        self._write_run(self.at + BIN, complete=False)

    def burst(self, bins: int = 2, senders: tuple[str, ...] = ("10.1.0.1",)) -> int:
        """Appends quiet, a burst of full bins, and quiet again for longer than bursts are joined over. Returns when it
        began."""
        self.append([84] * 200)
        begin = self.at
        self.append([FULL] * bins, senders=senders)
        self.append([84] * 200)
        return begin

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class Server:
    """`mburst live` in its own process. It asks for no token unless ARGUMENTS set one."""

    def __init__(self, store: Path, *arguments: str, port: int = 0, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                "-m",
                "mburst",
                "live",
                str(store),
                "--listen",
                f"127.0.0.1:{port}",
                *(arguments or ["--open"]),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = next_line(self.process).strip().rsplit(": ", 1)[1]
        self.port = int(self.url.split("?")[0].strip("/").rsplit(":", 1)[1])

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=60)
        return self.process.returncode


def filled(folder: Path) -> StoreFolder:
    """The store of the report's tests, in which nothing is recorded any more."""
    store = StoreFolder.create(folder)
    reportlib.fill(store)
    return store
