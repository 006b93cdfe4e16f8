"""Reports and investigations of a compacted store have the same facts as before, for all times that they can still
cover."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compactionlib import DAY, MS, PLACES, S, compacted, recorded, same, traffic
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import rows

import mburst
from mburst.errors import MburstError
from mburst.sql import StoreFolder
from mburst.units import NS_PER_DAY

MIDNIGHT = DAY + NS_PER_DAY
WHOLE = DAY + 2 * NS_PER_DAY  # from here on the store has every bin
RECENT = WHOLE + NS_PER_DAY // 2
THRESHOLDS = (0.25, 0.5, 0.9)
WIDTHS_NS = (MS // 2, MS, 7 * MS, 10 * MS, 25 * MS, 100 * MS)
# Begin of a period of a rack in seconds from DAY, and its length in seconds: near PLACES, hours and days.
PERIODS = (
    (0, 86_400),
    (0, 3 * 86_400),
    (43_200, 1),
    (43_201, 1),
    (43_200, 3600),
    (86_399, 1),
    (86_399, 2),
    (86_400, 1),
)
SEEDS = st.integers(0, 2**32)  # of a store and its questions: an example costs seconds, and shrinking it minutes


def random_case(chance: random.Random) -> dict[str, Any]:
    """Returns a case like those of compactionlib.stores. It has traffic across midnight, so that two days are
    compacted, and on the day that stays whole."""
    width = chance.choice(WIDTHS_NS)
    pieces = [
        [
            (MIDNIGHT, -50, 150, 0.3, chance.randrange(2**32)),
            (RECENT, 0, 60, 1.0, chance.randrange(2**32)),
            *(
                (chance.choice(PLACES), chance.randint(0, 1400), chance.randint(1, 150), full, chance.randrange(2**32))
                for full in (0.01, 0.3, 1.0)
            ),
        ]
        for _ in range(2)
    ]
    return {"bin_ns": width, "source_bin_ns": width * chance.choice([1, 2]), "recordings": pieces, "senders": 3}


def probes(seed: int) -> list[dict[str, Any]]:
    """Returns probes of a path to the first host at all times with traffic, some of them late."""
    times = [place + k * 7 * MS + 1000 for place in (*PLACES, RECENT) for k in range(200)]
    return [
        {
            "batch": "b",
            "seq": k,
            "src": "api",
            "dst": "host-r0",
            "protocol": "udp",
            "tx_ns": tx,
            "rx_ns": None if k % 50 == 49 else tx + 100_000 + (k * 7919 + seed) % 1000 * 50 + (k % 40 == 0) * 8 * MS,
            "lost": k % 50 == 49,
            "stamp_kind": "sw",
        }
        for k, tx in enumerate(times)
    ]


def make(folder: Path, case: dict[str, Any]) -> StoreFolder:
    """Makes a store of CASE, with probes."""
    store = StoreFolder.create(folder / "store")
    for index, pieces in enumerate(case["recordings"]):
        widths = {name: case[name] for name in ("bin_ns", "source_bin_ns")}
        recorded(store, f"r{index}", *traffic(case, pieces), **widths)
    with store.writer("probes", "api") as to:
        to.append(rows("probes", *probes(len(case["recordings"]))))
    return store


def facts(answer: Callable[[], Any]) -> Any:
    """Returns the facts of an answer as in JSON, or the error if there is no answer."""
    try:
        return json.loads(json.dumps(answer().to_dict()))
    except MburstError as error:
        return str(error)


def test_the_cases_have_traffic_on_each_day() -> None:
    """Otherwise the second day is not compacted, and reports begin there."""
    for seed in range(20):
        case = random_case(random.Random(seed))
        for pieces in case["recordings"]:
            days = {(row["ts_ns"] - DAY) // NS_PER_DAY for row in traffic(case, pieces)[0]}
            assert days == {0, 1, 2}, seed


@pytest.mark.costly
@settings(max_examples=3)
@given(seed=SEEDS)
def test_same_reports_of_racks(seed: int) -> None:
    """Of whole seconds: what compaction sums up of a second is not taken apart again. A lower threshold than what was
    kept for is refused (test_compaction_said.py)."""
    chance = random.Random(seed)
    questions = [(period, chance.choice(THRESHOLDS)) for period in chance.sample(PERIODS, 2)]
    with tempfile.TemporaryDirectory() as folder:
        opened = mburst.open(make(Path(folder), random_case(chance)).path)

        def asked(period: tuple[int, int], threshold: float) -> Any:
            since = DAY + period[0] * S
            until = since + period[1] * S
            return facts(lambda: opened.rack_report("r1", since=since, until=until, threshold=threshold))

        before = [asked(*question) for question in questions]
        compacted(StoreFolder(opened.path))
        for question, was in zip(questions, before, strict=True):
            assert same(was, asked(*question)), (seed, question)


@pytest.mark.costly
@settings(max_examples=3)
@given(seed=SEEDS)
def test_same_reports_and_investigations_where_every_bin_is(seed: int) -> None:
    """From WHOLE on they have the same facts; before it they are refused, and without a beginning they begin there and
    say so."""
    chance = random.Random(seed)
    threshold = chance.choice(THRESHOLDS)
    with tempfile.TemporaryDirectory() as folder:
        opened = mburst.open(make(Path(folder), random_case(chance)).path)
        questions = (opened.report, opened.investigate)
        before = [facts(lambda ask=ask: ask(since=WHOLE, threshold=threshold)) for ask in questions]
        compacted(StoreFolder(opened.path))
        for ask, was in zip(questions, before, strict=True):
            assert "needs every bin" in facts(lambda ask=ask: ask(since=DAY, threshold=threshold))
            with pytest.warns(mburst.CompactedWarning, match="leaves out the time before 2024-10-06"):
                assert same(was, facts(lambda ask=ask: ask(threshold=threshold))), seed
