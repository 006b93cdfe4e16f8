"""The results of spans of time, racks and hosts add up to those of one database over everything."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fleetlib import without_names
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_oracle import Hours, summed_contention, summed_hours, summed_sizes
from storelib import rows as rows_of
from storelib import sealed_files, write

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.partition.detect import BurstBeyond, DetectedPartition, PartitionTables, detect
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder
from mburst.sql.format.filenames import SealedName

S = 10**9
BIN = 10 * S  # a margin of 60 s is six bins, which the bursts of hypothesis often exceed
DAY = 86_400 * S
MIDNIGHT = 1_795_132_800 * S
FULL = 125_000_000 * 10  # wire bytes of 10 s at 1 Gb/s
HOSTS = (("r1", "a"), ("r1", "b"), ("r2", "a"))
PORTS = (
    ("r1", "tor1 E0"),
    ("r1", "tor1 E1"),
    ("r1", "tor1 E2"),
)  # before host a, before interface eth1 of b, of no host
LINKS = {"E0": ("a", ""), "E1": ("b", "eth1")}
SHARES = (0.0, 0.1, 0.4, 0.9)  # nothing, cold, warm, hot
AFTER = 2 * BIN

bins = st.lists(st.tuples(st.sampled_from(SHARES), st.integers(0, 2), st.integers(0, 2)), min_size=40, max_size=60)
recordings = st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(-40, -20), bins), min_size=1, max_size=2)
on_ports = st.lists(
    st.tuples(st.sampled_from(PORTS), st.sampled_from([-40, -25, 5]), bins),
    min_size=1,
    max_size=2,
    unique_by=lambda of: of[0],
)
definitions = st.sampled_from(
    [
        BurstDefinition(),
        BurstDefinition(threshold=0.5, release=0.3, join_ns=0),
        BurstDefinition(threshold=0.5, release=0.3, join_ns=2 * BIN, min_duration_ns=3 * BIN),
        BurstDefinition(bin_ns=2 * BIN, threshold=0.5, release=0.2, join_ns=2 * BIN),
    ]
)


def filled(folder: Path, given_: list[Any]) -> StoreFolder:
    """Stores a recording for each of GIVEN_: host or port, first bin counted from midnight, and bins."""
    store = StoreFolder.create(folder)
    add_links(store)
    for number, ((rack, host), first, shares) in enumerate(given_):
        host, _, port = host.partition(" ")
        names = {"recording_id": f"{rack}-{host}{port}-{number}", "host": host, "rack": rack}
        names |= {"interface": port, "direction": "out"} if port else {}
        rows = [
            {
                **names,
                "ts_ns": MIDNIGHT + (first + at) * BIN,
                "wire_bytes": int(share * FULL),
                "bytes": int(share * FULL) - 24,
                "retransmits": retransmits,
                "ce_packets": marks,
                "quality": 32 * (marks == 2),  # drops
            }
            for at, (share, retransmits, marks) in enumerate(shares)
            if share
        ]
        capture = {"capture_id": f"{rack}-{host}{port}-{number}", "writer_id": f"{number:012x}", "written_ns": MIDNIGHT}
        backend = {"backend": "otlp"} if port else {}
        write(store, "recordings", {**names, **capture, **backend, "bin_ns": BIN, "source_bin_ns": BIN})
        write(store, "bins", *rows)
        if not port:
            write(store, "sources", *(sender for row in rows for sender in senders_of(row)))
    return store


def add_links(store: StoreFolder) -> None:
    """Stores which hosts are behind the ports of tor1."""
    link = {"device": "tor1", "rack": "r1", "queue": "", "origin": "configuration", "present": True}
    with store.writer("links", rack="r1") as writer:
        writer.append(
            rows_of(
                "links",
                *({**link, "ts_ns": MIDNIGHT - DAY, "port": port, "host": host, "interface": interface}
                  for port, (host, interface) in LINKS.items()),
            )
        )  # fmt: skip


def senders_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns up to three senders of a bin. They sent in different parts of it, so their bytes before and in a burst
    differ."""
    at = row["ts_ns"] // BIN
    names = {name: row[name] for name in ("recording_id", "host", "rack", "ts_ns")}
    return [
        {
            **names,
            "source": f"10.0.0.{i}",
            "bytes": row["bytes"] // (i + 2),
            "first_ns": row["ts_ns"] + i * S,
            "last_ns": row["ts_ns"] + BIN - 1 - (at + i) % 3 * S,
        }
        for i in range(1 + at % 3)
    ]


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, frozen(of)) for name, of in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def plain(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(frozen(row) for row in rows)


def whole(store: StoreFolder, definition: BurstDefinition) -> tuple[Counter[Any], Counter[Any]]:
    """Returns bursts and senders of one database over everything. Losses are added up here, bin by bin."""
    with store.connect() as con:
        bursts = [without_names(burst) for burst in find_bursts(con, definition)]
        found = con.execute("SELECT recording_id, clock_epoch, ts_ns, retransmits, ce_packets FROM bins").fetchall()
        senders = con.execute(
            "SELECT rack, host, recording_id, clock_epoch, start_ns, place, source, members, "
            "CAST(round(burst_sources.bytes) AS BIGINT) AS bytes, share, onset_ns, counted AS in_fan_in, began "
            "FROM burst_sources JOIN bursts USING (burst) WHERE place <= 10 OR counted"
        )
        listed = [dict(zip([of[0] for of in senders.description], row, strict=True)) for row in senders.fetchall()]
    for burst in bursts:
        lane = (burst["recording_id"], burst["clock_epoch"])
        later = [of["start_ns"] for of in bursts if (of["recording_id"], of["clock_epoch"]) == lane]
        end = burst["end_ns"]
        until = min([end + AFTER, *(start for start in later if start > burst["start_ns"])])
        own = [row for row in found if row[:2] == lane]
        for name, column in (("retransmits", 3), ("ce_packets", 4)):
            burst[name] = sum(row[column] for row in own if burst["start_ns"] <= row[2] < end)
            burst[f"{name}_after"] = sum(row[column] for row in own if end <= row[2] < until)
    order = ("retransmits", "ce_packets", "retransmits_after", "ce_packets_after")
    bursts = [{**{k: v for k, v in of.items() if k not in order}, **{k: of[k] for k in order}} for of in bursts]
    return plain(bursts), plain(listed)


def files_of(store: StoreFolder, *, by_host: bool) -> list[dict[str, list[Path]]]:
    """Returns the files of each rack, or of each of its hosts with the links of the rack."""
    found: dict[tuple[str, str], dict[str, list[Path]]] = {}
    for table, paths in store.files().items():
        for path in paths:
            name = SealedName.parse(path.name)
            assert name is not None
            key = (path.parent.name, name.segment.host if by_host else "")
            found.setdefault(key, {}).setdefault(table, []).append(path)
    return [
        {**files, "links": found.get((rack, ""), {}).get("links", [])}
        for (rack, _), files in found.items()
        if "bins" in files
    ]


@pytest.mark.costly
@settings(max_examples=5, deadline=None)
@given(
    recordings,
    on_ports,
    definitions,
    st.lists(st.integers(-20, 10), min_size=2, max_size=2, unique=True),
    st.booleans(),
)
def test_partitions_together_have_the_bursts_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    given_: list[Any],
    ports: list[Any],
    definition: BurstDefinition,
    cuts: list[int],
    by_host: bool,
) -> None:
    """Cut at midnight, and at any other times. So are what hours of them add up to, counted one by one. What is of
    hosts and what is of switch ports is apart, but for contention, in which ports stand in for hosts."""
    folder = tmp_path_factory.mktemp("partition")
    store = filled(folder / "store", [(*of, [*some, (0.9, 1, 1)]) for *of, some in given_ + ports])
    edges = sorted({MIDNIGHT - DAY, MIDNIGHT, MIDNIGHT + DAY, *(MIDNIGHT + cut * BIN + 7 for cut in cuts)})
    found = [
        detect(files, definition, since_ns=since, until_ns=until, after_ns=AFTER)
        for files in files_of(store, by_host=by_host)
        for since, until in pairwise(edges)
    ]
    check_ports(found, store)
    parts = [together(part) for part in found]
    bursts, senders = whole(store, definition)
    assert sum((plain(part.bursts.to_pylist()) for part in parts), Counter()) == bursts
    assert sum((plain(part.senders.to_pylist()) for part in parts), Counter()) == senders
    wanted = Hours(store, definition, edges, AFTER)
    summed = summed_hours(part.hours for part in parts)
    assert {key: +amounts for key, amounts in summed.items()} == {key: +of for key, of in wanted.amounts.items()}
    for row in (row for part in parts for row in part.hours.to_pylist()):
        for of in ("bytes", "packets", "retransmits", "ce_packets"):
            assert row[f"burst_{of}"] + row.get(f"{of}_after", 0) <= row[of], of
        assert row["burst_ns"] <= row["recorded_ns"]
    assert summed_sizes(part.histograms for part in parts) == wanted.sizes
    hosts = {(of["rack"], of["host"]) for of in wanted.recorded}
    groups = [{host} for host in hosts] if by_host else [{of for of in hosts if of[0] == rack} for rack in ("r1", "r2")]
    contention = sum((wanted.contention(group) for group in groups), Counter())
    assert summed_contention(part.contention for part in parts) == contention
    covered = Counter()
    for row in (row for part in parts for row in part.coverage.to_pylist()):
        covered[row["recording_id"]] += row["end_ns"] - row["start_ns"]
    assert covered == {of["recording_id"]: of["end_ns"] - of["start_ns"] for of in wanted.recorded}
    shutil.rmtree(folder)


