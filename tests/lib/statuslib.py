"""Stores for `mburst status`, and its answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from storelib import write

from mburst.__main__ import main
from mburst.sql import StoreFolder

SECOND, DAY = 10**9, 86_400 * 10**9
NOW = time.time_ns()
CLOCK = dict.fromkeys(("monotonic_raw_ns", "tai_offset_ns", "uncertainty_ns", "status", "max_error_ns"), 0)
Asked = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock: a test may begin long after this file was imported."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asked:
    """Returns the exit code, JSON and text of `mburst status`, after checking that they agree."""

    def run(*words: object) -> tuple[int, dict[str, Any], str]:
        codes = [main(["status", *map(str, words)])]
        text = capsys.readouterr().out
        codes.append(main(["status", "--json", *map(str, words)]))
        facts = json.loads(capsys.readouterr().out)
        assert codes == [1 if facts["unwell"] else 0] * 2 and facts["well"] == (codes[0] == 0)
        assert [line[8:] for line in text.splitlines() if line.startswith("unwell: ")] == facts["unwell"]
        assert text.endswith("\nwell\n") == facts["well"]
        return codes[0], facts, text

    return run


def recording(**more: Any) -> dict[str, Any]:
    """Returns a row of a recording of an interface that began an hour ago and runs."""
    begun = {"begun_ns": NOW - 3600 * SECOND, "start_ns": NOW - 3600 * SECOND, "written_ns": NOW - 3600 * SECOND}
    return {**begun, "boot_id": "", "complete": False, "ended": "", **more}


def store_of(folder: Path, *recordings: dict[str, Any], newest_ns: int = NOW) -> StoreFolder:
    """Returns a store whose interfaces all have a bin at NEWEST_NS."""
    store = StoreFolder.create(folder / "store")
    write(store, "recordings", *({"end_ns": newest_ns, **row} for row in recordings))
    bins = ({"recording_id": row.get("recording_id", "run-1"), "ts_ns": newest_ns} for row in recordings)
    write(store, "bins", *bins)
    return store


def metrics_of(store: StoreFolder, config: Path | None = None) -> dict[tuple[str, ...], float]:
    """Returns the metrics of a scrape, by name and values of labels."""
    pytest.importorskip("prometheus_client")
    from mburst.agent.metrics.exporter import Exporter
    from mburst.agent.metrics.meter import Meter
    from mburst.analysis.bursts.find import BurstDefinition

    with closing(Meter(store, BurstDefinition(), 0)) as meter:
        samples = [sample for metric in Exporter(meter, config).collect() for sample in metric.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def configuration(folder: Path, *tables: str) -> Path:
    path = folder / "mburst.toml"
    path.write_text("\n".join([f'store = "{folder / "store"}"', *tables]))
    return path
