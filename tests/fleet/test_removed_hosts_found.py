"""An inventory that is wrong, or says little: what has arrived, or is known to be missing, has the last word."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleetlib import DATES, detected, files, rows
from racklib import DAY, HOUR, START
from test_removed_hosts import LAST, MINUTE, planned, shipped_until

from mburst.__main__ import main
from mburst.fleet.inventory import HostOf, read_inventory
from mburst.fleet.receipts import ShippedFile, list_receipts
from mburst.fleet.target import FleetTarget, open_target

AFTERNOON = START + 15 * HOUR
GONE = HostOf("r1", "a", removed_ns=AFTERNOON)


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
    import shutil

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
        detected(fleet_target, tmp_path, DATES[0], inventory=[*others, new], split=split)
        assert bool(rows(tmp_path, "incomplete")) == (new.added_ns is None)
    before = files(tmp_path)
    assert not detected(fleet_target, tmp_path, DATES[0], inventory=[*others, new], split=split).outcomes
    assert files(tmp_path) == before
    detected(fleet_target, tmp_path, DATES[1], inventory=[*others, HostOf(rack, "new")], split=split)
    detected(fleet_target, tmp_path, DATES[1], inventory=others, split=split)
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