def check_ports(found: list[DetectedPartition], store: StoreFolder) -> None:
    """Each side has only rows of its own recordings, and rows of ports name the hosts behind them."""
    with store.connect() as con:
        of_ports = {
            of for (of,) in con.execute("SELECT recording_id FROM recordings WHERE backend = 'otlp'").fetchall()
        }
    for part in found:
        for table, rows in part.ports._asdict().items():
            for row in rows.to_pylist():
                attached = LINKS.get(row["interface"], (None, None))
                assert row["recording_id"] in of_ports and (row["attached_host"], row["attached_interface"]) == attached
            own = getattr(part.tables, table.removeprefix("port_"))
            assert not of_ports & {*own["recording_id"].to_pylist()}


def together(part: DetectedPartition) -> PartitionTables:
    """Returns the tables with the rows of hosts and of switch ports together."""
    rows = {
        table.removeprefix("port_"): of.drop_columns(["attached_host", "attached_interface"])
        for table, of in part.ports._asdict().items()
    }
    return part.tables._replace(
        **{table: pa.concat_tables([getattr(part.tables, table), of]) for table, of in rows.items()}
    )


@pytest.mark.parametrize("bins_each_side", [1, 6, 50, 5000])
def test_a_burst_across_midnight_counts_once_and_whole(tmp_path: Path, bins_each_side: int) -> None:
    """A burst of two minutes, and bursts that are longer than every margin except the last."""
    length = 2 * bins_each_side
    store = filled(tmp_path / "store", [(("r1", "a"), -bins_each_side, [(0.9, 1, 0)] * length)])
    before, after = (
        detect(store.files(), since_ns=since, until_ns=since + DAY).tables for since in (MIDNIGHT - DAY, MIDNIGHT)
    )
    [burst] = before.bursts.to_pylist()
    assert (burst["start_ns"], burst["duration_ns"]) == (MIDNIGHT - bins_each_side * BIN, length * BIN)
    assert burst["retransmits"] == length and len(before.senders) == 3
    assert not len(after.bursts) and not len(after.senders)
    with pytest.raises(BurstBeyond, match="a burst goes on for more than 10 s before or behind"):
        detect(store.files(), since_ns=MIDNIGHT - DAY, until_ns=MIDNIGHT, held_ns=min(bins_each_side, 1) * BIN)


