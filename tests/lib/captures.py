"""Captures that tests read: the samples of the repository, and recorded captures if they are available.

Recorded captures are not part of the repository: MBURST_CAPTURES names their folder; the default is ../shared/captures.
Everything that is tested with them is also tested with the samples, so a run without them skips no test.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from places import ROOT

_RECORDED = Path(os.environ.get("MBURST_CAPTURES", ROOT.parent / "shared" / "captures"))
_COMPRESSED = ("", ".zst", ".gz")


@dataclass(frozen=True, kw_only=True)
class CacheServer:
    """A cache server's incast, captured on its interface (1 Gb/s), with its probes, queue windows and truth."""

    name: str
    folder: Path
    rounds: int
    packets: int  # in the capture
    definition: tuple[str, ...]  # options with which each round is one burst, and nothing else is a burst
    senders: str  # prefix of the addresses of the senders of the rounds
    others: int  # hosts that sent occasionally, and not only in the rounds

    def file(self, name: str) -> Path:
        """Returns the path of a file, which may be compressed."""
        return next(path for end in _COMPRESSED if (path := self.folder / (name + end)).exists())

    def truth(self) -> list[dict[str, str]]:
        """Returns a row for each round."""
        with self.file("truth.csv").open() as file:
            return list(csv.DictReader(file))


SAMPLE = CacheServer(
    name="sample",
    folder=ROOT / "examples" / "cache-server",
    rounds=20,
    packets=19_528,
    definition=("--bin", "1ms"),
    senders="198.19.0.",
    others=4,
)
RECORDED = CacheServer(
    name="recorded",
    folder=_RECORDED / "cache-server",
    rounds=78,
    packets=232_173,
    definition=(),
    senders="198.18.1.",
    others=0,
)
CASES = [SAMPLE] + [RECORDED] * RECORDED.folder.is_dir()


def recorded_wild() -> list[Path]:
    """Returns odd and hostile captures of other people, all or none."""
    paths = sorted((_RECORDED / "wild").glob("*"))
    assert not paths or len(paths) >= 830
    return paths
