"""CSV import: rows compared with a plain reading of the same text, and refusals."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from captures import CASES, CacheServer
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

from mburst.errors import MburstError
from mburst.telemetry import csv_import, tables
from mburst.telemetry.csv_import import KINDS, CsvFile, CsvSummary, CsvText, open_text

NOW = 1_795_228_464_011_544_286


def content(data: bytes) -> CsvText:
    """Returns the content of a file with these bytes, in memory."""
    file = os.fdopen(os.memfd_create("some.csv"), "w+b")
    file.write(data)
    file.flush()
    return CsvText(file)


def load(data: bytes, kind: str = "probes", **how: Any) -> tuple[CsvSummary, list[dict[str, Any]]]:
    """Returns the summary and the rows of a file's bytes."""
    source = CsvFile(content(data), kind, "some.csv")
    summary = source.scan()
    batches = list(source.read(summary, **how))
    assert all(batch.schema == csv_import.KINDS[kind].schema for batch in batches)
    return summary, [row for batch in batches for row in batch.to_pylist()]


def refusal(data: bytes, kind: str = "probes") -> str:
    """Returns the error of a refused file: the message and its hint, on one line."""
    with pytest.raises(MburstError) as caught:
        load(data, kind)
    message = f"{caught.value} ({caught.value.hint})"
    assert "\n" not in message
    return message


@pytest.mark.parametrize("table", ["probes", "queues"])
def test_the_columns_equal_those_of_the_store(table: str) -> None:
    connection = duckdb.connect()
    connection.execute((ROOT / "sql" / "schema" / f"{table}.sql").read_text())
    stored = connection.sql(f"FROM {table}").to_arrow_table().schema
    assert csv_import.KINDS[table].schema == stored
    needed = {row[0] for row in connection.sql(f"DESCRIBE {table}").fetchall() if row[2] == "NO"}
    row = {"src": "a", "dst": "b", "tx_ns": NOW, "device": "d", "port": "p", "queue": "q", "window_start_ns": NOW}
    row |= {"ts_ns": NOW, "semantics": "gauge", "rtt_ns": 1}
    header = csv_import.KINDS[table].required + csv_import.KINDS[table].outcome[:1]
    text = ",".join(header) + "\n" + ",".join(str(row[name]) for name in header) + "\n"
    _, [least] = load(text.encode(), table)
    assert {name for name, value in least.items() if value is not None} >= needed


def test_the_schema_lists_the_accepted_words() -> None:
    sql = (ROOT / "sql" / "schema" / "queues.sql").read_text()
    assert ", ".join(tables.SEMANTICS) in sql


stamp = st.one_of(st.none(), st.integers(NOW - 10**12, NOW + 10**12))
probe_rows = st.fixed_dictionaries(
    {
        "seq": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "src": st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=5),
        "dst": st.just("cache"),
        "protocol": st.sampled_from(["", "tcp"]),
        "app_send_ns": stamp,
        "tx_ns": st.integers(NOW - 10**12, NOW + 10**12),
        "remote_rx_ns": stamp,
        "remote_tx_ns": stamp,
        "rx_ns": stamp,
        "app_recv_ns": stamp,
        "rtt_ns": st.one_of(st.none(), st.integers(0, 10**10)),
        "lost": st.sampled_from([None, True, False]),
        "stamp_kind": st.sampled_from(["", "hw", "sw", "app"]),
        "clock_error_ns": st.one_of(st.none(), st.integers(0, 10**9)),
    }
)


def as_csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = [row[name] for name in columns]
        writer.writerow(["" if v is None else int(v) if isinstance(v, bool) else v for v in values])
    return text.getvalue().encode()


@settings(deadline=None, max_examples=80)
@given(st.lists(probe_rows, max_size=12), st.sets(st.sampled_from([*tables.PROBES.names[1:]])))
def test_rows_are_those_of_the_text(rows: list[dict[str, Any]], some: set[str]) -> None:
    columns = [name for name in tables.PROBES.names[1:] if name in some | {"src", "dst", "tx_ns", "lost"}]
    if not some & {"remote_rx_ns", "rx_ns", "app_recv_ns", "rtt_ns"}:  # then each row must state whether it was lost
        rows = [{**row, "lost": bool(row["lost"])} for row in rows]
    given_rows = [{name: row[name] if name in columns else None for name in row} for row in rows]
    back = [any(row[name] is not None for name in ("rx_ns", "app_recv_ns", "rtt_ns")) for row in given_rows]
    expected = []
    for number, (row, answered) in enumerate(zip(given_rows, back, strict=True)):
        heard = answered if any(back) else row["remote_rx_ns"] is not None
        filled = {"seq": number, "protocol": "udp", "stamp_kind": "", "lost": not heard}
        expected.append({name: filled.get(name) if value in (None, "") else value for name, value in row.items()})

    summary, loaded = load(as_csv(rows, columns), protocol="udp")
    assert [{k: v for k, v in row.items() if k != "batch"} for row in loaded] == expected
    assert {row["batch"] for row in loaded} <= {summary.batch}
    assert (summary.rows, summary.lost) == (len(rows), sum(row["lost"] for row in expected))
    sent = [row["tx_ns"] for row in rows]
    assert (summary.start_ns, summary.end_ns) == (min(sent, default=None), max(sent, default=None))
    pairs = (("tx_ns", "rx_ns"), ("app_send_ns", "app_recv_ns"))
    turned = [any(None not in (r[a], r[b]) and r[b] < r[a] for a, b in pairs) for r in given_rows]
    assert summary.backwards == sum(turned)
    assert summary.owners == {row["src"] for row in rows}


