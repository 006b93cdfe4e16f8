"""Receipts that were removed are noticed: their days are incomplete until the host has stated all of their files again.
What was detected with them is not replaced by less."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fleetlib import DATES, detected, files, rows
from racklib import DAY, HOUR, START, fill
from shiplib import call, has_arrived, sealed, sums

from mburst.__main__ import main
from mburst.fleet import receipts, ship
from mburst.fleet.detect import MADE_OF_MORE
from mburst.fleet.receipts import list_receipts, read_receipt, read_receipts
from mburst.fleet.ship import Shipped
from mburst.fleet.target import TargetError, open_target
from mburst.sql import StoreFolder

REMOVED = "a receipt that was removed"


class Place:
    """A store of host a and what it shipped: a receipt for each of three days, in `written`."""

    def __init__(self, folder: Path) -> None:
        self.store, self.target = StoreFolder.create(folder / "store"), folder / "target"
        self.written: list[str] = []
        for day in range(3):
            fill(self.store, {"a": [(50, 10), (500, 10)]}, start=START + day * DAY)
            self.ship()

    def ship(self) -> Shipped:
        done = call(self.store, open_target(self.target))
        self.written += [key for host in done.hosts for key in host.receipts]
        return done

    def remove(self, *keys: str) -> None:
        for key in keys:
            (self.target / key).unlink()

    def reasons(self, date: str) -> set[str]:
        """Detects a day into a new place, and returns why it is incomplete."""
        results = self.target.parent / f"results-{len([*self.target.parent.iterdir()])}"
        detected(self.target, results, date)
        return {row["reason"] for row in rows(results, "incomplete")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_each_receipt_names_the_one_before_it(place: Place) -> None:
    """Also if the ledger is lost, and if several were written within a second."""
    shutil.rmtree(place.store.path / "shipped")
    fill(place.store, {"a": []}, start=START + 3 * DAY)
    place.ship()
    target = open_target(place.target)
    found = {name.key: read_receipt(target, name).previous for name in list_receipts(target)}
    assert [found[key] for key in place.written] == [(), *((key,) for key in place.written[:-1])]


@pytest.mark.parametrize("gone", [[0], [1], [0, 1]])
def test_a_day_without_its_receipts_is_not_complete(place: Place, gone: list[int]) -> None:
    place.remove(*(place.written[of] for of in gone))
    assert place.reasons(DATES[0]) == {f"{place.written[max(gone)]}: {REMOVED}"}


def test_receipts_of_long_ago_concern_no_later_day(place: Place) -> None:
    """As a rule of the bucket removes them."""
    target = open_target(place.target)
    newest = max(read_receipts(target), key=lambda receipt: receipt.written_ns)
    old = f"{receipts.folder_of('r1', 'a')}20261119T120000Z-{'0' * 16}.json"
    receipts.write_receipt(
        target, newest._replace(previous=(old,), until_ns=START + 3 * DAY, written_ns=newest.written_ns + 1)
    )
    assert place.reasons("2026-11-19") == {f"{old}: {REMOVED}"}
    assert not place.reasons("2026-11-21")


@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1], [0, 1, 2]])
def test_a_host_that_has_all_files_states_them_again(place: Place, gone: list[int]) -> None:
    place.remove(*(place.written[of] for of in gone))
    done = place.ship()
    [trouble] = map(str, done.troubles)
    count = "1 receipt was" if len(gone) == 1 else f"{len(gone)} receipts were"
    assert trouble.startswith(f"{place.target}: {count} removed that host a in rack r1 had written: their files")
    assert sums(done) == (0, 3 * len(gone), 1)
    has_arrived(place.store, open_target(place.target))
    assert not place.reasons(DATES[0])
    assert sums(place.ship()) == (0, 0, 0)


@pytest.mark.parametrize("gone", [[0], [1], [0, 1], [0, 1, 2]])
def test_what_a_host_cannot_state_again_stays_unknown(place: Place, gone: list[int]) -> None:
    """A file of the removed receipts is no longer on the host, as after compaction."""
    lost = next(path for key, path in sealed(place.store).items() if DATES[gone[0]] in key and key.startswith("bins"))
    lost.unlink()
    assert sums(place.ship()) == (0, 0, 0)
    place.remove(*(place.written[of] for of in gone))
    place.ship()
    place.ship()
    assert any(reason.endswith(REMOVED) for reason in place.reasons(DATES[0]))


AGAIN = [[[0], [1]], [[0], [3]], [[0], [1], [4]], [[1], [0, 2, 3]], [[0, 1, 2], [3]], [[0], [1, 3]]]


@pytest.mark.parametrize("gone", AGAIN)
def test_receipts_may_be_removed_again(place: Place, gone: list[list[int]]) -> None:
    """Also the one that restates the others. Numbers are indexes of `written`."""
    for number, some in enumerate(gone):
        place.remove(*(place.written[of] for of in some))
        assert place.ship().troubles and place.ship().troubles == []
        assert sums(place.ship()) == (0, 0, 0)
        assert not place.reasons(DATES[0]), number
        has_arrived(place.store, open_target(place.target))


def test_a_receipt_that_a_restated_one_named_is_missed_when_it_is_removed(place: Place) -> None:
    """Nothing is left of the one that named it."""
    place.remove(place.written[1])
    place.ship()
    assert not place.reasons(DATES[0])
    place.remove(place.written[0])
    assert place.reasons(DATES[0]) == {f"{place.written[0]}: {REMOVED}"}


def test_receipts_that_were_written_at_once_are_both_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two calls lists the receipts before the other writes its own."""
    before, calls = receipts.list_receipts, list[Shipped]()

    def listed(*arguments: Any) -> Any:
        found = list(before(*arguments))
        if len(calls) < 1:
            calls.append(Shipped())
            fill(place.store, {"a": [(5_000, 10)]}, start=START + 6 * HOUR, length=HOUR)
            place.ship()
        return iter(found)

    fill(place.store, {"a": []}, start=START + 3 * DAY)
    with monkeypatch.context() as patched:
        patched.setattr(receipts, "list_receipts", listed)
        place.ship()
    *_, one, other = place.written
    fill(place.store, {"a": []}, start=START + 4 * DAY)
    place.ship()
    place.remove(one, other)
    assert place.reasons(DATES[0]) == {f"{one}: {REMOVED}", f"{other}: {REMOVED}"}