def test_a_bin_that_begins_before_midnight_has_an_hour_if_its_recording_begins_after_it(tmp_path: Path) -> None:
    """Bins of 70 s do not divide the day: the bin that contains midnight begins 20 s before it."""
    store = filled(tmp_path / "store", [(("r1", "a"), 0, [(0.9, 1, 0)] * 12)])
    wide = BurstDefinition(bin_ns=7 * BIN, threshold=0.5)
    days = [detect(store.files(), wide, since_ns=since, until_ns=since + DAY) for since in (MIDNIGHT - DAY, MIDNIGHT)]
    first, second = (day.tables.hours.to_pylist() for day in days)
    assert [(row["hour_ns"], row["bursts"], row["bins"], row["recorded_ns"]) for row in first] == [
        (MIDNIGHT - 3600 * S, 1, 1, 0)
    ]
    assert sum(row["bursts"] for row in first + second) == sum(day.tables.bursts.num_rows for day in days) == 1
    assert sum(row["bytes"] for row in first + second) == sum(row["burst_bytes"] for row in first + second) > 0


def test_retransmissions_that_were_not_counted_are_null(tmp_path: Path) -> None:
    """They are not 0, since `--backend ebpf` does not count them. An hour without a packet has no NULL. CE marks are
    counted in each."""
    late = [(0.0, 0, 0)] * 800
    of = [((rack, host), 0, [(0.9, counted, 1)] * 3 + [(0.1, counted, 1)] + late + [(0.1, counted, 0)])
          for (rack, host), counted in ((HOSTS[0], None), (HOSTS[1], 0), (HOSTS[2], 2))]  # fmt: skip
    files = filled(tmp_path / "store", of).files()
    found = detect(files, since_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY, after_ns=AFTER).tables
    names = ("retransmits", "retransmits_after", "ce_packets", "ce_packets_after")
    assert {row["recording_id"]: [row[name] for name in names] for row in found.bursts.to_pylist()} == {
        "r1-a-0": [None, None, 3, 1], "r1-b-1": [0, 0, 3, 1], "r2-a-2": [6, 2, 3, 1],
    }  # fmt: skip
    names = ("retransmits", "burst_retransmits", "retransmits_after", "burst_ce_packets", "ce_packets_after")
    hours: dict[str, list[Any]] = {}
    for row in found.hours.to_pylist():
        hours.setdefault(row["recording_id"], []).append([row[name] for name in names])
    none = [0, 0, 0, 0, 0]
    assert hours == {
        "r1-a-0": [[None, None, None, 3, 1], none, [None, None, None, 0, 0]],
        "r1-b-1": [[0, 0, 0, 3, 1], none, none],
        "r2-a-2": [[8, 6, 2, 3, 1], none, [2, 0, 0, 0, 0]],
    }