def test_many_blocks_make_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_import, "BLOCK_BYTES", 512)
    data = b"src,dst,tx_ns,rtt_ns\n" + b"".join(b"a,b,%d,%d\n" % (NOW + n, n) for n in range(1000))
    source = CsvFile(content(data), "probes", "some.csv")
    summary = source.scan()
    assert len(list(source.read(summary))) > 10
    rows = pa.Table.from_batches(source.read(summary), tables.PROBES)
    assert rows["seq"].to_pylist() == rows["rtt_ns"].to_pylist() == list(range(1000))
    bad = data + b"a,b,%d,-1\n" % NOW
    assert "line 1002: rtt_ns -1 is negative" in refusal(bad)
    assert "line 1002: tx_ns must be a whole number" in refusal(data + b"a,b,soon,1\n")


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_refusal_is_a_valid_file(kind):
    lines = re.findall(r"`([^`]+)`", KINDS[kind].example)
    _, rows = load("\n".join(lines).encode(), kind)
    assert len(lines) == 2 and len(rows) == 1


LEAST = b"src,dst,tx_ns\n"  # a result is lacking: errors of rows come first
FULL = b"src,dst,tx_ns,rtt_ns\n"
QUEUE = b"device,port,queue,window_start_ns,ts_ns,max_bytes,dropped_packets,semantics\n"


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("probes", b"", "some.csv is empty"),
        ("probes", b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(99), "is not a text file (use `mburst record`"),
        ("probes", b"\xff" * 10**6, "is not a text file"),
        ("probes", b"x" * 10**6, "unknown column 'xxx"),
        ("probes", b"\n", "has no column src (the first line names the columns: seq, src, dst, protocol,"),
        ("probes", b"seq,src,dst\n0,a,b\n", "has no column tx_ns"),
        ("probes", b"src;dst;tx_ns\n", "has ';' between its columns in place of a comma (the first line names"),
        ("probes", b"src\tdst\ttx_ns\n", r"has '\t' between its columns in place of a comma"),
        ("probes", b"time,latency_ms\n", "the smallest file: `src,dst,tx_ns,rtt_ns`, then `app-1,db-7,1764"),
        ("probes", b"src,dst,tx_ns,colour\n", "unknown column 'colour'"),
        ("probes", b"src,dst,tx_ns,batch\n", "unknown column 'batch'"),
        ("probes", b"src,dst,tx_ns,src\n", "has column src twice (the first line names the columns: seq, src"),
        ("probes", "src,dst,tx_ns\n".encode("utf-16"), "is UTF-16 (save it as CSV in UTF-8)"),
        ("probes", LEAST + b"a,b,%d\na,b,soon\n" % NOW, "line 3: tx_ns must be a whole number: 'soon'"),
        ("probes", LEAST + b"a,b,1.5e9\n", "line 2: tx_ns must be a whole number: '1.5e9' (write all of its digits: "),
        ("probes", LEAST + b"a,b,%d0\n" % NOW, "line 2: tx_ns must be a whole number"),
        ("probes", LEAST + b"\n\na,b,%d\n\n\na,b,x\n" % NOW, "line 7: tx_ns must be"),
        ("probes", LEAST + b"a,b,%d\na,b,\n" % NOW, "line 3: tx_ns is empty"),
        ("probes", LEAST + b",b,%d\n" % NOW, "line 2: src is empty"),
        ("probes", LEAST + b"a,b\n", "line 2 has 2 fields, the first line has 3"),
        ("probes", LEAST + b"a,b,%d,9\n" % NOW, "line 2 has 4 fields, the first line has 3"),
        ("probes", LEAST + b"a,b,1795228464\n", "1795228464 is not a Unix time in nanoseconds (it looks like seconds)"),
        ("probes", LEAST + b"a,b,1795228464011\n", "looks like milliseconds"),
        ("probes", LEAST + b"a,b,1795228464011544\n", "looks like microseconds"),
        ("probes", LEAST + b"a,b,-1795228464011544286\n", "line 2: tx_ns -1795228464011544286 is not a Unix time"),
        ("probes", b"src,dst,tx_ns,rx_ns\na,b,%d,0\n" % NOW, "rx_ns 0 is not a Unix time in nanoseconds (leave"),
        ("probes", b"src,dst,tx_ns,rtt_ns\na,b,%d,-5\n" % NOW, "line 2: rtt_ns -5 is negative"),
        ("probes", b"src,dst,tx_ns,lost\na,b,%d,maybe\n" % NOW, "line 2: lost must be 0 or 1"),
        ("probes", b"src,dst,tx_ns,stamp_kind\na,b,%d,soft\n" % NOW, "stamp_kind soft is not one of hw, sw, app"),
        ("probes", LEAST + b"\xff,b,%d\n" % NOW, "line 2: src must be text in UTF-8"),
        ("probes", LEAST + b'a,"b,%d\n' % NOW + b"x" * 10**6, "some.csv"),
        ("queues", b"src,dst,when\n", "unknown column 'src' (the first line names the columns: device, port"),
        ("queues", b"src,dst,tx_ns\n", "column 'src' (these are the columns of probes: `mburst import probes`)"),
        ("probes", QUEUE, "unknown column 'device' (these are the columns of queues: `mburst import queues`)"),
        ("queues", QUEUE + b"tor,p,0,%d,%d,1,0,watermark\n" % (NOW, NOW), "watermark is not one of gauge, max-since-l"),
        ("queues", QUEUE + b"tor,p,0,%d,%d,1,0,\n" % (NOW, NOW), "line 2: semantics is empty"),
        ("queues", QUEUE + b"tor,p,0,%d,%d,-1,0,gauge\n" % (NOW, NOW), "max_bytes -1 is negative"),
        ("queues", QUEUE + b"tor,p,0,%d,%d,1,0,gauge\n" % (NOW, NOW - 1), "is before window_start_ns"),
        ("queues", QUEUE + b"tor,p,0,1795228464,%d,1,0,gauge\n" % NOW, "window_start_ns 1795228464 is not a Unix time"),
        ("queues", QUEUE[:-1] + b",quality\ntor,p,0,%d,%d,1,0,gauge,-1\n" % (NOW, NOW), "quality must be a whole"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line(kind: str, data: bytes, message: str) -> None:
    assert message in refusal(data, kind)


def test_line_ends_byte_order_marks_and_blank_lines_do_not_matter() -> None:
    _, rows = load(FULL + b"a,b,%d,\nc,d,%d,\n" % (NOW, NOW))
    for text in (
        b"\xef\xbb\xbfsrc, dst ,tx_ns,rtt_ns\r\na,b,%d,\r\n\r\nc,d,%d,",
        b'"src","dst",tx_ns,rtt_ns\n"a",b,%d,\n\nc,d,"%d",\n\n',
    ):
        assert [{**row, "batch": ""} for row in load(text % (NOW, NOW))[1]] == [{**row, "batch": ""} for row in rows]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=repr)
