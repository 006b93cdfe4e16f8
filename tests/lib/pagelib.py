"""Every page of a store in which all strings are the same name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import racklib
from fleettables import DAY, INVENTORY, Tables, arrow, tables
from storelib import write

from mburst.analysis.answers.host import gather
from mburst.analysis.answers.investigate import investigate
from mburst.analysis.answers.lanes import detect, lanes
from mburst.analysis.answers.paths import ProbeSelection, read_met
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.read import Question
from mburst.analysis.fleet.report import (
    FleetFigures,
    FleetPeriod,
    FleetRackFigures,
    LackingPart,
    gather_fleet,
    gather_rack,
)
from mburst.analysis.rack.period import Period
from mburst.dashboards.common import page
from mburst.dashboards.common.summaries import summaries
from mburst.dashboards.fleet import page as fleet_page
from mburst.dashboards.investigation.page import render as render_investigation
from mburst.dashboards.rack import page as rack_page
from mburst.dashboards.report import page as report_page
from mburst.names import file_part
from mburst.sql import StoreFolder, resulting
from mburst.sql.damage import DamagedFile
from mburst.sql.tables import arrow_schema

START = racklib.START
MS = 10**6
BIN = 100_000
SECONDS = 1
BURSTS = [at * 100 * MS for at in range(SECONDS * 10)]  # ns after START
ATTACK = "</title></style></script><img src=x onerror=a()>\"onload='a()'\x1b[2J\u202e&lt;{{x}}"  # fits a file's name
KEPT = {"direction": "in", "recording_id": "r", "ended": "finished", "writer_id": "0123456789ab"}


def names_of(table: str, name: str) -> dict[str, str]:
    """Returns a value for each text column, derived from the name of the column, so that rows keep their order."""
    columns = [field.name for field in arrow_schema(table) if field.type == pa.string()]
    texts = {column: name if column == "rack" else f"{column} {name}" for column in columns}
    return {**texts, **{column: kept for column, kept in KEPT.items() if column in texts}}


def filled(folder: Path, name: str) -> StoreFolder:
    """Returns a store of a host with a burst of four senders every 100 ms, two of which have names, probes to it that
    wait for them, and its switch queue."""
    store = StoreFolder.create(folder)
    fill_bursts(store, name)
    fill_context(store, name)
    return store


def fill_bursts(store: StoreFolder, name: str) -> None:
    """Adds a recording with bursts at BURSTS, and names of two of their senders."""
    names = {table: names_of(table, name) for table in ("recordings", "bins", "sources")}
    write(
        store,
        "recordings",
        {
            **names["recordings"],
            "start_ns": START,
            "end_ns": START + SECONDS * 1000 * MS,
            "bin_ns": BIN,
            "packets": 9,
            "written_ns": START + SECONDS * 1000 * MS,
        },
    )
    write(
        store,
        "bins",
        *(
            {**names["bins"], "ts_ns": START + at + i * BIN, "wire_bytes": 12_500, "bytes": 12_000}
            for at in BURSTS
            for i in range(100)
        ),
    )
    write(
        store,
        "sources",
        *(
            {
                **names["sources"],
                "source": f"{sender} {name}" if sender < 2 else f"10.0.0.{sender}",
                "ts_ns": START + at + ms * MS,
                "bytes": 30_000,
                "packets": 20,
                "first_ns": START + at + ms * MS,
                "last_ns": START + at + (ms + 1) * MS - 1,
            }
            for at in BURSTS
            for ms in range(10)
            for sender in range(4)
        ),
    )
    called = {column: f"{column} {name}" for column in ("name", "service", "located", "owner")}
    from_file = {"batch": "b", "origin": "o", "kind": "csv", "imported_ns": 1, "from_ns": None, "until_ns": None}
    write(store, "names", *({**from_file, **called, "prefix": f"10.0.0.{sender}"} for sender in (2, 3)))


def fill_context(store: StoreFolder, name: str) -> None:
    """Adds probes that wait for the bursts, and the switch queue in front of the host."""
    names = {table: names_of(table, name) for table in ("probes", "queues")}
    write(
        store,
        "probes",
        *(
            {
                **names["probes"],
                "dst": names_of("bins", name)["host"],
                "seq": i,
                "tx_ns": START + i * MS,
                "rx_ns": START + i * MS + (8 * MS if i % 100 < 3 else 30_000),
            }
            for i in range(SECONDS * 1000)
        ),
    )
    write(
        store,
        "queues",
        *(
            {**names["queues"], "window_start_ns": START + at, "ts_ns": START + at + 10 * MS, "max_bytes": 900_000}
            for at in BURSTS
        ),
    )


TEXTS = ("host", "source", "reason", "pattern", "device", "port", "queue")


def named(found: Tables, name: str) -> Tables:
    """Returns the results of a fleet with NAME in each string; the rack is exactly NAME."""
    for rows in found.values():
        for row in rows:
            texts = {key: f"{row[key]} {name}" for key in TEXTS if row.get(key)}
            row.update(texts, rack=name)
    return found


def fleet_figures(folder: Path, found: Tables, text: str) -> tuple[FleetFigures, list[FleetRackFigures]]:
    """Returns the reports of the results FOUND on the last of their days: of the fleet, and of each rack. TEXT is in
    the remarks on missing data."""
    files: dict[str, list[resulting.ResultFile]] = {}
    for table, rows in found.items():
        places = sorted({(row["date"], row["rack"]) for row in found["hours"]})
        for number, place in enumerate(places):
            path = folder / f"{table}-{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(arrow(table, [row for row in rows if (row["date"], row["rack"]) == place]), path)
            files.setdefault(table, []).append(resulting.ResultFile(path, *place))
    span, racks = (racklib.START, racklib.START + DAY), sorted({row["rack"] for row in found["hours"]})
    parts = [LackingPart(rack, text) for rack in racks]
    period = FleetPeriod(*span, BurstDefinition(), [text], parts, parts)
    with resulting.connect(files, span, INVENTORY.empty_table()) as con:
        fleet = gather_fleet(con, period, racks)
        return fleet, [gather_rack(con, period, sums) for sums in fleet.racks]


def pages(folder: Path, name: str) -> dict[str, str]:
    """Returns every page, with NAME in each string."""
    store = filled(folder / "store", name)
    con, definition = store.connect(), BurstDefinition()
    chosen = lanes(con)
    found = gather(con, chosen, detect(con, chosen, definition))
    damaged = [DamagedFile(name, "bins", name, name, name, START, START + MS)]
    rack = racklib.gather(store, found[0].lane.rack, Period(START, START + racklib.HOUR), definition)
    _, facts = rack_page.write(rack, folder / "racks")
    [(_, summary)] = summaries(facts.parent)
    fleet, [fleet_rack] = fleet_figures(folder / "results", named(tables(7, racks=1, hosts=2, bursts=30), name), name)
    return {
        "fleet": fleet_page.render_fleet(fleet, [name]),
        "rack of a fleet": fleet_page.render_rack(fleet_rack),
        "report": report_page.render(found, definition, read_met(con, ProbeSelection()), damaged),
        "rack": rack_page.render(rack),
        "index": rack_page.render_index([(f"rack-{file_part(name)}", {**summary, "warnings": [name]})], [name]),
        "investigation": render_investigation(investigate(con, Question(definition))),
        "live": page.render("live/page.html", title=name),
    }
