"""How long the reports of a schedule are kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from racklib import DAY, HOUR, START, fill

from mburst.agent.config import load
from mburst.agent.schedule.due import carry_out
from mburst.agent.schedule.reports import last_period
from mburst.agent.schedule.retention import KeptReports
from mburst.dashboards.common.summaries import FLEET, fleet_stem, rack_stem, summaries, with_summary
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder

NOW = START + DAY + HOUR
LENGTHS = {"hour": HOUR, "day": DAY}
SUMMARY = {
    **dict.fromkeys(("hosts", "bursting_hosts", "bursts", "burst_ns", "longest_ns", "share"), 0),
    **dict.fromkeys(("queue_drops", "dropped", "previous_per_hour", "per_hour", "new")),
    **{"recorded": False, "verdict": "", "worst_host": "", "warnings": []},
}
REPORTS = st.lists(  # rack, period, how many periods before NOW it begins, and what it begins too late
    st.tuples(
        st.sampled_from(["r1", "r2", FLEET]),
        st.sampled_from(sorted(LENGTHS)),
        st.integers(1, 12),
        st.sampled_from([0, 0, 0, 60 * 10**9]),
    ),
    unique=True,
    max_size=30,
)


def write(folder: Path, rack: str, since_ns: int, until_ns: int, is_fleet: bool = False) -> str:
    """Writes the files of a report, and returns their name."""
    name = fleet_stem(since_ns, until_ns) if is_fleet else rack_stem(rack, since_ns, until_ns)
    summary = {**SUMMARY, "rack": rack, "since_ns": since_ns, "until_ns": until_ns}
    (folder / f"{name}.json").write_text(with_summary(summary, {"facts": 1}))
    (folder / f"{name}.html").write_text("page")
    return name


@given(REPORTS, st.sampled_from(sorted(LENGTHS)), st.sampled_from([None, ["r1"], ["r1", FLEET]]), st.integers(1, 8))
def test_the_newest_periods_of_the_schedule_and_all_others_stay(reports, every, racks, most):
    with tempfile.TemporaryDirectory() as made:
        folder, stay = Path(made), set()
        own: dict[int, set[str]] = {}
        for rack, period, before, late_ns in reports:
            since_ns = START - before * LENGTHS[period] + late_ns
            name = write(folder, rack, since_ns, since_ns + LENGTHS[period])
            if period == every and not late_ns and (racks is None or rack in racks):
                own.setdefault(before, set()).add(name)
            else:
                stay.add(name)
        kept = KeptReports(every, False, racks, most * LENGTHS[every] - 1)
        stay.update(*(own[before] for before in sorted(own)[:most]))
        assert kept.remove_older(folder) == sum(map(len, own.values())) - sum(len(own[b]) for b in sorted(own)[:most])
        assert {path.name for path in folder.iterdir()} == {
            f"{name}.{kind}" for name in stay for kind in ("json", "html")
        }
        assert kept.remove_older(folder) == 0


def test_a_schedule_removes_what_it_wrote_and_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(StoreFolder.create(tmp_path / "store"), {"a": [(50, 10)]})
    (tmp_path / "mburst.toml").write_text(
        'store = "store"\n[[report]]\nname = "daily"\noutput = "out"\nracks = "r1"\nevery = "week"\nkeep = "7d"\n'
        'deliver = "www"\n'
        '[[deliver]]\nname = "www"\nkind = "folder"\npath = "www"\n'
    )
    config = load(tmp_path / "mburst.toml")
    [report] = config.reports
    for number in range(3):
        period = last_period("week", NOW + number * 7 * DAY)
        assert carry_out(config, report, NOW + number * 7 * DAY, lambda line: None) == 0
        for folder in (tmp_path / "out", tmp_path / "www"):
            assert [summary["since_ns"] for _, summary in summaries(folder)] == [period.since_ns]
            assert f"{rack_stem('r1', period.since_ns, period.until_ns)}.html" in (folder / "index.html").read_text()
            assert (folder / "index.html").read_text().count('.html"') == 1


def test_the_pages_of_a_fleet_go_with_its_report(tmp_path):
    kept = KeptReports("day", True, None, DAY)
    for before in (1, 2, 3):
        name = write(tmp_path, FLEET, START - before * DAY, START - (before - 1) * DAY, is_fleet=True)
        (tmp_path / name).mkdir()
        (tmp_path / name / "r1.html").write_text("page")
    rack = write(tmp_path, FLEET, START - 3 * DAY, START - 2 * DAY)
    assert kept.remove_older(tmp_path) == 2
    newest = fleet_stem(START - DAY, START)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {newest, f"{newest}.html", f"{newest}.json", f"{rack}.html", f"{rack}.json"}


def test_links_and_files_of_others_are_left_alone(tmp_path):
    """Others may write to the folder of reports."""
    kept, elsewhere = KeptReports("day", True, None, DAY), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "page.html").write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    write(folder, FLEET, START - DAY, START, is_fleet=True)
    old = write(folder, FLEET, START - 2 * DAY, START - DAY, is_fleet=True)
    (folder / old).symlink_to(elsewhere)
    with pytest.raises(MburstError, match="cannot remove an old report"):
        kept.remove_older(folder)
    assert (elsewhere / "page.html").read_text() == "mine"
    (folder / old).unlink()
    (folder / f"{old}.html").unlink()
    (folder / f"{old}.html").symlink_to(elsewhere / "page.html")
    assert kept.remove_older(folder) == 0 and (elsewhere / "page.html").exists()


@pytest.mark.parametrize(
    ("keep", "message"),
    [('"6d"', "a keep of less than 7 d"), ('"x"', "invalid duration 'x'"), ("true", r"keep of \[\[report")],
)
def test_an_invalid_keep_is_refused(keep, message, tmp_path):
    path = tmp_path / "mburst.toml"
    path.write_text(f'store = "s"\n[[report]]\nname = "daily"\noutput = "out"\nkeep = {keep}\n')
    with pytest.raises(UsageError, match=message):
        load(path)
