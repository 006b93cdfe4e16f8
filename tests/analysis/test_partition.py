"""Bursts of files that are listed one by one are those of the store, however the files are divided."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import hot_logs, rows, sealed_files, write

from mburst.analysis.bursts.find import COLUMNS, BurstDefinition, find_bursts
from mburst.analysis.bursts.listed import find_bursts_in
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder, listed
from mburst.sql.format.filenames import SealedName

MS, DAY = 10**6, 86_400 * 10**9
MIDNIGHT = 1_795_132_800 * 10**9
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s
HOSTS = (("r1", "a"), ("r1", "b"), ("r2", "c"))

# Runs of hot bins as (bins before the run, bins of the run), some of which cross midnight, and whether the
# recording overlaps the other one of the host. Each list of cuts states where segments end.
hot = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=8)
recordings = st.lists(
    st.tuples(st.sampled_from(HOSTS), hot, st.lists(st.integers(0, 80), max_size=2)), min_size=2, max_size=3
)


def bins_of(host: str, rack: str, number: int, runs: list[tuple[int, int]]) -> list[dict[str, Any]]:
    names = {"recording_id": f"{host}-{number}", "host": host, "rack": rack}
    at, found = MIDNIGHT - 40 * MS + number * 3 * MS, []
    for quiet, full in runs:
        at += quiet * MS
        found += [{**names, "ts_ns": at + i * MS, "wire_bytes": FULL, "bytes": FULL - 24} for i in range(full)]
        at += full * MS
    return found


def filled(folder: Path, given_: list[Any]) -> StoreFolder:
    """A store with these recordings, bins and senders in several segments each."""
    store = StoreFolder.create(folder)
    for number, ((rack, host), runs, cuts) in enumerate(given_):
        bins = bins_of(host, rack, number, runs)
        names = {"recording_id": f"{host}-{number}", "host": host, "rack": rack, "capture_id": f"{host}-{number}"}
        write(
            store,
            "recordings",
            {
                **names,
                "writer_id": f"{number:012x}",
                "start_ns": bins[0]["ts_ns"],
                "end_ns": bins[-1]["ts_ns"],
                "written_ns": MIDNIGHT,
            },
        )
        for low, high in zip([0, *sorted(cuts)], [*sorted(cuts), len(bins)], strict=True):
            if part := bins[low:high]:
                write(store, "bins", *part)
                write(
                    store,
                    "sources",
                    *(
                        {
                            **names,
                            "ts_ns": row["ts_ns"],
                            "source": f"10.0.0.{row['ts_ns'] // MS % 3}",
                            "bytes": FULL - 24,
                            "first_ns": row["ts_ns"],
                            "last_ns": row["ts_ns"] + MS - 1,
                        }
                        for row in part
                    ),
                )
    return store


def plain(bursts: Any) -> list[str]:
    return sorted(json.dumps({name: burst[name] for name in COLUMNS}, sort_keys=True) for burst in bursts)


def of_store(store: StoreFolder, definition: BurstDefinition | None = None) -> list[str]:
    with store.connect() as con:
        return plain(find_bursts(con, definition))


def by_host(store: StoreFolder) -> list[dict[str, list[Path]]]:
    """Returns the files of each rack and host, as a list of copies would have them."""
    found: dict[tuple[str, str], dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for table, paths in store.files().items():
        for path in paths:
            name = SealedName.parse(path.name)
            assert name is not None
            found[path.parent.name, name.segment.host][table].append(path)
    return list(found.values())


@pytest.mark.costly
@settings(max_examples=3, deadline=None)
@given(
    recordings,
    st.sampled_from(
        [
            None,
            BurstDefinition(threshold=0.9, join_ns=2 * MS),
            BurstDefinition(bin_ns=4 * MS, threshold=0.7, release=0.3),
        ]
    ),
)
def test_the_parts_of_a_store_have_its_bursts(
    tmp_path_factory: pytest.TempPathFactory, given_: list[Any], definition: BurstDefinition | None
) -> None:
    store = filled(tmp_path_factory.mktemp("parts") / "store", given_)
    whole = of_store(store, definition)
    for parts in (by_host(store), [store.files(rack) for rack in ("r1", "r2")]):
        found = [find_bursts_in(part, definition, threads=1) for part in parts]
        assert sorted(line for one in found for line in plain(one.bursts.to_pylist())) == whole
        assert not any(one.damaged for one in found)
    days = [
        find_bursts_in(
            store.files(), definition, since_ns=MIDNIGHT + back - 2 * DAY, until_ns=MIDNIGHT + DAY
        ).bursts.to_pylist()
        for back in (0, DAY)
    ]  # each with a day of margin around it
    kept = [
        [burst for burst in day if (burst["start_ns"] >= MIDNIGHT) == after]
        for day, after in zip(days, (False, True), strict=True)
    ]
    assert plain([burst for day in kept for burst in day]) == whole


def test_a_burst_crosses_midnight_and_the_edge_of_a_segment(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", [(("r1", "a"), [(30, 20)], [4, 13]), (("r1", "a"), [(27, 20)], [])])
    assert len(sealed_files(store, "bins")) == 6  # one more file for each segment that crosses midnight
    found = find_bursts_in(store.files()).bursts.to_pylist()
    assert [burst["duration_ns"] for burst in found] == [20 * MS, 20 * MS]
    assert plain(found) == of_store(store)


def test_another_process_reads_copies_in_one_folder(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", [(("r1", "a"), [(5, 3), (9, 9)], [7]), (("r2", "c"), [(2, 2)], [])])
    files = {
        table: [str(shutil.copy(path, tmp_path / path.name)) for path in paths]
        for table, paths in store.files().items()
    }
    before = sorted(path.name for path in tmp_path.iterdir())
    shutil.rmtree(store.path / "bins")
    answer = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, sys; from pathlib import Path\n"
            "from mburst.analysis.bursts.listed import find_bursts_in\n"
            "files = {table: map(Path, paths) for table, paths in json.load(sys.stdin).items()}\n"
            "print(json.dumps(find_bursts_in(files).bursts.to_pylist()))",
        ],
        input=json.dumps(files),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(json.loads(answer.stdout)) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # no file is written beside them


@pytest.mark.parametrize("table", ["bins", "sources", "recordings"])
@pytest.mark.parametrize("missing", [True, False])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, table: str, missing: bool) -> None:
    store = filled(tmp_path / "store", [(("r1", "a"), [(5, 3), (15, 9)], [3]), (("r1", "b"), [(2, 2)], [])])
    files = store.files()
    path = files[table][0]
    if missing:
        path.rename(tmp_path / "elsewhere")
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    found = find_bursts_in(files)
    assert [(damaged.path, damaged.table, damaged.host) for damaged in found.damaged] == [(str(path), table, "a")]
    assert ("No such file" if missing else "does not match its checksum") in found.damaged[0].reason
    answer = found.bursts.to_pylist()
    if not missing:
        assert plain(answer) == of_store(store)
    assert all("incomplete" not in burst["quality"] for burst in answer if burst["host"] == "b")
    if table == "sources":
        assert any("incomplete" in burst["quality"] for burst in answer)


def test_bins_without_their_recording_are_refused(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", [(("r1", "a"), [(5, 3)], []), (("r1", "b"), [(5, 3)], [])])
    files = store.files()
    for given_ in (files["recordings"][:1], []):
        with pytest.raises(MburstError) as caught:
            find_bursts_in({**files, "recordings": given_})
        assert "no row of `recordings`" in str(caught.value) and caught.value.hint
    with pytest.raises(UsageError):
        find_bursts_in({"bin": files["bins"]})


def test_hot_logs_are_files_too(tmp_path: Path) -> None:
    """The row of a recording stays in a hot log while the recording goes on."""
    store = filled(tmp_path / "store", [(("r1", "a"), [(5, 3)], [])])
    writer = store.writer("bins", "a", "r1")
    writer.append(rows("bins", *bins_of("a", "r1", 0, [(5, 3), (20, 4)])[3:]))
    files = store.files()
    assert hot_logs(store, "bins")[0] in files["bins"]
    assert plain(find_bursts_in(files).bursts.to_pylist()) == of_store(store)
    writer.close()
    [gone] = find_bursts_in(files).damaged
    assert gone.path.endswith(".log")


@contextmanager
def rewritten(store: StoreFolder, bursts: list[tuple[int, int]]) -> Iterator[None]:
    """Writes the bins of host a again: in the log of a writer within the context, sealed after it."""
    shutil.rmtree(store.path / "bins")
    with store.writer("bins", "a", "r1") as writer:
        for row in bins_of("a", "r1", 0, bursts):
            writer.append(rows("bins", row))
        yield


@pytest.mark.parametrize("harmed", [False, True])
def test_rows_that_a_copy_has_twice_count_once(tmp_path: Path, harmed: bool) -> None:
    """A hot log from before the segment was sealed, and a sealed file in two folders."""
    store = filled(tmp_path / "store", [(("r1", "a"), [(5, 3)], [])])
    with rewritten(store, [(5, 3)]):
        [log] = hot_logs(store, "bins")
        cut_short = log.read_bytes()
    files = store.files()
    [sealed] = files["bins"]
    (tmp_path / "again").mkdir()
    again, before = tmp_path / "again" / sealed.name, tmp_path / log.name
    shutil.copyfile(sealed, again)
    if harmed:
        again.write_bytes(bytes(again.stat().st_size))
    before.write_bytes(cut_short[: len(cut_short) // 2])
    found = find_bursts_in({**files, "bins": [before, *files["bins"], again]}, BurstDefinition())
    alone = find_bursts_in(files, BurstDefinition()).bursts
    assert found.bursts.drop(["quality"]).equals(alone.drop(["quality"])) and len(alone) == 1
    [second] = found.damaged
    assert second.reason == "a second copy of the same part of a segment" and (second.path == str(again) or not harmed)


@pytest.mark.parametrize("harmed", ["none", "first", "both"])
@pytest.mark.parametrize("log", ["whole", "cut", "unreadable"])
def test_a_log_beside_its_sealed_files_counts_as_in_the_store(tmp_path: Path, log: str, harmed: str) -> None:
    """A segment that crosses midnight, in two sealed files, beside its hot log: the store was copied while it was
    sealed."""
    store = filled(tmp_path / "store", [(("r1", "a"), [(30, 20)], [])])
    with rewritten(store, [(30, 20)]):
        [path] = hot_logs(store, "bins")
        content = path.read_bytes()
    files = sealed_files(store, "bins")
    assert len(files) == 2
    for file in files[: ("none", "first", "both").index(harmed)]:
        file.write_bytes(file.read_bytes()[:-1])
    path.write_bytes({"whole": content, "cut": content[: len(content) // 8], "unreadable": b"\0" * 99}[log])
    named = {**store.files(), "bins": [path, *files]}
    with store.connect() as con, listed.connect(named) as alone:
        count, damage = "SELECT count(*), count(DISTINCT ts_ns) FROM bins", "FROM damaged_files ORDER BY path"
        assert alone.execute(count).fetchall() == con.execute(count).fetchall()
        assert [(row[0], row[2]) for row in alone.execute(damage).fetchall()] == [
            (row[0], row[2]) for row in con.execute(damage).fetchall()
        ]
