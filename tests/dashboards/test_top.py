"""`mburst top` shows the numbers of the store, in textual's terminal for tests."""

from __future__ import annotations

import asyncio
import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
from livestore import SECOND, Growing
from reportlib import BIN, FULL

from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.lane import LiveLane
from mburst.analysis.live.look import LiveLook
from mburst.analysis.live.rows import LaneRow, read_row
from mburst.analysis.live.snapshot import History
from mburst.analysis.live.store import LiveStore
from mburst.dashboards.top.app import TopApp
from mburst.dashboards.top.screen import BLOCKS, KEYS, SILENT, UNRECORDED, TopView, screen, suffixes
from mburst.sql import StoreFolder

NOW = 1_795_228_500_000_000_000
LINK = 10**9
SIZE = (120, 30)


@pytest.fixture
def growing(tmp_path):
    store = Growing(tmp_path / "store", NOW)
    store.append([84] * 100)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def tests_look(monkeypatch):
    """Disables the timer of the app, which would read the store during a test."""
    monkeypatch.setattr("mburst.dashboards.top.app.LOOK_S", 3600)


@pytest.fixture
def app(growing):
    live = LiveStore(growing.store)
    app = TopApp(LiveLook(live, LiveBursts(live, BurstDefinition())), "store")
    yield app
    live.close()


def driven(app, drive, size=SIZE):
    """Runs DRIVE(pilot) in the app."""

    async def work():
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await drive(pilot)

    asyncio.run(work())


async def look(app):
    """Reads the store as the timer does, with a second passed for bursts."""
    app.look._looked = 0.0
    await app.follow()
    await app.draw()


def blocks(app, row=0):
    """Returns the blocks of a row, and its last second and fullest bin as displayed."""
    [lines] = [[line for line in app.lines if "eth1" in line and line[0] in "▶ " and line[1] == " "]]
    line = lines[row]
    start = 2 + 30 + 1
    return line[start:-20], line[-20:].split(" %")[0].strip(), line[-9:].strip()


