"""Make the sample captures of this folder again: .venv/bin/python examples/cache-server/make.py [FOLDER]

This is a smaller variant of the case of `mburst demo --simulate`: 20 rounds, frames of up to 9,000 bytes, and only the
headers captured. The simulator gives the same bytes with the same release of numpy. Another release of a compressor may
compress them differently.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from mburst.lab.simulate import Scenario, simulate

HEADERS = 42  # bytes of Ethernet, IPv4 and UDP
CASE = Scenario(seed=1, rounds=20, mtu=9000, snaplen=HEADERS, probe_rate=500)
# The probes that went to the second interface of the server in the same time: no other traffic there.
SECOND_NIC = Scenario(seed=2, rounds=0, duration_ns=CASE.length_ns(), background=0, mtu=9000, probe_rate=500)


def make(folder: Path) -> None:
    """Write the files of the case into a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        made = simulate(CASE).write(Path(temporary) / "case")
        second = simulate(SECOND_NIC).write(Path(temporary) / "second")["probes"]
        codec = pa.Codec("zstd", compression_level=19)
        (folder / "cache.pcap.zst").write_bytes(codec.compress(made["cache"].read_bytes(), asbytes=True))
        pack(folder / "probes.csv.gz", made["probes"].read_bytes())
        pack(folder / "queues-1ms.csv.gz", made["queues-1ms"].read_bytes())
        pack(folder / "probes-second-nic.csv.gz", second.read_bytes().replace(b",cache,", b",cache-nic2,"))
        (folder / "truth.csv").write_bytes(made["truth"].read_bytes())


def pack(path: Path, content: bytes) -> None:
    """Write CONTENT, compressed by gzip, without a name or a time in the file."""
    path.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
