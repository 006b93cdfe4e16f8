"""mburst import: what it reports, what it adds, and what it refuses."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from captures import CASES, RECORDED, SAMPLE, CacheServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import ROOT
from storelib import sealed_files

from mburst.api import importing
from mburst.sql import StoreFolder
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import KeepRules
from mburst.sql.locks import acquire
from mburst.sql.repair.repair import repair
from mburst.telemetry import csv_import
from mburst.telemetry.csv_import import CsvFile, open_text
from mburst.units import NS_PER_DAY

NOW = 1_795_228_464_011_544_286

PROBES_TEXT = b"src,dst,tx_ns,rx_ns\n" + b"".join(
    b"api,cache,%d,%s\n" % (NOW + n * 10**6, b"%d" % (NOW + n * 10**6 + 5000) if n % 4 else b"") for n in range(100)
)


def mburst(*words: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Runs the command. Returns exit code, output and errors."""
    command = [sys.executable, "-m", "mburst", *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=ROOT, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def probes_file(tmp_path: Path) -> Path:
    path = tmp_path / "probes.csv"
    path.write_bytes(PROBES_TEXT)
    return path


def stored(store: Path, question: str) -> Any:
    with StoreFolder.open(store).connect() as connection:
        return connection.execute(question).fetchall()


def test_an_import_reports_what_it_added(probes_file: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    code, out, err = mburst("import", "probes", probes_file, "-o", store, "--protocol", "udp")
    assert (code, err) == (0, "")
    assert out == "probes: 100 rows, 25 lost, 2026-11-21 02:34:24.011544 → 2026-11-21 02:34:24.110544 UTC\n"
    assert stored(store, "SELECT count(*), sum(lost::INT), min(protocol), max(rx_ns - tx_ns) FROM probes") == [
        (100, 25, "udp", 5000)
    ]


def test_the_same_file_again_adds_nothing_and_is_reported(probes_file: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert mburst("import", "probes", probes_file, "-o", store)[0] == 0
    packed = tmp_path / "probes.gz"
    packed.write_bytes(gzip.compress(PROBES_TEXT))
    code, out, _ = mburst("import", "probes", packed, "-o", store)
    assert code == 0
    assert out.splitlines()[1] == "0 added, 100 already in the store"
    code, out, _ = mburst("import", "probes", "-", "-o", store, "--json", stdin=PROBES_TEXT)
    result = json.loads(out)
    assert (code, result["rows"], result["added"], result["lost"], result["start_ns"]) == (0, 100, 0, 25, NOW)
    assert stored(store, "SELECT count(*) FROM probes") == [(100,)]


def test_an_interrupted_import_is_completed(probes_file: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with open_text(str(probes_file)) as file, StoreFolder.create(store).writer("probes") as writer:
        source = CsvFile(file, "probes", "probes.csv")
        [batch] = source.read(source.scan())
        writer.append(batch.slice(0, 37))
    code, out, _ = mburst("import", "probes", probes_file, "-o", store)
    assert code == 0
    assert out.splitlines()[1] == "63 added, 37 already in the store"
    assert stored(store, "SELECT count(*), count(DISTINCT seq), max(seq) FROM probes") == [(100, 100, 99)]


def test_a_file_that_has_grown_adds_its_new_rows(probes_file: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert mburst("import", "probes", probes_file, "-o", store)[0] == 0
    with probes_file.open("ab") as file:
        file.write(b"".join(b"api,cache,%d,\n" % (NOW + n * 10**6) for n in range(100, 130)))
    for line in ("30 added, 100 already in the store", "0 added, 130 already in the store"):
        code, out, _ = mburst("import", "probes", probes_file, "-o", store)
        assert code == 0 and out.splitlines()[1] == line
        assert stored(store, "SELECT count(*), sum(lost::INT), max(seq) FROM probes") == [(130, 55, 129)]


def test_probes_of_another_protocol_are_other_probes(tmp_path: Path) -> None:
    lost, path = b"".join(b"a,b,%d,\n" % (NOW + at) for at in range(3)), tmp_path / "probes.csv"
    by_protocol = "SELECT protocol, count(*) FROM probes GROUP BY ALL ORDER BY ALL"
    for number, protocol in enumerate(("udp", "icmp", "icmp")):
        path.write_bytes(b"src,dst,tx_ns,rtt_ns\n" + lost[: (2 + number) * len(lost) // 3])
        assert mburst("import", "probes", path, "-o", tmp_path / "option", "--protocol", protocol)[0] == 0
    assert stored(tmp_path / "option", by_protocol) == [("icmp", 3), ("udp", 2)]
    code, out, _ = mburst("import", "probes", path, "-o", tmp_path / "option", "--protocol", "udp")
    assert (code, out.splitlines()[1]) == (0, "1 added, 2 already in the store")
    for protocols in (b"", b"udp"), (b"icmp", b"udp", b"udp"):
        rows = (b"a,b,%s,%d,\n" % (protocol or b"udp", NOW) for protocol in protocols)
        path.write_bytes(b"".join([b"src,dst,protocol,tx_ns,rtt_ns\n", *rows]))
        assert mburst("import", "probes", path, "-o", tmp_path / "column")[0] == 0
    assert stored(tmp_path / "column", by_protocol) == [("icmp", 1), ("udp", 2)]


def test_a_file_that_lost_its_first_rows_adds_only_its_new_rows(tmp_path: Path) -> None:
    """Cells of `seq` that are empty get the place of the row in the file."""
    path = tmp_path / "probes.csv"
    for first, last in (0, 3), (1, 4):
        rows = (f"a,b,,{NOW + at}," for at in range(first, last))
        path.write_text("\n".join(["src,dst,seq,tx_ns,rtt_ns", *rows, ""]))
        assert mburst("import", "probes", path, "-o", tmp_path / "store")[0] == 0
    assert stored(tmp_path / "store", "SELECT count(*), count(DISTINCT tx_ns) FROM probes") == [(4, 4)]


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from([None, 5, 6])), max_size=8)


@pytest.mark.costly
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(ROWS, min_size=2, max_size=4), by_block=st.booleans())
def test_each_row_counts_as_often_as_the_file_with_the_most_has_it(
    files: list[list[Any]], by_block: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_import, "BLOCK_BYTES", 64 if by_block else 1 << 22)
    held: Counter[Any] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        store, path = StoreFolder.create(Path(folder) / "store"), Path(folder) / "probes.csv"
        for rows in files:
            lines = [f"{src},b,{NOW + at},{'' if took is None else NOW + at + took}" for src, at, took in rows]
            path.write_text("\n".join(["src,dst,tx_ns,rx_ns", *lines, ""]))
            done = importing.import_csv(store, "probes", str(path))
            assert (done.rows, done.added) == (len(rows), (Counter(rows) - held).total())
            held |= Counter(rows)
            found = stored(store.path, f"SELECT src, tx_ns - {NOW}, rx_ns - tx_ns FROM probes")
            assert Counter(found) == held


def test_probes_that_are_kept_as_sums_are_not_added_again(probes_file: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert mburst("import", "probes", probes_file, "-o", store)[0] == 0
    compact(StoreFolder.open(store), KeepRules(0, 0), now_ns=time.time_ns() + 10 * NS_PER_DAY)
    with probes_file.open("ab") as file:
        file.write(b"api,cache,%d,\n" % (NOW + 10**9))
    code, out, _ = mburst("import", "probes", probes_file, "-o", store)
    line = "1 added, 100 in seconds that the store keeps only as sums"
    assert (code, out.splitlines()[1:]) == (0, [line])
    assert stored(store, "SELECT sum(sent), sum(lost) FROM latency_counts") == [(101, 26)]


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("is_aside", [False, True])
def test_rows_of_a_file_that_may_come_back_are_not_added_again(
    probes_file: Path, tmp_path: Path, is_aside: bool, is_compacted: bool
) -> None:
    store, count = StoreFolder.create(tmp_path / "store"), "SELECT sum(sent) FROM latency_counts"
    importing.import_csv(store, "probes", str(probes_file))
    if is_compacted:
        compact(store, KeepRules(0, 0), now_ns=time.time_ns() + 10 * NS_PER_DAY)
    [path] = sealed_files(store, "latency_steps" if is_compacted else "probes")
    content = path.read_bytes()
    path.write_bytes(b"?")
    if is_aside:
        list(repair(store.path))
    code, out, err = mburst("import", "probes", probes_file, "-o", store.path)
    last = err.splitlines()[-1]
    assert (code, out) == (1, "") and "nothing was added" in last and path.name in last
    later = tmp_path / "later.csv"
    later.write_text(f"src,dst,tx_ns,rtt_ns\napi,cache,{NOW + NS_PER_DAY},\n")
    assert importing.import_csv(store, "probes", str(later)).added == 1
    path.write_bytes(content)
    assert importing.import_csv(store, "probes", str(probes_file)).added == 0
    assert stored(store.path, count) == [(101,)]
    path.unlink()
    if is_aside:
        (store.path / "damaged" / path.relative_to(store.path)).unlink()
    assert importing.import_csv(store, "probes", str(probes_file)).added == 100
    assert stored(store.path, count) == [(101,)]


def test_a_file_of_another_program_prevents_no_import(probes_file: Path, tmp_path: Path) -> None:
    """Its rows never count."""
    store = StoreFolder.create(tmp_path / "store")
    stranger = store.path / "probes" / "date=2026-11-21" / "mine.parquet"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"?")
    assert importing.import_csv(store, "probes", str(probes_file)).added == 100


def test_imports_at_once_add_their_rows_once(
    probes_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreFolder.create(tmp_path / "store")
    other = acquire(store.path, "import-probes")
    assert other is not None

    def wait(_: float) -> None:
        with open_text(str(probes_file)) as file, store.writer("probes") as writer:
            source = CsvFile(file, "probes", "probes.csv")
            writer.append(next(source.read(source.scan())))
        other.end()

    monkeypatch.setattr(importing, "time", SimpleNamespace(sleep=wait))
    assert importing.import_csv(store, "probes", str(probes_file)).added == 0
    assert stored(store.path, "SELECT count(*) FROM probes") == [(100,)]


def test_an_invalid_file_adds_nothing_to_the_store(probes_file: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with probes_file.open("ab") as file:
        file.write(b"api,cache,1795228464,\n")
    code, out, err = mburst("import", "probes", probes_file, "-o", store)
    assert (code, out) == (1, "")
    wanted = (
        f"mburst: {probes_file} line 102: tx_ns 1795228464 is not a Unix time in nanoseconds (it looks like seconds)\n"
    )
    assert err == wanted
    assert not store.exists()


@pytest.mark.parametrize(
    ("kind", "header", "row", "lacks"),
    [
        ("probes", "src,dst,tx_ns", f"a,b,{NOW}", "rtt_ns, rx_ns, app_recv_ns, remote_rx_ns, lost"),
        ("probes", "src,dst,tx_ns,remote_tx_ns,seq", f"a,b,{NOW},{NOW},1", "rtt_ns, rx_ns, app_recv_ns, remote_rx_ns"),
    ],
)
def test_a_file_that_shows_no_result_is_refused(tmp_path: Path, kind: str, header: str, row: str, lacks: str) -> None:
    """All of its probes would be lost."""
    path = tmp_path / "file.csv"
    path.write_text(f"{header}\n{row}\n")
    code, out, err = mburst("import", kind, path, "-o", tmp_path / "store")
    assert (code, out) == (1, "") and f"{path} has no column with a result (add at least one of {lacks}" in err
    assert not (tmp_path / "store").exists()


def test_a_row_that_states_neither_an_answer_nor_a_loss_is_refused(tmp_path: Path) -> None:
    """Without a column of an answer, an empty cell of `lost` is no loss."""
    path = tmp_path / "file.csv"
    path.write_text(f"src,dst,tx_ns,lost\na,b,{NOW},false\na,b,{NOW + 1},\n")
    code, out, err = mburst("import", "probes", path, "-o", tmp_path / "store")
    assert (code, out) == (1, "") and f"{path} line 3: lost is empty" in err
    assert not (tmp_path / "store").exists()
    path.write_text(f"src,dst,tx_ns,rtt_ns,lost\na,b,{NOW},5000,\na,b,{NOW + 1},,\n")
    code, out, _ = mburst("import", "probes", path, "-o", tmp_path / "store")
    assert code == 0 and out.startswith("probes: 2 rows, 1 lost")


@pytest.mark.parametrize(
    ("kind", "words", "refused"),
    [
        ("probes", ["--bin", "1ms"], "--bin is of `mburst import canary`, not of probes"),
        ("queues", ["--min-duration", "1ms"], "--min-duration is of `mburst import canary`, not of queues"),
        ("queues", ["--protocol", "udp"], "--protocol is of `mburst import probes`, not of queues"),
        ("probes", ["--sender", "10.0.0.1"], "--sender is of `mburst import canary`, not of probes"),
        ("canary", ["--protocol", "udp"], "--protocol is of `mburst import probes`, not of canary"),
    ],
)
def test_an_option_of_another_kind_is_refused(
    probes_file: Path, tmp_path: Path, kind: str, words: list[str], refused: str
) -> None:
    code, out, err = mburst("import", kind, probes_file, "-o", tmp_path / "store", *words)
    assert (code, out) == (2, "") and refused in err and not (tmp_path / "store").exists()


def test_errors_of_the_call_are_one_line(probes_file: Path, tmp_path: Path) -> None:
    for words, code in (
        (("import", "probes", tmp_path / "absent.csv", "-o", tmp_path / "store"), 1),
        (("import", "probes", tmp_path, "-o", tmp_path / "store"), 1),
        (("import", "probes", probes_file, "-o", probes_file), 1),
        (("import", "switches", probes_file, "-o", tmp_path / "store"), 2),
        (("import", "probes", probes_file), 2),
    ):
        done, out, err = mburst(*words)
        assert (done, out) == (code, "")
        assert "Traceback" not in err
        assert len(err.splitlines()) == 1


def test_an_exchange_that_ends_before_it_begins_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "probes.csv"
    path.write_bytes(b"src,dst,tx_ns,rx_ns\na,b,%d,%d\n" % (NOW, NOW - 1))
    code, out, _ = mburst("import", "probes", path, "-o", tmp_path / "store")
    assert code == 0
    assert out.splitlines()[1] == "1 of them end before they begin, and have no latency: the clock may have stepped"


QUEUES = [  # file, what is printed, and the largest depth
    (SAMPLE, "queues-1ms.csv", "queues: 5,000 rows, 2026-09-21 14:13:20.000000 → ", 5000, 3_605_038),
    (RECORDED, "queues-1s.csv", "queues: 22 rows, 2026-11-21 02:34:21.999062 → ", 22, 3_592_250),
]


@pytest.mark.parametrize(
    ("case", "name", "printed", "rows", "largest"),
    [pytest.param(*values, id=values[0].name) for values in QUEUES if values[0] in CASES],
)
def test_queues_are_imported(
    case: CacheServer, name: str, printed: str, rows: int, largest: int, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    code, out, _ = mburst("import", "queues", case.file(name), "-o", store)
    assert code == 0
    assert out.startswith(printed)
    assert stored(store, "SELECT count(*), max(max_bytes), min(semantics) FROM queues") == [
        (rows, largest, "max-since-last")
    ]
