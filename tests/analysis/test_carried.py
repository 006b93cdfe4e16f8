"""Bursts that no link carries: every answer with bursts says that the speed of the link may be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from burstlib import FULL, MS, T0
from storelib import write

from mburst.__main__ import main
from mburst.analysis.model.carried import COALESCED, MERGED, impossible_bursts
from mburst.sql import StoreFolder

LINK = 10**9
SAYS = "bursts read up to 1,000 % of 1 Gb/s over their whole time"
Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Returns what a verb says about a store with bins of 1 ms at these shares of line rate, by their numbers."""

    def ask(verb: str, shares: dict[int, float], *words: str) -> str:
        store = StoreFolder.create(tmp_path / "store")
        write(store, "recordings", {"start_ns": T0, "end_ns": T0 + 100 * MS})
        bins = [
            {"ts_ns": T0 + at * MS, "wire_bytes": round(share * FULL), "bytes": round(share * FULL), "packets": 80}
            for at, share in shares.items()
        ]
        write(store, "bins", *bins)
        main([verb, str(store.path), *words])
        return "".join(capsys.readouterr())

    return ask


FASTER = {at: 10.0 for at in (10, 11, 12, 40, 41, 42)}


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)])
def test_bursts_that_no_link_carries_are_stated(said: Said, form: tuple[str, ...]) -> None:
    assert f"2 {SAYS}: no link carries that" in (text := said("bursts", FASTER, *form)) and "(--link)" in text


def test_an_investigation_notes_them(said: Said) -> None:
    notes = json.loads(said("investigate", FASTER, "--json"))["notes"]
    assert [note for note in notes if f"2 {SAYS}" in note and note.endswith("after this machine paused")]


def test_a_report_warns_of_them(said: Said, tmp_path: Path) -> None:
    said("report", FASTER, "-o", str(tmp_path / "pages"))
    assert f"2 {SAYS}" in "".join(page.read_text() for page in (tmp_path / "pages").glob("*.html"))


def test_the_right_speed_has_no_such_bursts(said: Said) -> None:
    assert "no link carries" not in said("bursts", FASTER, "--link", "10G")


@pytest.mark.parametrize("shares", [{10: 1.5, 11: 1.0}, {10: 1.0}, dict.fromkeys(range(10, 60), 1.0)])
def test_stamps_and_merged_frames_do_not_make_bursts_impossible(said: Said, shares: dict[int, float]) -> None:
    assert "no link carries" not in said("bursts", shares)


@pytest.mark.parametrize("speed", [10**8, 10**9, 10**10, 10**11])
@pytest.mark.parametrize("width_ns", [10_000, 100_000, MS])
def test_a_merged_frame_in_one_bin_is_possible_at_every_speed(speed: int, width_ns: int) -> None:
    """At line rate, behind a merged frame that came whole, with what an interface held."""
    whole = speed / 8e9 * (width_ns + COALESCED) + MERGED
    burst = {"duration_ns": width_ns, "link_bps": speed, "direction": "in"}
    burst["mean_utilization"] = whole * 8e9 / width_ns / speed
    assert impossible_bursts([burst]) is None


@pytest.mark.parametrize(("direction", "count"), [("in", 2), ("mirror", None)])
def test_a_mirror_carries_both_directions(direction: str, count: int | None) -> None:
    burst = {"duration_ns": 10 * MS, "link_bps": LINK, "direction": direction, "mean_utilization": 2.0}
    found = impossible_bursts([burst, burst])
    assert (found.bursts if found else None) == count


@pytest.mark.parametrize(("more", "is_stated"), [(-3, False), (3, True)])
def test_the_most_that_a_link_can_seem_to_carry(said: Said, more: int, is_stated: bool) -> None:
    """10 ms at 1 Gb/s: 110 % of 1,250,000 bytes, 65,536 of a merged frame, and 12,500 in 100 µs (docs/bursts.md)."""
    last = 1_453_036 - 9 * 145_000 + more
    shares = {**dict.fromkeys(range(10, 19), 145_000 / FULL), 19: last / FULL}
    assert ("no link carries that" in said("bursts", shares)) == is_stated
