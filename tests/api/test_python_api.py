"""The Python API: the same answers as the command line, no side effects in the calling process, errors, types."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import math
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import onestore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onestore import MS, START
from places import ROOT
from storelib import sealed_files, write

import mburst
from mburst.__main__ import main
from mburst.api.options import Time, newest_ns, time_of
from mburst.sql import StoreFolder

HEAVY = {"pyarrow", "duckdb", "numpy", "plotly", "pandas", "polars", "grpc", "scapy", "starlette"}
DAMAGED = ROOT / "tests" / "data" / "stores" / "format-2" / "store"
EXAMPLE = ROOT / "tests" / "data" / "typed_example.py"


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> mburst.Store:
    return mburst.open(onestore.rich(tmp_path_factory.mktemp("api") / "store").path)


def printed(verb: str, *words: object) -> Any:
    """Returns what a command prints as JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        assert main([verb, *map(str, words), "--json"]) == 0
    return json.loads(out.getvalue())


def words(given: dict[str, Any]) -> list[str]:
    """Returns options as the command line has them."""
    return [
        word
        for name, value in given.items()
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]


def alike(a: Any, b: Any) -> bool:
    """Returns whether they are equal except for the last digits of sums in a parallel database."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return bool(a == b)


# --- the same answers -------------------------------------------------------------------------------------------------

ASKED = st.fixed_dictionaries(
    {},
    optional={
        "bin": st.sampled_from(["1ms", "2ms", "10ms"]),
        "threshold": st.sampled_from(["0.5", "80%", "0.01"]),
        "join": st.sampled_from(["1ms", "300ms"]),
        "min_duration": st.sampled_from(["1ms", "12ms"]),
        "link": st.sampled_from(["1G", "100M"]),
        "rack": st.sampled_from(["r1", "r2"]),
        "interface": st.just("eth0"),
        "since": st.sampled_from(["900ms", "2026-11-20T00:00:00.1"]),
        "until": st.sampled_from(["100ms", "0.5s"]),
    },
)


@pytest.mark.costly
@settings(max_examples=8, deadline=None, derandomize=True)
@given(given=ASKED)
def test_bursts_are_those_of_the_command_line(rich: mburst.Store, given: dict[str, Any]) -> None:
    assert alike(rich.bursts(**given).to_pylist(), printed("bursts", rich.path, *words(given)))


@pytest.mark.parametrize(
    "given", [{}, {"host": "a", "tail": "2ms", "seed": 3}, {"since": "800ms", "until": "100ms", "threshold": "0.8"}]
)
def test_an_investigation_is_that_of_the_command_line(rich: mburst.Store, given: dict[str, Any]) -> None:
    found = rich.investigate(**given)
    assert alike(json.loads(json.dumps(found.to_dict())), printed("investigate", rich.path, *words(given)))
    assert found.cause == found.to_dict()["cause"] and found.summary in str(found)


@pytest.mark.parametrize(
    "given", [{}, {"link": "10G", "stagger": "5ms"}, {"priority": True, "host": "a", "buffer": "100kB", "fan_in": 1}]
)
def test_what_if_is_that_of_the_command_line(rich: mburst.Store, given: dict[str, Any]) -> None:
    found = rich.what_if(**given)
    assert alike(json.loads(json.dumps(found.to_dict())), printed("what-if", rich.path, *words(given)))
    assert found.table().num_rows == 2 + len(found.changes)


def test_a_comparison_is_that_of_the_command_line(rich: mburst.Store) -> None:
    found = rich.compare(a={"src": "api-1", "until": "500ms"}, b={"src": "api-2"}, both={"dst": "a"}, slow="1ms")
    assert alike(
        json.loads(json.dumps(found.to_dict())),
        printed(
            "compare",
            rich.path,
            rich.path,
            "--a",
            "src=api-1",
            "--a",
            "until=500ms",
            "--b",
            "src=api-2",
            "--both",
            "dst=a",
            "--slow",
            "1ms",
        ),
    )
    assert found.table().num_rows == len(found.to_dict()["percentiles"])


@pytest.mark.parametrize("query", ["coverage", "recordings", "contention", "burst_senders", "queue_depths"])
def test_sql_is_that_of_the_command_line(rich: mburst.Store, query: str) -> None:
    text = f"FROM {query} ORDER BY ALL" if query == "coverage" else query
    rows = rich.sql(text).to_pylist()
    from_verb = printed("sql", rich.path, text)
    assert rows and [list(row) for row in rows] == [list(row) for row in from_verb]
    assert alike(
        [[value for value in row.values() if not isinstance(value, datetime)] for row in rows],
        [
            [row[name] for name, value in mine.items() if not isinstance(value, datetime)]
            for row, mine in zip(from_verb, rows, strict=True)
        ],
    )


def test_reports_are_those_of_the_command_line(rich: mburst.Store, tmp_path: Path) -> None:
    for name, report, line in (
        ("host", rich.report(host="a"), ["--host", "a"]),
        (
            "rack",
            rich.rack_report("r1", since="2026-11-20", until="2026-11-21"),
            ["--rack", "r1", "--since", "2026-11-20", "--until", "2026-11-21"],
        ),
    ):
        mine = report.write(tmp_path / name / "mine")
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(["report", str(rich.path), *line, "-o", str(tmp_path / name / "theirs")]) == 0
        theirs = tmp_path / name / "theirs" / mine.facts.name
        assert json.loads(mine.facts.read_text()) == json.loads(theirs.read_text())
        assert mine.page.read_bytes() == theirs.with_suffix(".html").read_bytes()


def test_the_senders_of_one_burst_equal_those_of_all_bursts(rich: mburst.Store) -> None:
    options: list[mburst.asked.BurstOptions] = [{}, {"threshold": 0.8, "bin": "2ms", "join": "300ms"}]
    for wanted in options:
        bursts, every = rich.bursts(**wanted).to_pylist(), rich.senders(**wanted).to_pylist()
        assert bursts and len(every) == sum(burst["sources"] for burst in bursts)
        for burst in bursts:
            senders = rich.senders(burst).to_pylist()
            assert alike(
                senders,
                [
                    row
                    for row in every
                    if all(row[name] == burst[name] for name in ("recording_id", "clock_epoch", "start_ns", "end_ns"))
                ],
            )
            assert sum(row["members"] for row in senders if row["counted"]) == burst["fan_in"]


@pytest.mark.costly
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    bins=st.dictionaries(st.integers(3, 40), st.integers(1, 125_000), min_size=2, max_size=12),
    factor=st.sampled_from([None, 1, 2, 7]),
    since=st.none() | st.integers(0, 45),
    until=st.none() | st.integers(0, 45),
)
def test_utilization_has_every_recorded_bin(
    tmp_path_factory: pytest.TempPathFactory,
    bins: dict[int, int],
    factor: int | None,
    since: int | None,
    until: int | None,
) -> None:
    """Against a walk from bin to bin."""
    if since is not None and until is not None and since >= until:
        return
    store = StoreFolder.create(tmp_path_factory.mktemp("bins") / "store")
    first, last = min(bins), max(bins)
    write(store, "recordings", {"start_ns": START + first * MS + 7, "end_ns": START + last * MS + 9})
    write(store, "bins", *({"ts_ns": START + at * MS, "wire_bytes": sent} for at, sent in bins.items()))
    width = (factor or 1) * MS
    expected = []
    for at in range((START + first * MS) // width * width, START + (last + 1) * MS, width):
        held = [i for i in range(first, last + 1) if at <= START + i * MS < at + width]
        if (since is None or at >= START + since * MS) and (until is None or at < START + until * MS):
            sent = sum(bins.get(i, 0) for i in held)
            expected.append((at, sent, len(held) * MS, sent * 8e9 / width / 1e9))
    table = mburst.open(store.path).utilization(
        bin=None if factor is None else width,
        since=None if since is None else START + since * MS,
        until=None if until is None else START + until * MS,
    )
    columns = (table[name].to_pylist() for name in ("ts_ns", "wire_bytes", "recorded_ns", "utilization"))
    assert alike(list(zip(*columns, strict=True)), expected)


def test_filters_select_rows(rich: mburst.Store) -> None:
    assert set(rich.recordings(rack="r2")["host"].to_pylist()) == {"c", "d", "e"}
    assert rich.recordings(host="a", interface="eth1").num_rows == 1
    assert rich.recordings(since=START + 900 * MS)["host"].to_pylist().count("b") == 0
    assert rich.coverage(host=["b", "d"]).num_rows == 2
    assert rich.latency(src="api-3")["measure"].to_pylist() == ["round trip"]
    assert rich.probes(src="api-1", since=START, until=START + MS).num_rows == 2
    assert rich.queues(port="swp2")["max_bytes"].to_pylist() == [500]
    assert rich.queue_windows(port="swp1", since=START, until=START + 10 * MS).num_rows == 1


# --- tables -----------------------------------------------------------------------------------------------------------

TABLES: list[Callable[[mburst.Store], Any]] = [
    mburst.Store.recordings,
    mburst.Store.coverage,
    mburst.Store.utilization,
    mburst.Store.bursts,
    mburst.Store.senders,
    mburst.Store.contention,
    mburst.Store.latency,
    mburst.Store.probes,
    mburst.Store.queues,
    mburst.Store.queue_windows,
]


@pytest.mark.parametrize("method", TABLES, ids=lambda method: method.__name__)
def test_fields_have_units_and_fit_pandas_and_polars(rich: mburst.Store, method: Callable[[mburst.Store], Any]) -> None:
    import pandas
    import polars

    table = method(rich)
    assert table.num_rows
    for field in table.schema:
        known = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        if field.name.endswith("_ns"):
            assert known["unit"] == "ns" and str(field.type) == "int64", field
        elif field.name.endswith("bytes"):
            assert known["unit"] == "B" and str(field.type) == "int64", field
        assert known.get("about") != "likewise" and "as in `" not in known.get("about", ""), field
    frame = table.to_pandas()
    assert len(frame) == polars.from_arrow(table).height == table.num_rows
    assert not any(str(frame[name].dtype) == "object" and isinstance(frame[name].iloc[0], int) for name in frame)
    assert isinstance(frame, pandas.DataFrame)


@pytest.mark.parametrize("name", ["bursts", "burst_senders", "contention", "queue_depths"])
def test_comments_behind_columns_are_those_of_the_query(rich: mburst.Store, name: str) -> None:
    from mburst.sql import described, text

    with StoreFolder.open(rich.path).connect() as con:
        *steps, last = con.extract_statements(text(name))
        for step in steps:
            con.execute(step)
        described_as = con.execute(f"DESCRIBE {last.query.rstrip().rstrip(';')}").fetchall()
    found = [(column, kind) for column, kind, *_ in described_as]
    from_verb = {one.name: one.type for one in described.columns(text(name, alone=True))}
    assert [(column, re.sub(r"STRUCT\(.*\)", "STRUCT", kind)) for column, kind in found] == list(from_verb.items())


# --- options and errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("2026-11-20T00:00:00.5", START + 500 * MS),
        (START + 5, START + 5),
        ("500ms", START + 500 * MS),
        (datetime(2026, 11, 20, 0, 0, 0, 500_000, UTC), START + 500 * MS),
        (datetime.fromisoformat("2026-11-20T02:00:00.5+02:00"), START + 500 * MS),
    ],
)
def test_options_take_times_of_several_types(rich: mburst.Store, value: Time, ns: int) -> None:
    with StoreFolder.open(rich.path).connect() as con:
        assert time_of(newest_ns(con), value) == ns


def test_a_time_of_pandas_keeps_its_nanoseconds(rich: mburst.Store) -> None:
    import pandas

    with StoreFolder.open(rich.path).connect() as con:
        assert time_of(newest_ns(con), pandas.Timestamp(START + 123_456_789, tz="Europe/Berlin")) == START + 123_456_789


WRONG: list[tuple[Callable[[mburst.Store], Any], type[Exception], str]] = [
    (lambda store: mburst.open(store.path / "none"), mburst.MburstError, "not an mburst store"),
    (lambda store: mburst.Store(store.path), mburst.UsageError, "mburst.open(path)"),
    (lambda store: store.bursts(bin="3 apples"), mburst.UsageError, "duration"),
    (lambda store: store.bursts(bin=1.5), mburst.UsageError, "duration"),
    (lambda store: store.bursts(bin=True), mburst.UsageError, "duration"),
    (lambda store: store.bursts(bin=-1), mburst.UsageError, "negative"),
    (lambda store: store.bursts(bin="3us", force=True), mburst.UsageError, "not a multiple"),
    (lambda store: store.bursts(threshold="40"), mburst.UsageError, "share"),
    (lambda store: store.bursts(link="fast"), mburst.UsageError, "link speed"),
    (lambda store: store.bursts(host="nobody"), mburst.MburstError, "no recording of host nobody"),
    (lambda store: store.bursts(thresold=0.8), TypeError, "'thresold'"),
    (lambda store: store.bursts(since="1s", until="2s"), mburst.UsageError, "not before"),
    (lambda store: store.bursts(since=datetime(2026, 11, 20)), mburst.UsageError, "time zone"),
    (lambda store: store.bursts(since=datetime(9999, 1, 1, tzinfo=UTC)), mburst.UsageError, "64-bit"),
    (lambda store: store.bursts(until=datetime(1, 1, 1, tzinfo=UTC)), mburst.UsageError, "64-bit"),
    (lambda store: store.bursts(since=2**63), mburst.UsageError, "64-bit"),
    (lambda store: store.utilization(bin="1500us"), mburst.UsageError, "not a multiple"),
    (lambda store: store.utilization(host="nobody"), mburst.MburstError, "no recording of host nobody"),
    (lambda store: store.latency(src="nosuch"), mburst.MburstError, "no probes of src nosuch"),
    (lambda store: store.probes(dst="nosuch", protocol="udp"), mburst.MburstError, "of dst nosuch and protocol udp"),
    (lambda store: store.queues(device="nosuch"), mburst.MburstError, "no queues of device nosuch"),
    (lambda store: store.queue_windows(queue="nosuch"), mburst.MburstError, "no queues of queue nosuch"),
    (lambda store: store.probes(src=["api"]), mburst.UsageError, "invalid src ['api'] (write one name, as text)"),
    (lambda store: store.queues(queue=3), mburst.UsageError, "invalid queue 3 "),
    (lambda store: store.bursts(recording=3), mburst.UsageError, "invalid recording 3 "),
    (lambda store: store.bursts(rack=["r1"]), mburst.UsageError, "invalid rack ['r1'] "),
    (lambda store: store.bursts(host=3), mburst.UsageError, "invalid names 3 "),
    (lambda store: store.bursts(host=["a", 3]), mburst.UsageError, "invalid names ['a', 3] "),
    (lambda store: store.senders({"start_ns": 1}), mburst.UsageError, "not a burst"),
    (lambda store: store.senders(store.bursts().to_pylist()[0], threshold=0.8), mburst.UsageError, "exclude"),
    (lambda store: store.investigate(tail_factor=0.5), mburst.UsageError, "below the median"),
    (lambda store: store.investigate(host="nobody"), mburst.MburstError, "no recording of host nobody"),
    (lambda store: store.what_if(rack="nowhere"), mburst.MburstError, "no recording of rack nowhere"),
    (lambda store: store.what_if(fan_in=0), mburst.UsageError, "must be at least 1"),
    (lambda store: store.compare(a={"hots": "a"}), mburst.UsageError, "'hots'"),
    (lambda store: store.compare(a={"direction": "both"}), mburst.UsageError, "invalid direction 'both'"),
    (lambda store: store.compare(both={"direction": ["in"]}), mburst.UsageError, "in, out or mirror"),
    (lambda store: store.rack_report("r1", last=["day"]), mburst.UsageError, "hour, day or week"),
    (lambda store: store.bursts(direction=9000 * "x"), mburst.UsageError, f"invalid direction '{40 * 'x'}' "),
    (lambda store: store.bursts(direction=store.bursts()), mburst.UsageError, "in, out or mirror"),
    (lambda store: store.compare(store.path / "none"), mburst.MburstError, "not an mburst store"),
    (lambda store: store.report(host="nobody"), mburst.MburstError, "no recording of host nobody"),
    (lambda store: store.rack_report("r1", last="year"), mburst.UsageError, "hour, day or week"),
    (lambda store: store.sql("DROP TABLE bins"), mburst.UsageError, "not allowed"),
    (lambda store: store.sql("SELECT nothing FROM bins"), mburst.MburstError, "nothing"),
    (lambda store: mburst.record([], store.path), mburst.UsageError, "nothing to record"),
    (lambda store: mburst.record(store.path / "x.pcap", store.path), mburst.MburstError, "x.pcap"),
    (lambda store: mburst.record("lo", store.path), mburst.UsageError, "duration of the recording"),
    (lambda store: mburst.record(__file__, store.path, stop=threading.Event()), mburst.UsageError, "interfaces"),
    (lambda store: mburst.record(__file__, store.path, bin="1us"), mburst.UsageError, "between 10us and 1s"),
    (lambda store: mburst.record(__file__, store.path, bin="300ms"), mburst.UsageError, "of 300ms does not divide 1s"),
    (lambda store: mburst.record(__file__, store.path), mburst.MburstError, "test_python_api.py"),
    (lambda store: mburst.import_csv("bins", __file__, store.path), mburst.UsageError, "probes or queues"),
]


@pytest.mark.parametrize(("ask", "kind", "message"), WRONG)
def test_each_mistake_raises_one_clear_error(
    rich: mburst.Store, ask: Callable[[mburst.Store], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as raised:
        ask(rich)
    assert message in f"{raised.value} ({getattr(raised.value, 'hint', '')})" and type(raised.value) is kind
    assert "\n" not in str(raised.value)


def test_without_probes_there_is_no_tail_to_test(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    write(store, "recordings", {"start_ns": START, "end_ns": START + MS})
    write(store, "bins", {"ts_ns": START, "wire_bytes": 125_000})
    opened = mburst.open(store.path)
    assert opened.latency().num_rows == opened.probes().num_rows == opened.queues().num_rows == 0
    assert opened.investigate().cause == "undetermined"
    with pytest.raises(mburst.MburstError, match="nothing to replay"):
        opened.what_if()
    empty = mburst.open(StoreFolder.create(tmp_path / "empty").path)
    assert empty.newest_ns is None and empty.recordings().num_rows == 0
    with pytest.raises(mburst.MburstError, match="no recording"):
        empty.bursts()


def test_probes_of_a_damaged_file_are_not_said_to_be_absent(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    write(store, "probes", *({"src": "api", "tx_ns": START + n, "app_send_ns": START + n} for n in range(3)))
    [path] = sealed_files(store, "probes")
    path.write_bytes(b"x" * 200)
    with pytest.raises(mburst.MburstError, match="no probes of src api; 1 damaged file was not read: ") as raised:
        mburst.open(tmp_path / "store").probes(src="api")
    assert str(path) in str(raised.value)


def test_answers_warn_of_damaged_files_and_list_them(tmp_path: Path) -> None:
    shutil.copytree(DAMAGED, tmp_path / "store")
    path = next((tmp_path / "store" / "sources").rglob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    store = mburst.open(tmp_path / "store")
    assert [file.path for file in store.damage] == [str(path)]
    for ask in (
        lambda: store.bursts(threshold=0.1),
        store.recordings,
        store.investigate,
        store.report,
        lambda: store.sql("SELECT 1"),
        store.compare,
    ):
        with pytest.warns(mburst.DamagedFileWarning, match=re.escape(str(path))) as caught:
            answer = ask()
        assert len(caught) == 1 and caught[0].filename == __file__
        from_verb = (
            [file.facts() for file in answer.damaged]
            if hasattr(answer, "damaged")
            else json.loads(answer.schema.metadata[b"damaged_files"])
        )
        assert [file["path"] for file in from_verb] == [str(path)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", mburst.DamagedFileWarning)
        with pytest.raises(mburst.DamagedFileWarning) as raised:
            store.bursts(threshold=0.1)
        assert raised.value.damaged.host == "cache-1"


# --- nothing else -----------------------------------------------------------------------------------------------------


def test_importing_loads_few_modules() -> None:
    code = "import sys, mburst; mburst.open, mburst.record, mburst.asked, dir(mburst); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "mburst.api.store" in loaded and not HEAVY & set(loaded)
    with pytest.raises(AttributeError):
        mburst.nothing  # noqa: B018


def test_every_exported_name_exists() -> None:
    assert set(mburst.__all__) <= set(dir(mburst)) and all(getattr(mburst, name) for name in mburst.__all__)
    assert (Path(mburst.__file__).parent / "py.typed").exists()
    assert '"mburst": ["py.typed"]' in (ROOT / "setup.py").read_text()


# --- the page and the types -------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_have_their_real_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    example = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(example, {}, "docs/python.md", None, 0)
    message = io.StringIO()
    with warnings.catch_warnings():
        done = doctest.DocTestRunner(verbose=False).run(test, out=message.write)
    assert done.attempted > 40 and not done.failed, message.getvalue()


def test_the_page_names_every_method() -> None:
    table = (ROOT / "docs" / "python.md").read_text("utf-8").split("## What there is to call")[1]
    methods = {name for name in vars(mburst.Store) if not name.startswith("_")} - {"close"}
    assert methods == {name for name in methods if f"`.{name}" in table}


def test_types_are_checked() -> None:
    """mypy --strict accepts the example. Each of its wrong lines is marked as such, and mypy would report a superfluous
    mark: the example is one of the modules that tests/house/test_house.py has checked."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    assert asked["strict"] and ROOT / asked["mypy_path"] / f"{asked['modules'][0]}.py" == EXAMPLE
    assert EXAMPLE.read_text("utf-8").count("# type: ignore[") >= 5