def expected(growing, end_ns, width_ns, columns):
    """Returns the blocks for the bins that were written."""
    beyond = -(-end_ns // width_ns)
    found = []
    for cell in range(beyond - columns, beyond):
        bins = [growing.wire.get(at, 0) for at in range(cell * width_ns, (cell + 1) * width_ns, BIN)]
        if (cell + 1) * width_ns <= NOW:
            found.append(UNRECORDED)
        elif not any(bins):
            found.append(SILENT)
        else:
            found.append(BLOCKS[min(-(-max(bins) * 8 // FULL), 8) - 1])
    return "".join(found)


def test_blocks_second_and_bursts_are_those_of_the_growing_store(growing, app):
    async def drive(pilot):
        growing.append([FULL // 2] * 3000 + [84] * 8000)
        begin = growing.burst(20, senders=("10.1.0.1", "10.1.0.2", "10.1.0.3"))
        growing.append([84] * 12_000)
        await look(app)
        end = growing.at
        shown, second, fullest = blocks(app)
        assert shown == expected(growing, end, 10**8, len(shown)) and BLOCKS[-1] in shown and BLOCKS[3] in shown
        whole = end // SECOND * SECOND
        sent = sum(wire for at, wire in growing.wire.items() if whole - SECOND <= at < whole)
        assert float(second) == pytest.approx(sent * 800 / LINK, rel=0.01) and fullest == "100 %"
        [burst] = [line for line in app.lines if "10.1.0." in line]
        assert burst.startswith("02:35:01.130000") and begin == NOW + 1_130_000_000
        assert "2 ms" in burst and "250 kB" in burst and "3 senders" in burst and "10.1.0.1 33.3 %" in burst
        assert "no packet dropped by the recorder so far" in app.lines
        assert "2026-11-21 02:35:02.352 UTC, following" in app.lines[0]
        growing.append([84] * 1000, quality=32)
        await look(app)
        assert "packets were dropped in 100 ms: how many is stored when the recording ends" in app.lines
        assert "×" in blocks(app)[0][-2:] and "×" not in blocks(app)[0][:-2]

    driven(app, drive)


def test_keys_that_pause_go_back_zoom_and_end(growing, app):
    async def drive(pilot):
        growing.append([84] * 20_000)
        await look(app)
        await pilot.press("space")
        before = blocks(app)[0]
        assert "paused" in app.lines[0]
        growing.append([FULL] * 5000)
        await look(app)
        assert blocks(app)[0] == before
        await pilot.press("f")
        assert "following" in app.lines[0] and blocks(app)[0] != before
        await pilot.press("left")
        back = blocks(app)[0]
        assert "paused" in app.lines[0] and BLOCKS[-1] not in back and back.strip(UNRECORDED) != ""
        await pilot.press("right")
        assert "following" in app.lines[0]
        await pilot.press("plus", "plus", "plus", "plus")
        assert "a block: 100 µs;" in app.lines[1]
        shown = blocks(app)[0]
        assert shown == expected(growing, growing.at, BIN, len(shown))
        await pilot.press("minus")
        assert "a block: 1 ms, its fullest bin of 100 µs" in app.lines[1]
        await pilot.press("q")

    driven(app, drive)
    assert app.return_code == 0
    app.end()  # a signal that arrives now


def test_a_link_is_chosen_and_its_bursts_are_shown(growing, app):
    other = Growing(growing.store.path, NOW, host="cache-2", run="other")
    other.append([84] * 100)
    other.burst(5, senders=("10.9.0.9",))
    other.append([84] * 3000)
    growing.append([84] * 3500)

    async def drive(pilot):
        await look(app)
        assert app.lines[3].startswith("▶ cache-1 eth1 inbound") and app.lines[4].startswith("  cache-2 eth1 inbound")
        assert not any("10.9.0.9" in line for line in app.lines)
        await pilot.press("down")
        assert app.lines[4].startswith("▶ cache-2") and any("10.9.0.9 100 %" in line for line in app.lines)

    driven(app, drive)
    other.close()


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_the_display_fits_each_size(growing, app, size):
    async def drive(pilot):
        for _ in range(30):
            growing.burst(3)
        await look(app)
        assert len(app.lines) == size[1] and max(map(len, app.lines)) <= size[0]
        assert app.lines[-1] == KEYS and sum("10.1.0.1" in line for line in app.lines) >= 10
        await pilot.resize_terminal(70, 20)
        await pilot.pause()
        await app.draw()
        assert app.lines[0] == "mburst top needs 80 × 24 characters; here are 70 × 20"

    driven(app, drive, size)


def test_an_empty_store_is_reported_until_a_recording_begins(tmp_path):
    live = LiveStore(StoreFolder.create(tmp_path / "store"))
    app = TopApp(LiveLook(live, LiveBursts(live, BurstDefinition())), "store")

    async def drive(pilot):
        assert app.lines[:2] == ["store", "nothing is recorded yet"]
        await pilot.press("space", "left", "down", "minus", "f")
        first = Growing(tmp_path / "store", NOW)
        first.append([FULL] * 5)
        await look(app)
        assert app.lines[3].startswith("▶ cache-1 eth1 inbound") and blocks(app)[0][-1] == BLOCKS[-1]
        first.close()

    driven(app, drive)
    live.close()


def test_the_age_of_a_store_whose_recorder_is_dead_goes_on(growing, app, monkeypatch):
    """The timer draws it, although nothing new arrives. A pause has no age."""
    monkeypatch.setattr("mburst.dashboards.top.app.LOOK_S", 0.05)
    ages = itertools.chain([2] * 20, [20] * 40, itertools.repeat(3600))
    clock = SimpleNamespace(time_ns=lambda: growing.at + next(ages) * SECOND)
    monkeypatch.setattr("mburst.dashboards.top.app.time", clock)
    shown = []

    async def drive(pilot):
        for _ in range(400):
            if app.lines[0] not in shown:
                shown.append(app.lines[0])
            if "1 h old" in app.lines[0]:
                break
            await asyncio.sleep(0.05)

    driven(app, drive)
    assert [line.split(" UTC, ")[1] for line in shown] == ["following", "following, 20 s old", "following, 1 h old"]


def test_directions_differ_however_narrow_the_screen_is():
    """A store with several bin widths has long suffixes; host and interface are cut first."""
    ways = [("in", 10**5), ("out", 10**5), ("in", 10**6), ("out", 10**6), ("mirror", 10**6), ("mirror", 10**5)]
    lanes = [LiveLane(("r1", "database-host-17", "enp1s0f0", way, wide, LINK), 0) for way, wide in ways]
    rows = [LaneRow(lane, NOW, 10**8, [None] * 30, [False] * 30, None) for lane in lanes]
    view = TopView("store", rows, 0, 6, 0, True, 0.5, suffixes=suffixes(lanes))
    names = [line.plain[2:29].strip() for line in screen(view, 80, 24)[3:9]]
    assert [name.split("… ")[1] for name in names] == [
        "in 100 µs",
        "out 100 µs",
        "in 1 ms",
        "out 1 ms",
        "mirror 1 ms",
        "mirror 100 µs",
    ]
    assert all(name.startswith("database") for name in names)


def test_a_silent_lane_and_an_ended_recording_have_no_present_rate(growing, app):
    """A lane that ended 16 minutes ago has no last second beside one that goes on."""
    growing.append([FULL // 4] * 30_000)
    other = Growing(growing.store.path, growing.at + 16 * 60 * SECOND, host="cache-2", run="run-2")
    other.append([84] * 30_000)

    async def drive(pilot):
        await look(app)
        [silent] = [line for line in app.lines if line[2:].startswith("cache-1 eth1 inbound ")]
        [going] = [line for line in app.lines if line[2:].startswith("cache-2 eth1 inbound ")]
        assert silent[-20:].split()[0] == "-" and going[-20:].split()[0] != "-"
        age = time.time_ns() - other.at
        assert (" old" in app.lines[0]) == (age > 10 * SECOND)

    driven(app, drive)
    other.close()


def test_lanes_of_one_name_are_distinguished_by_their_bins_and_line_rate():
    """A long name is cut, what distinguishes it is not."""
    kinds = [("cache-1", 10**5, LINK), ("cache-1", 10**6, LINK), ("cache-1", 10**6, None), ("cache-2", 10**6, LINK)]
    lanes = [LiveLane(("r1", host, "eth1", "in", bin_ns, link), 0) for host, bin_ns, link in kinds]
    rows = [LaneRow(lane, NOW, 10**8, [None] * 40, [False] * 40, None) for lane in lanes]
    view = TopView("store", rows, 0, 4, 0, True, 0.5, suffixes=suffixes(lanes))
    names = [line.plain[2:28].strip() for line in screen(view, 80, 24)[3:7]]
    assert names == [
        "cache-1 eth1 in 100 µs",
        "cache-1 et… in 1 ms 1 Gb/s",
        "cache-1 eth1 in 1 ms ?",
        "cache-2 eth1 inbound",
    ]


def test_damage_is_shown(growing, app, monkeypatch):
    def failing():
        raise OSError("the disk is gone")

    monkeypatch.setattr(app.look.live, "poll", failing)

    async def drive(pilot):
        await look(app)
        assert any("the disk is gone" in line for line in app.lines)

    driven(app, drive)


def test_data_no_longer_in_memory_comes_from_the_store(growing):
    """Cells, losses and bursts of older times are the same from the store as from memory."""
    growing.append([FULL] * 3 + [84] * 2000)
    growing.append([84] * 100, quality=32)
    growing.burst(4)
    live = LiveStore(growing.store)
    bursts = LiveBursts(live, BurstDefinition())
    history = History(live, bursts.definition)
    [lane] = live.lanes.values()
    with live.lock:
        bursts.look()
    rows = []
    for complete_from in (lane.complete_from_ns, growing.at):
        lane.complete_from_ns = complete_from
        rows.append(read_row(history, lane, growing.at, 10**7, 40))
    assert (rows[0].fullest, rows[0].losing) == (rows[1].fullest, rows[1].losing)
    assert any(rows[0].losing) and np.nanmax(np.array(rows[0].fullest, float)) == LINK
    history.interrupt()
    live.close()
