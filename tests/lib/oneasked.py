"""The answers of each verb about a store, queried once: the output and files of commands, the data of the live view and
metrics."""

from __future__ import annotations

import contextlib
import io
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from onestore import END, MINUTE, MS, START

import mburst
from mburst.__main__ import main
from mburst.agent.metrics.counts import LaneName
from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.snapshot import History, LaneSnapshot, read_moment
from mburst.analysis.live.store import LiveStore
from mburst.sql import StoreFolder

WHOLE = {"since": "2026-11-20", "until": "2026-11-21"}
Lane = tuple[str, str, str]


def printed(*command: object) -> str:
    """Returns the output of a command."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        assert main([str(word) for word in command]) == 0
    return out.getvalue()


class Asked:
    """The answers of each verb about a store. Each is queried once."""

    def __init__(self, store: StoreFolder, folder: Path) -> None:
        self.store, self.path, self.folder = store, store.path, folder
        self.definition = BurstDefinition()

    @cached_property
    def report(self) -> dict[str, Any]:
        printed("report", self.path, "-o", self.folder / "host")
        [facts] = (self.folder / "host").glob("*.json")
        return dict(json.loads(facts.read_text()))

    @cached_property
    def racks(self) -> dict[str, dict[str, Any]]:
        printed(
            "report",
            self.path,
            "--all-racks",
            "-o",
            self.folder / "rack",
            *(word for name, value in WHOLE.items() for word in (f"--{name}", value)),
        )
        pages = [json.loads(path.read_text()) for path in (self.folder / "rack").glob("rack-*.json")]
        return {one["rack"]: one for one in pages}

    @cached_property
    def bursts(self) -> list[dict[str, Any]]:
        return list(json.loads(printed("bursts", self.path, "--json")))

    @cached_property
    def investigation(self) -> dict[str, Any]:
        return dict(json.loads(printed("investigate", self.path, "--json")))

    @cached_property
    def api(self) -> mburst.Store:
        return mburst.open(self.path)

    def sql(self, query: str) -> list[dict[str, Any]]:
        return list(json.loads(printed("sql", self.path, query, "--json")))

    @cached_property
    def live(self) -> LiveStore:
        live = LiveStore(self.store)
        live.poll()
        LiveBursts(live, self.definition).look()
        return live

    @cached_property
    def moments(self) -> dict[Lane, LaneSnapshot]:
        history = History(self.live, self.definition)
        return {
            (lane.named("rack"), lane.named("host"), lane.named("interface")): read_moment(
                history, lane, START, END, MS
            )
            for lane in self.live.lanes.values()
        }

    @cached_property
    def meter(self) -> Meter:
        meter = Meter(self.store, self.definition, START - MINUTE)
        meter.advance("test")
        return meter

    def metered(self, lane: Lane) -> Any:
        return self.meter.lanes[LaneName(*lane, "in")]
