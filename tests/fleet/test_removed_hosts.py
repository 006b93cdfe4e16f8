"""Hosts come and go: an inventory states from when until when each is one of its rack. No day counts as complete that
lacks data of a host that was there, and a host that was removed makes no later day incomplete."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from fleetlib import DATES, detected, files, rows
from hypothesis import assume, given
from hypothesis import strategies as st
from racklib import DAY, HOUR, START

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import UsageError
from mburst.fleet.inventory import HostOf, read_inventory
from mburst.fleet.plan import PartitionPlan
from mburst.fleet.planning import plan
from mburst.fleet.receipts import Receipt, ShippedFile, list_receipts, write_receipt
from mburst.fleet.results import PartitionName, read_record
from mburst.fleet.status import status
from mburst.fleet.target import FleetTarget, open_target

MINUTE = 60 * 10**9
NEAR_NS = STOPPING_NS = 20 * MINUTE  # of docs/fleet.md: after a day, and after an `until`
LAST = "2026-11-22"  # on which the hosts of fleetlib stop
STOPPED = START + 2 * DAY + HOUR + 9 * 10**9
TABLES = ("bins", "sources", "recordings", "canary")
AFTERNOON = START + 15 * HOUR
GONE = HostOf("r1", "a", removed_ns=AFTERNOON)


def shipped_until(target: FleetTarget, until_ns: int, rack: str = "r1", host: str = "a", **more: object) -> None:
    """Has a host ship until a time, without any file."""
    facts = {
        "rack": rack, "host": host, "level": "all", "tables": TABLES, "definition": None, "since_ns": until_ns,
        "until_ns": until_ns, "written_ns": until_ns + HOUR, "every_ns": HOUR, "version": "1", "files": (),
    }  # fmt: skip
    write_receipt(target, Receipt(**{**facts, **more}))  # type: ignore[arg-type]


def planned(target: FleetTarget, folder: Path, date: str, *hosts: HostOf, **more: object) -> dict[str, PartitionPlan]:
    """Returns the plans of a date by rack, or by rack and host."""
    found = plan(target, open_target(folder / "results"), date, BurstDefinition(), inventory=hosts, **more)  # type: ignore[arg-type]
    return {of.name.rack if of.name.host is None else f"{of.name.rack} {of.name.host}": of for of in found}


def test_a_removed_host_makes_no_later_day_incomplete(fleet_target: Path, tmp_path: Path) -> None:
    both = [HostOf("r1", host, removed_ns=STOPPED) for host in ("a", "b")]
    assert not detected(fleet_target, tmp_path, *DATES, inventory=both).incomplete
    found = detected(fleet_target, tmp_path, LAST, inventory=both)
    assert {name.rack for name in found.incomplete} == {"r2", "r /3"}, "of which nothing is said"
    record = read_record(open_target(tmp_path), PartitionName(LAST, "r1", None))
    assert record and record.complete and record.files
    after = detected(fleet_target, tmp_path, "2026-11-24", inventory=both)
    assert {outcome.rack for outcome in after.outcomes} == {"r2", "r /3"}, (
        "nothing of r1 is expected, and there is nothing"
    )


def test_what_a_removed_host_did_not_ship_is_missing(fleet_target: Path, tmp_path: Path) -> None:
    later = [HostOf("r1", "a", removed_ns=STOPPED), HostOf("r1", "b", removed_ns=STOPPED + 3 * HOUR)]
    detected(fleet_target, tmp_path, LAST, inventory=later)
    [lacking] = [row for row in rows(tmp_path, "incomplete") if row["rack"] == "r1"]
    assert (lacking["host"], lacking["reason"]) == ("b", "behind")
    assert 3 * HOUR - MINUTE < lacking["behind_ns"] <= 3 * HOUR, "and not the rest of the day"


def test_a_host_that_ships_on_was_not_removed(fleet_target: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    early = [HostOf("r1", host, removed_ns=START + DAY) for host in ("a", "b")]
    found = detected(fleet_target, tmp_path, LAST, inventory=early, doubted=heard.append)
    assert {name.rack for name in found.incomplete} == {"r1", "r2", "r /3"}
    assert len(heard) == 2 and heard[0].startswith(
        "host a of rack r1 has shipped measurements until 2026-11-22 01:00:09"
    )
    assert "after its `until` in the inventory, 2026-11-21 00:00:00" in heard[0]


def test_days_are_detected_again_once_a_host_is_removed(fleet_target: Path, tmp_path: Path) -> None:
    """Also a day of which nothing is expected any more, if it was detected as incomplete before."""
    for date in (LAST, "2026-11-23"):
        detected(fleet_target, tmp_path / "results", date)
    assert {row["date"] for row in rows(tmp_path / "results", "incomplete") if row["rack"] == "r1"} == {
        LAST,
        "2026-11-23",
    }
    both = [HostOf("r1", host, removed_ns=STOPPED) for host in ("a", "b")]
    detected(fleet_target, tmp_path / "results", LAST, "2026-11-23", inventory=both)
    assert not [row for row in rows(tmp_path / "results", "incomplete") if row["rack"] == "r1"]
    before = files(tmp_path / "results")
    assert not detected(fleet_target, tmp_path / "results", LAST, inventory=both).outcomes
    assert files(tmp_path / "results") == before


def test_partitions_of_hosts(fleet_target: Path, tmp_path: Path) -> None:
    removed = [HostOf("r1", "a", removed_ns=STOPPED), HostOf("r1", "new", added_ns=START + 3 * DAY)]
    target = open_target(fleet_target)
    assert [bool(of.behind) for of in planned(target, tmp_path, LAST, *removed, split="host", rack="r1").values()] == [
        False,
        True,
    ]
    assert [*planned(target, tmp_path, "2026-11-23", *removed, split="host", rack="r1")] == ["r1 b", "r1 new"]


def test_a_host_is_expected_from_when_it_was_added(tmp_path: Path) -> None:
    target, new = open_target(tmp_path / "target"), HostOf("r1", "new", added_ns=START + DAY + 12 * HOUR)
    assert not planned(target, tmp_path, DATES[0], new)
    assert planned(target, tmp_path, DATES[1], new)["r1"].behind == {"new": None}
    shipped_until(target, START + 6 * HOUR, host="new")
    assert planned(target, tmp_path, DATES[0], new)["r1"].behind == {"new": START + 6 * HOUR}, "it was there before"
    assert planned(target, tmp_path, "2026-11-18", new)["r1"].behind == {}


def test_a_host_moves_to_another_rack(tmp_path: Path) -> None:
    target, moved = open_target(tmp_path / "target"), START + 10 * HOUR
    hosts = [HostOf("r1", "a", removed_ns=moved), HostOf("r2", "a", added_ns=moved)]
    shipped_until(target, moved - MINUTE)
    shipped_until(target, START + 3 * DAY, rack="r2")
    assert {rack: dict(of.behind) for rack, of in planned(target, tmp_path, DATES[0], *hosts).items()} == {
        "r1": {"a": moved - MINUTE},
        "r2": {},
    }, "a minute has not arrived"
    shipped_until(target, moved, written_ns=moved + 2 * HOUR)
    assert not any(of.behind for of in planned(target, tmp_path, DATES[0], *hosts).values())
    assert [*planned(target, tmp_path, DATES[1], *hosts)] == ["r2"]


def test_what_a_removed_host_lacked_on_its_days_stays(tmp_path: Path) -> None:
    """Its level, and tables that it did not ship, concern the days on which it was there alone."""
    target, gone = open_target(tmp_path / "target"), HostOf("r1", "a", removed_ns=START + DAY)
    shipped_until(target, START + DAY, level="bursts", tables=())
    lacking = planned(target, tmp_path, DATES[0], gone)["r1"].missing
    assert "host a ships no rows: its level is bursts" in lacking and len(lacking) == 1 + len(TABLES)
    shipped_until(target, START + 3 * DAY, host="b")
    assert planned(target, tmp_path, DATES[1], gone)["r1"].missing == ()
    assert planned(target, tmp_path, DATES[1])["r1"].missing == lacking


@pytest.mark.parametrize(("until_ns", "behind"), [(DAY + 20 * MINUTE, False), (DAY + 20 * MINUTE - 1, True)])
def test_a_day_is_whole_once_20_minutes_more_have_arrived(tmp_path: Path, until_ns: int, behind: bool) -> None:
    shipped_until(target := open_target(tmp_path / "target"), START + until_ns)
    [found] = planned(target, tmp_path, DATES[0], HostOf("r1", "a")).values()
    assert bool(found.behind) == behind


@pytest.mark.parametrize(("later_ns", "doubts"), [(20 * MINUTE, 0), (20 * MINUTE + 1, 1)])
def test_measurements_until_20_minutes_after_an_until_are_of_a_removed_host(
    tmp_path: Path, later_ns: int, doubts: int
) -> None:
    shipped_until(target := open_target(tmp_path / "target"), START + later_ns)
    heard: list[str] = []
    planned(target, tmp_path, DATES[0], HostOf("r1", "a", removed_ns=START), doubted=heard.append)
    assert len(heard) == doubts


TIMES = st.integers(-30, 60).map(lambda hours: START + hours * HOUR) | st.sampled_from(
    [START, START + DAY, START + DAY + NEAR_NS, START - 1, START + 1, START + DAY + 1]
)


@given(TIMES, st.none() | TIMES, st.none() | TIMES)
def test_a_host_is_behind_if_something_that_was_expected_has_not_arrived(
    shipped_ns: int, added_ns: int | None, removed_ns: int | None
) -> None:
    """Compared with a search of all times at which that can change."""
    assume(added_ns is None or removed_ns is None or added_ns < removed_ns)
    of = HostOf("r1", "a", added_ns=added_ns, removed_ns=removed_ns)
    limits = [START, START + DAY, START + DAY + NEAR_NS, shipped_ns, *filter(None, (added_ns, removed_ns))]
    times = sorted({at + by for at in limits for by in (-1, 0, 1)})
    is_doubted = removed_ns is not None and shipped_ns > removed_ns + STOPPING_NS
    was_early = added_ns is not None and START < shipped_ns <= added_ns
    listed = [
        at
        for at in times
        if is_doubted or was_early or ((added_ns is None or at >= added_ns) and (removed_ns is None or at < removed_ns))
    ]
    on_the_day = any(START <= at < START + DAY for at in listed)
    wanted = on_the_day and any(shipped_ns <= at < START + DAY + NEAR_NS for at in listed)
    assert _is_behind(of, shipped_ns) == wanted


def _is_behind(of: HostOf, shipped_ns: int) -> bool:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        target = open_target(f"{folder}/target")
        shipped_until(target, shipped_ns)
        return any(plan.behind for plan in planned(target, Path(folder), DATES[0], of).values())


def test_status_of_an_inventory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target, now = open_target(tmp_path / "archive"), time.time_ns()
    for host, until_ns in (("ships", now), ("gone", now - 5 * DAY), ("back", now - DAY), ("ahead", now + 2 * HOUR)):
        shipped_until(target, until_ns, host=host, written_ns=until_ns)
    (tmp_path / "hosts.csv").write_text(
        "rack,host,from,until\n"
        + "".join(
            f"r1,{host},{_utc(begin)},{_utc(end)}\n"
            for host, begin, end in (
                ("ships", None, None),
                ("gone", None, now - 5 * DAY),
                ("back", None, now - 5 * DAY),
                ("ahead", None, now - HOUR),
                ("never", now - 3 * HOUR, None),
                ("new", now - HOUR, None),
                ("planned", now + DAY, None),
                ("left", None, now - DAY),
            )
        )
    )
    heard: list[str] = []
    listed = read_inventory(tmp_path / "hosts.csv")
    found = {of.host: of for of in status(target, now_ns=now, inventory=listed, doubted=heard.append)}
    assert {host: of.silent for host, of in found.items()} == {
        "ahead": "its clock is 2 h ahead",
        "back": "no receipt for 1 d",
        "gone": "",
        "never": "never shipped here",
        "ships": "",
    }
    assert found["gone"].removed_ns == (now - 5 * DAY) // 10**9 * 10**9 and found["ships"].removed_ns is None
    assert [text.split(" of rack")[0] for text in heard] == ["host ahead", "host back"]
    words = ["fleet", "status", str(tmp_path / "archive"), "--inventory", str(tmp_path / "hosts.csv")]
    assert main(words) == 1
    lines = {line.split()[1]: line for line in capfd.readouterr().out.splitlines()}
    assert "never shipped" in lines["never"] and f"removed at {_utc(now - 5 * DAY).replace('T', ' ')}" in lines["gone"]
    assert main([*words, "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["silent"] == 3
    assert main([*words[:3], "--rack", "r7", *words[3:]]) == 1
    assert "no host of rack r7 has shipped here" in capfd.readouterr().err
    assert main([*words[:2], str(tmp_path / "mistyped"), *words[3:]]) == 1
    printed = capfd.readouterr()
    assert printed.out.count("never shipped") == 2 and "mistyped: no host has shipped here" in printed.err


def _utc(ns: int | None) -> str:
    return "" if ns is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9))


def test_the_commands_read_the_times(
    fleet_target: Path, fleet_done: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(fleet_done, tmp_path / "results")
    (tmp_path / "hosts.csv").write_text(
        "rack,host,from,until\nr1,a,,2026-11-21T06:00\nr1,b,2026-11-20,\nr9,x,2026-11-22,\n"
    )
    listed = ["--inventory", str(tmp_path / "hosts.csv")]
    words = [
        "fleet",
        "detect",
        str(fleet_target),
        "--day",
        LAST,
        "-o",
        str(tmp_path / "results"),
        "--jobs",
        "1",
        *listed,
    ]
    assert main(words) == 0
    assert "host a of rack r1 has shipped measurements until" in capfd.readouterr().err
    assert main(["fleet", "ask", str(tmp_path / "results"), "coverage", "--day", DATES[1], "--json", *listed]) == 0
    of_rack = {row["rack"]: row for row in json.loads(capfd.readouterr().out)}
    assert "r9" not in of_rack and of_rack["r1"]["hosts_expected"] == 2
    assert of_rack["r1"]["recorded_share"] == pytest.approx(24 / (24 + 12), rel=1e-3), "12 h each, of 12 h and 24 h"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("yesterday,", r"hosts\.csv:2: invalid time 'yesterday'"),
        (",24h", r"hosts\.csv:2: invalid time '24h'"),
        ("2026-11-20,2026-11-20", r"hosts\.csv:2: until is not after from"),
        ("2026-11-20,2026-11-19T23:00", r"hosts\.csv:2: until is not after from"),
        ("2026-11-20,\nr1,a,,", r"hosts\.csv: host a of rack r1 has two lines that differ"),
    ],
)
def test_invalid_times_are_refused(tmp_path: Path, cells: str, message: str) -> None:
    (tmp_path / "hosts.csv").write_text(f"rack,host,from,until\nr1,a,{cells}\n")
    with pytest.raises(UsageError, match=message):
        read_inventory(tmp_path / "hosts.csv")


# --- an inventory that is wrong, or says little: what has arrived, or is known to be missing, has the last word -------


def bins_key(first_ns: int, last_ns: int, host: str = "a") -> str:
    """Returns the key of a file of bins of a host of rack r1."""
    return f"bins/date=2026-11-21/rack=r1/{host}-{START:020}-{'a' * 12}-0.0.c9.{first_ns}-{last_ns}.{'b' * 16}.parquet"


def damage_newest(folder: Path, target: FleetTarget) -> None:
    """Overwrites the newest receipt of host a."""
    newest = max(list_receipts(target, "r1", "a"), key=lambda name: name.written_ns)
    (folder / "target" / newest.key).unlink()
    (folder / "target" / newest.key).write_text("{}")


def test_a_watermark_that_goes_back(tmp_path: Path) -> None:
    """The host has shipped measurements of later days, and states no more that none of them is missing."""
    heard: list[str] = []
    target = open_target(tmp_path / "target")
    shipped_until(target, START + 3 * DAY)
    shipped_until(target, START + 10 * HOUR, written_ns=START + 4 * DAY)
    found = planned(target, tmp_path, DATES[1], GONE, doubted=heard.append)
    assert found["r1"].behind == {"a": START + 10 * HOUR}
    assert ["until 2026-11-23 00:00:00" in text for text in heard] == [True]


@pytest.mark.parametrize("split", ["rack", "host"])
def test_a_damaged_receipt_of_a_removed_host(tmp_path: Path, split: str) -> None:
    """What it states may be of the days around it, and not of later ones."""
    target, name = open_target(tmp_path / "target"), "r1" if split == "rack" else "r1 a"
    shipped_until(target, AFTERNOON + 10 * MINUTE)
    shipped_until(target, START + 40 * HOUR)
    damage_newest(tmp_path, target)
    [line] = planned(target, tmp_path, DATES[1], GONE, split=split)[name].missing
    assert line.endswith(": a damaged receipt")
    shipped_until(target, START + 20 * DAY, host="b")
    assert not any(of.missing for of in planned(target, tmp_path, "2026-11-28", GONE, split=split).values())


@pytest.mark.parametrize("split", ["rack", "host"])
def test_files_that_a_removed_host_could_not_ship(tmp_path: Path, split: str) -> None:
    """Those of a day make it incomplete. A file of which no time is known is not of a day without the host."""
    target, name = open_target(tmp_path / "target"), "r1" if split == "rack" else "r1 a"
    lost, strange = bins_key(START + DAY, START + DAY + HOUR), "bins/date=2026-11-20/rack=r1/x.parquet"
    shipped_until(target, AFTERNOON, missing=(f"{lost}: damaged", f"{strange}: not a file name of mburst"))
    assert len(planned(target, tmp_path, DATES[0], GONE, split=split)[name].missing) == 2
    assert planned(target, tmp_path, DATES[1], GONE, split=split)[name].missing == (f"{lost}: damaged",)
    shipped_until(target, START + 20 * DAY, host="b")
    assert not any(of.missing for of in planned(target, tmp_path, LAST, GONE, split=split).values())


def test_rows_of_a_day_before_the_host_was_to_be_there(tmp_path: Path) -> None:
    """What the receipts say about the rest of that day counts."""
    target, new = open_target(tmp_path / "target"), HostOf("r1", "a", added_ns=START + DAY)
    early = ShippedFile("bins", bins_key(AFTERNOON, AFTERNOON + HOUR), 1, "0" * 64, 1, AFTERNOON, AFTERNOON + HOUR)
    compacted = (START - 3 * DAY, START + HOUR)
    shipped_until(target, START + 5 * DAY, compacted_ns=compacted, files=(early,))
    [line] = planned(target, tmp_path, DATES[0], new)["r1"].missing
    assert "were compacted before they were shipped" in line
    assert not planned(target, tmp_path, "2026-11-19", new), "of which nothing has arrived"


def test_what_a_host_shipped_itself_is_not_replaced_by_nothing(fleet_by_host: Path, tmp_path: Path) -> None:
    """A host that once shipped rows, and then its bursts, of days that an inventory does not know it on."""
    shutil.copytree(fleet_by_host, tmp_path / "results")
    target = open_target(tmp_path / "target")
    shipped_until(target, START - 5 * DAY, host="a")
    before = files(tmp_path / "results")
    for wrong in (HostOf("r1", "a", added_ns=START + 9 * DAY), HostOf("r1", "a", removed_ns=START - 5 * DAY)):
        detected(tmp_path / "target", tmp_path / "results", inventory=[wrong])
        assert files(tmp_path / "results") == before


@pytest.mark.parametrize("split", ["rack", "host"])
@pytest.mark.parametrize("rack", ["r1", "r9"])
def test_a_host_that_was_expected_by_mistake(fleet_target: Path, tmp_path: Path, split: str, rack: str) -> None:
    """A day that lacked a host that never shipped is detected again with another inventory, also where no other host is
    expected."""
    others = [HostOf("r1", "a"), HostOf("r9", "y", added_ns=START + 9 * DAY)]
    for new in (HostOf(rack, "new"), HostOf(rack, "new", added_ns=START + 9 * DAY)):
        detected(fleet_target, tmp_path, DATES[0], inventory=[*others, new], split=split, rack=rack)
        assert bool(rows(tmp_path, "incomplete")) == (new.added_ns is None)
    before = files(tmp_path)
    assert not detected(fleet_target, tmp_path, DATES[0], inventory=[*others, new], split=split, rack=rack).outcomes
    assert files(tmp_path) == before
    detected(fleet_target, tmp_path, DATES[1], inventory=[*others, HostOf(rack, "new")], split=split, rack=rack)
    detected(fleet_target, tmp_path, DATES[1], inventory=others, split=split, rack=rack)
    assert not rows(tmp_path, "incomplete"), "and if it is in no line any more"


def test_status_says_what_a_removed_host_did_not_ship(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = open_target(tmp_path / "archive")
    shipped_until(target, START + 9 * HOUR)
    (tmp_path / "hosts.csv").write_text("rack,host,until\nr1,a,2026-11-20T15:00\n")
    assert main(["fleet", "status", str(tmp_path / "archive"), "--inventory", str(tmp_path / "hosts.csv")]) == 0
    assert "removed at 2026-11-20 15:00:00, 6 h before it not shipped" in capfd.readouterr().out


def test_names_of_columns_may_have_spaces(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_bytes(b"\xef\xbb\xbfrack, host, until\r\nr1, a , 2026-11-20T15:00Z \r\n")
    assert read_inventory(tmp_path / "hosts.csv") == {GONE}