def test_results_have_signed_types_and_reproducible_bytes(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", [(host, -9, [(0.9, 1, 1), (0.0, 0, 0)] * 9) for host in HOSTS])
    first, second = (detect(store.files(), since_ns=MIDNIGHT - DAY, until_ns=MIDNIGHT + DAY).tables for _ in range(2))
    assert first == second and len(first.bursts) and len(first.senders)
    for table in first:
        assert not any(pa.types.is_unsigned_integer(field.type) for field in table.schema)
    empty = detect(store.files(), since_ns=0, until_ns=1).tables
    assert [table.schema for table in empty] == [table.schema for table in first] and not len(empty.bursts)


@pytest.mark.parametrize("table", ["bins", "sources", "recordings"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, table: str) -> None:
    store = filled(tmp_path / "store", [(("r1", "a"), 0, [(0.9, 1, 1)])])
    [path] = sealed_files(store, table)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(MburstError, match="does not match its checksum") as caught:
        detect({**store.files(), table: [path]}, since_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY)
    assert str(path) in str(caught.value)


def test_bins_without_their_recording_and_empty_spans_are_refused(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", [(("r1", "a"), 0, [(0.9, 1, 1)])])
    with pytest.raises(MburstError, match="no row of `recordings` for the bins of recording r1-a-0 of host a"):
        detect({**store.files(), "recordings": []}, since_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY)
    with pytest.raises(UsageError, match="invalid span"):
        detect(store.files(), since_ns=MIDNIGHT, until_ns=MIDNIGHT)


@pytest.mark.parametrize(
    "own, recorded, is_counted",
    [
        ([(-60, 3)], 12, True),  # at another time of the day
        ([(-9, 9)], 9, False),
        ([(-6, 3)], 9, False),  # as long as the port's burst
        ([(-9, 5)], 9, True),  # the recording of the host ends within the burst
        ([(-5, 4)], 9, True),  # it begins within the burst
        ([(-9, 5), (-4, 4)], 9, True),  # neither recording has all of the burst
    ],
)
def test_a_switch_port_stands_in_for_its_host_while_that_is_not_recorded(
    tmp_path: Path, own: list[tuple[int, int]], recorded: int, is_counted: bool
) -> None:
    """The host receives little: a burst of its port counts unless one recording of the host covers all of it."""
    of_port = [(0.1, 0, 0)] * 3 + [(0.9, 0, 0)] * 3 + [(0.1, 0, 0)] * 3
    of_host = [(HOSTS[0], first, [(0.1, 0, 0)] * number) for first, number in own]
    store = filled(tmp_path / "store", [*of_host, (PORTS[0], -9, of_port), (PORTS[0], 9, of_port)])
    of_days = {MIDNIGHT - DAY: {0: recorded - 3, 1: 3} if is_counted else {0: recorded}, MIDNIGHT: {0: 6, 1: 3}}
    for day, wanted in of_days.items():
        found = detect(store.files(), since_ns=day, until_ns=day + DAY)
        rows = found.tables.contention.to_pylist()
        assert {row["bursting"]: row["ns"] for row in rows} == {at: bins * BIN for at, bins in wanted.items()}
        assert {row["hosts"] for row in rows} == {1}
        assert (len(found.tables.bursts), len(found.ports.port_bursts), found.switch_ports) == (0, 1, 1)


def test_ports_that_cannot_be_examined_are_left_out_and_counted(tmp_path: Path) -> None:
    """Ports have an unknown line rate, or bins that do not make up those of the definition. The hosts of the rack do
    not fail because of them; a host with such a recording does."""
    store = filled(tmp_path / "store", [(("r1", "a"), -9, [(0.9, 1, 1)] * 9), (PORTS[2], -9, [(0.9, 0, 0)] * 9)])
    port = {"recording_id": "port", "host": "tor1", "interface": "E9", "rack": "r1", "direction": "out"}
    row = {"start_ns": MIDNIGHT - 9 * BIN, "end_ns": MIDNIGHT - 1, "bin_ns": BIN, "backend": "otlp", "link_bps": None}
    write(store, "recordings", {**port, **row})
    write(store, "bins", {**port, "ts_ns": MIDNIGHT - 9 * BIN, "wire_bytes": FULL, "bytes": FULL})
    found = detect(store.files(), since_ns=MIDNIGHT - DAY, until_ns=MIDNIGHT)
    assert (found.switch_ports, found.unfit_ports) == (1, 1)
    assert {of["interface"] for of in found.ports.port_coverage.to_pylist()} == {"E2"} and len(found.tables.bursts) == 1
    later = detect(store.files(), since_ns=MIDNIGHT, until_ns=MIDNIGHT + DAY)
    assert (later.switch_ports, later.unfit_ports, len(later.ports.port_hours)) == (0, 0, 0)
    write(store, "recordings", {**port, **row, "recording_id": "wide", "bin_ns": 4 * BIN, "link_bps": 10**9})
    definition = BurstDefinition(bin_ns=2 * BIN)
    found = detect(store.files(), definition, since_ns=MIDNIGHT - DAY, until_ns=MIDNIGHT)
    assert (found.switch_ports, found.unfit_ports) == (1, 2)
    write(
        store,
        "recordings",
        {**port, **row, "recording_id": "own", "host": "a", "interface": "eth9", "backend": "afpacket"},
    )
    with pytest.raises(MburstError, match=r"recording own \(a eth9 out\): the link speed is not known"):
        detect(store.files(), definition, since_ns=MIDNIGHT - DAY, until_ns=MIDNIGHT)