def test_no_row_is_lost_whatever_ends_the_lines(end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """CR alone too: in a file of any size, and without an end of its last line."""
    monkeypatch.setattr(csv_import, "BLOCK_BYTES", 4096)
    for count in (1, 2, 5000):
        lines = [b"src,dst,tx_ns,lost", *(b"a,b,%d,0" % (NOW + n) for n in range(count))]
        for last in (b"", end):
            summary, rows = load(end.join(lines) + last)
            assert summary.rows == count
            assert [row["tx_ns"] for row in rows] == list(range(NOW, NOW + count))


def test_a_header_alone_is_a_file_without_rows() -> None:
    for text in (LEAST, LEAST.rstrip(), LEAST + b"\n\n"):
        summary, rows = load(text)
        assert (summary.rows, summary.start_ns, rows) == (0, None, [])


def test_the_batch_is_derived_from_the_content(tmp_path: Path) -> None:
    plain, packed = tmp_path / "probes.csv", tmp_path / "probes.csv.gz"
    text = FULL + b"a,b,%d,\n" % NOW
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    batches = []
    for path in (plain, packed):
        with open_text(str(path)) as file:
            batches.append(CsvFile(file, "probes", str(path)).scan().batch)
    assert batches == [load(text)[0].batch] * 2
    assert load(text + b"a,b,%d,\n" % NOW)[0].batch != batches[0]


@pytest.mark.parametrize("cut", [3, 15, -4])
def test_damaged_gzip_is_one_line(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(LEAST + b"a,b,%d\n" % NOW)[:cut])
    with pytest.raises(MburstError, match=r"cut\.gz: damaged gzip data"), open_text(str(path)) as file:
        CsvFile(file, "probes", "cut.gz").scan()


def test_damage_found_late_is_one_line(tmp_path: Path) -> None:
    """The damage is in rows that Arrow reads later. Bytes after the compressed data are damage, too."""
    rows = LEAST + b"".join(b"a%d,b,%d\n" % (n, NOW + n * n) for n in range(200_000))
    packed = bytearray(gzip.compress(rows))
    packed[len(packed) // 2] ^= 0xFF
    for data in (bytes(packed), gzip.compress(rows)[:-9], gzip.compress(rows) + b"more"):
        path = tmp_path / "late.gz"
        path.write_bytes(data)
        with pytest.raises(MburstError, match=r"damaged gzip|line|CSV"), open_text(str(path)) as file:
            CsvFile(file, "probes", "late.gz").scan()


@pytest.mark.parametrize("piped", [False, True])
def test_a_file_that_unpacks_to_much_takes_no_space(tmp_path: Path, piped: bool) -> None:
    """3.7 MB may hold 1.5 GB, which must be neither in memory nor in the folder of temporary files."""
    temporary, path = tmp_path / "tmp", tmp_path / "large.csv.gz"
    temporary.mkdir()
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(FULL)
        for _ in range(16):
            file.write(b"a,b,%d,\n" % NOW * 250_000)
    unpacked = 16 * 250_000 * len(b"a,b,%d,\n" % NOW)
    script = (
        "import re\n"
        "from mburst.telemetry.csv_import import KINDS, CsvFile, open_text\n"
        f"with open_text({('-' if piped else str(path))!r}) as file:\n"
        "    summary = CsvFile(file, 'probes', 'large').scan()\n"
        # ru_maxrss would be at least the memory of the process from which it was forked
        "print(summary.rows, *re.findall(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read()))\n"
    )
    limit = unpacked // 4
    with path.open("rb") as stdin:
        done = subprocess.run(
            ["prlimit", f"--fsize={limit}", sys.executable, "-c", script],
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
    assert done.returncode == 0, done.stderr
    rows, most_kb = map(int, done.stdout.split())
    assert rows == 16 * 250_000 and most_kb < 400 << 10


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda more: LEAST + b"a,b,%d\n" % NOW + more)),
    st.sampled_from(["probes", "queues"]),
    st.booleans(),
)
def test_no_bytes_are_more_than_a_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    try:
        with open_text(str(path)) as file:
            source = CsvFile(file, kind, "any.csv")
            rows = sum(batch.num_rows for batch in source.read(source.scan()))
        assert rows >= 0
    except MburstError as error:
        assert "\n" not in str(error)


