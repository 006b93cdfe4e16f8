"""A damaged file affects only its own rows: verbs answer from the other files, name it once, and exit with 1. JSON and
pages name it, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from mburst.__main__ import main
from mburst.sql import StoreFolder
from mburst.sql.damage import COLUMNS

STORE = ROOT / "tests" / "data" / "stores" / "format-2" / "store"
BURSTS = ["--threshold", "0.1"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in which the senders of cache-1 are damaged; those of cache-2 are in an undamaged hot log."""
    shutil.copytree(STORE, tmp_path / "store")
    path = damaged_file(tmp_path / "store")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    return tmp_path / "store"


def damaged_file(store: Path) -> Path:
    return next((store / "sources").rglob("*.parquet"))


def named(err: str, store: Path) -> bool:
    """Returns whether the file is named once, with table, host and time."""
    lines = [line for line in err.splitlines() if str(damaged_file(store)) in line]
    return len(lines) == 1 and "(missing: rows of sources of host cache-1 in rack r 1 from 2026-09-21" in lines[0]


@pytest.mark.parametrize(
    "argv",
    [
        ["bursts", *BURSTS],
        ["bursts", *BURSTS, "--json"],
        ["bursts", "--since", "1h"],
        ["sql", "recordings"],
        ["sql", "SELECT 1", "--json"],
        ["investigate", *BURSTS],
        ["investigate", "--json"],
        ["investigate", "--markdown"],
        ["compare"],
        ["compare", "--json"],
    ],
)
def test_a_verb_answers_and_reports_what_is_missing(store: Path, argv: list[str], capsys: Any) -> None:
    verb, *options = argv
    stores = [str(store)] * (2 if verb == "compare" else 1)
    assert main([verb, *stores, *options]) == 1
    printed = capsys.readouterr()
    assert printed.out.strip() and named(printed.err, store)
    if "--json" in argv and verb in ("investigate", "compare"):
        [file] = json.loads(printed.out)["damaged_files"]
        assert list(file) == list(COLUMNS) and file["path"] == str(damaged_file(store)) and file["host"] == "cache-1"