@pytest.mark.parametrize("ended", [KeyboardInterrupt, TargetError])
def test_a_call_that_was_interrupted_is_continued(
    place: Place, monkeypatch: pytest.MonkeyPatch, ended: type[BaseException]
) -> None:
    """After it had written a receipt of a part of what was removed."""
    place.remove(*place.written[:2])
    written = ship._HostShipping._write_receipt

    def interrupted(self: Any, until_ns: int) -> None:
        written(self, until_ns)
        raise ended("", "")

    with monkeypatch.context() as patched, pytest.raises(ended):
        patched.setattr(ship, "MOST_FILES", 2)
        patched.setattr(ship._HostShipping, "_write_receipt", interrupted)
        place.ship()
    place.ship()
    assert not place.reasons(DATES[0])
    assert sums(place.ship()) == (0, 0, 0)


def test_without_the_ledger_nobody_knows_whether_all_was_stated_again(place: Place) -> None:
    place.remove(place.written[1])
    shutil.rmtree(place.store.path / "shipped")
    assert not place.ship().troubles
    assert place.reasons(DATES[0]) == {f"{place.written[1]}: {REMOVED}"}


def test_receipts_of_files_that_no_host_has_may_be_removed(place: Place) -> None:
    """No trouble is reported, and nothing is sent again."""
    [first, *_] = read_receipts(open_target(place.target))
    for file in first.files:
        (place.store.path / file.key).unlink()
    place.ship()
    place.remove(receipts.key_of(first, first.to_json()))
    done = place.ship()
    assert not done.troubles and sums(done) == (0, 0, 1)
    assert any(reason.endswith(REMOVED) for reason in place.reasons(DATES[0]))


# --- what was detected ------------------------------------------------------------------------------------------------


def bursts(results: Path) -> int:
    return len(rows(results, "bursts"))


@pytest.mark.parametrize("split", ["rack", "host"])
@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("record", ["sound", "damaged"])
def test_a_day_is_not_replaced_by_less_although_more_arrives(
    place: Place, tmp_path: Path, split: str, interrupted: bool, record: str
) -> None:
    results = tmp_path / "results"
    detected(place.target, results, DATES[0], split=split)
    before = files(results)
    add(place)
    if interrupted:  # the plan is there, and the partition is not
        detected(place.target, results, DATES[0], split=split, engine=lambda *_: [])
    place.remove(place.written[0])
    if record == "damaged":
        [path] = results.glob("partitions/*/*/*[!n].json")
        path.write_text("{}")
    found = detected(place.target, results, DATES[0], split=split)
    [outcome] = found.outcomes
    assert outcome.error.endswith(MADE_OF_MORE.format(found.incomplete[0].record_key))
    assert ("damaged: not the record of a partition" in outcome.error) == (record == "damaged")
    assert [str(name) for name in found.incomplete] == [str(outcome.name)] and not found.done
    assert files(results) == before and bursts(results) == 2
    for path in results.glob("partitions/*/*/*[!n].json"):
        path.unlink()
    [outcome] = detected(place.target, results, DATES[0], split=split).outcomes
    assert (outcome.error, outcome.complete, bursts(results)) == ("", False, 1), "as the user has asked for"


def add(place: Place) -> None:
    """Records an older capture of the first day into the store, and ships it."""
    fill(place.store, {"a": [(5_000, 10)]}, start=START + 6 * HOUR, length=HOUR)
    place.ship()


def test_days_that_stay_are_named(place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", "detect", str(place.target), "--day", DATES[0], "-o", str(tmp_path / "results"), "--jobs", "1"]
    assert main(words) == 0
    place.remove(place.written[0])
    capfd.readouterr()
    assert main(words) == 0
    out, err = capfd.readouterr()
    assert "2026-11-20: 0 partitions detected, 0 failed, 1 done before; 1 is incomplete" in out
    assert "2026-11-20 rack r1: stays as it was detected: receipts of files that it was made of are damaged" in err
    assert main([*words, "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["kept"] == facts["done_before"] == [{"date": DATES[0], "rack": "r1", "host": None}]
