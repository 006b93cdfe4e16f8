"""Bursts in SQL against a plain-Python reading of the same definition, and cases with a known answer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import write

from mburst.analysis.bursts import COLUMNS, BurstDefinition, find_bursts
from mburst.sql import Store

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s


# --- the oracle ----------------------------------------------------------------------------------------------------


def oracle(runs: list[dict[str, Any]], bins: list[dict[str, Any]], definition: BurstDefinition) -> list[dict[str, Any]]:
    """Walks bin after bin, empty ones too, as the definition is told."""
    found = []
    for run in runs:
        for epoch in sorted({row["epoch"] for row in bins if row["run"] == run["run"]}):
            stored = [row for row in bins if row["run"] == run["run"] and row["epoch"] == epoch]
            found += [{"run": run["run"], "epoch": epoch, **burst} for burst in walk(run, stored, definition)]
    return sorted(found, key=lambda burst: (burst["start_ns"], burst["run"], burst["epoch"]))


def walk(run: dict[str, Any], stored: list[dict[str, Any]], definition: BurstDefinition) -> list[dict[str, Any]]:
    width = definition.bin_ns or run["bin_ns"]
    link = definition.link_bps or run["link_bps"]
    threshold = Fraction(str(definition.threshold))
    release = threshold if definition.release is None else Fraction(str(definition.release))
    join = 5 * width if definition.join_ns is None else definition.join_ns
    least = width if definition.min_duration_ns is None else definition.min_duration_ns

    fill: dict[int, int] = {}
    for row in stored:
        start = math.floor(Fraction(row["ts_ns"], width)) * width
        fill[start] = fill.get(start, 0) + row["wire_bytes"]

    def share(start: int) -> Fraction:
        return Fraction(fill.get(start, 0) * 8 * 10**9, width * link)

    bursts: list[list[int]] = []  # [start, end]
    inside = False
    for start in range(min(fill), max(fill) + 2 * width, width):
        if inside and share(start) >= release:
            bursts[-1][1] = start + width
        elif share(start) >= threshold:
            inside = True
            if bursts and start - bursts[-1][1] <= join:
                bursts[-1][1] = start + width
            else:
                bursts.append([start, start + width])
        else:
            inside = False

    result = []
    for start, end in bursts:
        if end - start < least:
            continue
        within = [row for row in stored if start <= row["ts_ns"] < end]
        wire = sum(row["wire_bytes"] for row in within)
        quality = 0
        for row in within:
            quality |= row["quality"]
        result.append(
            {
                "start_ns": start,
                "end_ns": end,
                "bytes": sum(row["bytes"] for row in within),
                "packets": sum(row["packets"] for row in within),
                "quality": quality,
                "mean_utilization": wire * 8e9 / (end - start) / link,
                "peak_utilization": float(max(share(at) for at in range(start, end, width))),
            }
        )
    return result


RUN_BINS = st.lists(
    st.tuples(
        st.integers(0, 60), st.sampled_from([0, 1, 61, 62, 63, 99, 100, 124, 125, 150]), st.sampled_from([1, 2, 32])
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[0],
)

DEFINITIONS = st.builds(
    lambda factor, threshold, release, join, least: dict(
        factor=factor, threshold=threshold, release=release, join=join, least=least
    ),
    st.sampled_from([None, 1, 2, 3, 10]),
    st.sampled_from([0.1, 0.5, 0.496, 0.8, 1.0]),
    st.sampled_from([None, 0.1, 0.3, 0.5]),
    st.sampled_from([None, 0, 1, 2, 7, 40]),
    st.sampled_from([None, 0, 1, 3, 9]),
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(RUN_BINS, st.sampled_from([0, 0, 1])), min_size=1, max_size=4),
    DEFINITIONS,
    st.sampled_from([T0, T0 + 7 * MS, -25 * MS]),
)
def test_agrees_with_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, lanes: list[Any], chosen: dict[str, Any], t0: int
) -> None:
    runs, bins = [], []
    for index, (found, epoch) in enumerate(lanes):
        name = f"run-{index // 2}"
        if index % 2 == 0:
            runs.append({"run": name, "bin_ns": MS, "link_bps": 10**6, "direction": "in" if index else "out"})
            epoch = 0
        else:
            epoch = 1
        bins += [
            {
                "run": name,
                "epoch": epoch,
                "ts_ns": t0 + at * MS,
                "wire_bytes": fill,
                "bytes": fill // 2,
                "packets": fill,
                "quality": quality,
            }
            for at, fill, quality in found
        ]
    release = chosen["release"]
    definition = BurstDefinition(
        bin_ns=chosen["factor"] and chosen["factor"] * MS,
        threshold=chosen["threshold"],
        release=release if release is None or release <= chosen["threshold"] else None,
        join_ns=None if chosen["join"] is None else chosen["join"] * MS,
        min_duration_ns=None if chosen["least"] is None else chosen["least"] * MS,
    )
    store = Store.create(tmp_path_factory.mktemp("store"))
    write(store, "runs", *runs)
    write(store, "bins", *bins)
    connection = store.connect()
    found = find_bursts(connection, definition)
    wanted = oracle(runs, bins, definition)
    quality = connection.execute("SELECT bit, name FROM quality ORDER BY bit").fetchall()
    assert len(found) == len(wanted)
    for burst, want in zip(found, wanted, strict=True):
        assert tuple(burst) == COLUMNS
        want["quality"] = [name for bit, name in quality if bit & want["quality"]]
        for key, value in want.items():
            assert burst[key] == (pytest.approx(value) if isinstance(value, float) else value), key
        assert burst["duration_ns"] == burst["end_ns"] - burst["start_ns"]
        assert (burst["sources"], burst["pattern"]) == (0, "unknown")