@pytest.mark.parametrize(
    "options", [[], ["--rack", "r 1", "--since", "2026-09-21T14:00", "--until", "2026-09-21T15:00"]]
)
def test_reports_name_the_file_on_the_page_and_in_the_json(
    store: Path, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    assert main(["report", str(store), "-o", str(tmp_path / "out"), *options]) == 1
    assert named(capsys.readouterr().err, store)
    [facts] = (tmp_path / "out").glob("*.json")
    assert [file["table_name"] for file in json.loads(facts.read_text())["damaged_files"]] == ["sources"]
    [page] = [path for path in (tmp_path / "out").glob("*.html") if path.name != "index.html"]
    assert "1 file of the store is damaged" in page.read_text()
    assert "rows of sources of host cache-1" in page.read_text()


def test_the_page_of_an_investigation_names_the_file(store: Path, tmp_path: Path) -> None:
    assert main(["investigate", str(store), "-o", str(tmp_path / "page.html")]) == 1
    assert "rows of sources of host cache-1" in (tmp_path / "page.html").read_text()


def test_only_bursts_of_that_host_and_time_are_incomplete(store: Path, capsys: Any) -> None:
    assert main(["bursts", str(store), "--threshold", "0.0005", "--json"]) == 1
    bursts = json.loads(capsys.readouterr().out)
    assert {burst["host"] for burst in bursts} == {"cache-1", "cache-2"}
    assert all(("incomplete" in burst["quality"]) is (burst["host"] == "cache-1") for burst in bursts)


def test_an_undamaged_store_gives_exit_code_0_and_no_message(tmp_path: Path, capsys: Any) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    assert main(["investigate", str(tmp_path / "store"), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and json.loads(printed.out)["damaged_files"] == []


def test_damage_found_by_one_call_does_not_affect_the_next(store: Path, tmp_path: Path, capsys: Any) -> None:
    shutil.copytree(STORE, tmp_path / "sound")
    assert main(["sql", str(store), "recordings"]) == 1
    assert main(["sql", str(tmp_path / "sound"), "recordings"]) == 0
    assert main(["sql", str(store), "recordings"]) == 1
    assert named("".join(capsys.readouterr().err.splitlines(keepends=True)[:1]), store)


def test_files_set_aside_by_a_repair_are_still_reported_as_missing(store: Path, tmp_path: Path, capsys: Any) -> None:
    aside = store / "damaged" / damaged_file(store).relative_to(store)
    assert main(["repair", str(store)]) == 0
    capsys.readouterr()
    assert main(["bursts", str(store), "--threshold", "0.0005", "--json"]) == 1
    printed = capsys.readouterr()
    [line] = printed.err.splitlines()
    assert line.startswith(f"mburst: {aside}: set aside by `mburst repair` (missing: rows of sources of host cache-1")
    bursts = json.loads(printed.out)
    assert all(("incomplete" in burst["quality"]) is (burst["host"] == "cache-1") for burst in bursts)
    assert main(["report", str(store), "-o", str(tmp_path / "out")]) == 1
    [page] = [path for path in (tmp_path / "out").glob("*.html") if path.name != "index.html"]
    assert "1 file was set aside by `mburst repair`" in page.read_text()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the simulated demo."""
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--simulate", "-o", str(folder / "demo")]) == 0
    return folder / "demo" / "store"


@pytest.fixture(scope="module", params=[False, True], ids=["damaged", "repaired"])
def without_bins(simulated: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The simulated demo with its bins damaged, or set aside by a repair."""
    store = Path(shutil.copytree(simulated, tmp_path_factory.mktemp("damaged") / "store"))
    [path] = (store / "bins").rglob("*.parquet")
    content = bytearray(path.read_bytes())
    content[5000] ^= 4
    path.write_bytes(content)
    if request.param:
        assert main(["repair", str(store)]) == 0
    return store


def test_time_without_its_bins_is_not_idle(without_bins: Path, tmp_path: Path, capsys: Any) -> None:
    capsys.readouterr()
    assert main(["bursts", str(without_bins)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[1] == "its bins are missing" and "no burst" not in out
    assert main(["report", str(without_bins), "--rack", "r1", "--since", "24h", "-o", str(tmp_path / "out")]) == 1
    [facts] = map(json.loads, (path.read_text() for path in (tmp_path / "out").glob("rack*.json")))
    assert len(facts["damaged_files"]) == 1 and not any(lane["coverage"] for lane in facts["lanes"])
    [page] = (tmp_path / "out").glob("rack*.html")
    assert "No burst reached" not in page.read_text()


def test_an_investigation_needs_the_bins_that_are_missing(without_bins: Path, capsys: Any) -> None:
    capsys.readouterr()
    assert main(["investigate", str(without_bins)]) == 1
    answer = capsys.readouterr().out
    is_aside = (without_bins / "damaged").exists()
    why = "1 file was set aside by `mburst repair`" if is_aside else "1 file of the store is damaged"
    assert f"Needed: the rows of bins that are missing ({why})." in answer.splitlines()[0]
    assert "disagree" not in answer and f"{why}. Missing here: rows of bins of host cache" in answer


def test_a_verb_that_writes_succeeds_in_a_damaged_store(store: Path, tmp_path: Path, capsys: Any) -> None:
    csv = tmp_path / "probes.csv"
    csv.write_text("seq,src,dst,tx_ns,rx_ns\n1,a,b,1700000000000000000,1700000000000100000\n")
    assert main(["import", "probes", str(csv), "-o", str(store)]) == 0


def test_the_live_view_names_the_file(store: Path) -> None:
    from mburst.analysis.live.store import LiveStore

    [line] = LiveStore(StoreFolder.open(store)).damage
    assert str(damaged_file(store)) in line


def test_metrics_count_the_file_until_it_is_removed(store: Path) -> None:
    pytest.importorskip("prometheus_client")
    from mburst.agent.metrics.exporter import Exporter
    from mburst.agent.metrics.meter import Meter
    from mburst.analysis.bursts.find import BurstDefinition

    exporter = Exporter(Meter(StoreFolder.open(store), BurstDefinition(), 0))

    def samples(name: str) -> list[Any]:
        return [
            (sample.labels, sample.value)
            for metric in exporter.collect()
            for sample in metric.samples
            if sample.name == name
        ]

    assert samples("mburst_damaged_files") == [({}, 1)]
    ages = samples("mburst_oldest_hot_log_age_seconds")
    assert {labels["table"] for labels, _ in ages} == {"recordings", "bins", "sources"}
    assert all(age > 0 for _, age in ages)
    assert main(["repair", str(store)]) == 0
    assert samples("mburst_damaged_files") == [({}, 0)]