def test_a_process_can_end_before_all_is_read(tmp_path: Path) -> None:
    """Arrow's read-ahead threads need no interpreter, which has ended by then."""
    path = tmp_path / "large.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(LEAST + b"a,b,tomorrow\n" + b"a,b,%d\n" % NOW * 2_000_000)
    script = (
        "from mburst.telemetry.csv_import import KINDS, CsvFile, open_text\n"
        f"with open_text({str(path)!r}) as text:\n"
        "    try:\n"
        "        next(CsvFile(text, 'probes', 'large')._blocks())\n"
        "    except Exception as error:\n"
        "        print(error)\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "") and "line 2: tx_ns must be a whole number" in done.stdout


def test_a_file_that_grows_while_it_is_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_bytes(FULL + b"a,b,%d,\n" % NOW)
    with open_text(str(path)) as text:
        source = CsvFile(text, "probes", "some.csv")
        summary = source.scan()
        with path.open("ab") as file:
            file.write(b"c,d,%d,\n" % NOW)
        with pytest.raises(MburstError, match="changed while it was read"):
            list(source.read(summary))


COUNTED = {
    "sample": {"probes": 2_430, "probes-second-nic": 2_456, "queues-1ms": 5_000},
    "recorded": {
        "probes": 20_017,
        "probes-quiet": 9_949,
        "probes-second-nic": 9_949,
        "queues-1ms": 22_571,
        "queues-1s": 22,
    },
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_samples(case: CacheServer) -> None:
    for name, rows in COUNTED[case.name].items():
        summary, loaded = load(case.file(f"{name}.csv").read_bytes(), name.split("-")[0])
        assert (summary.rows, len(loaded), summary.lost, summary.backwards) == (rows, rows, 0, 0)
