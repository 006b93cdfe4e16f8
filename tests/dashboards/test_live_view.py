"""The live view sends its browsers the contents of the store, however the store grows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from livebrowser import Follower
from livestore import RUN, SECOND, Growing
from reportlib import BIN, FULL
from storelib import rows, write

from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.store import LiveStore
from mburst.dashboards.live.overview import overview
from mburst.dashboards.live.view import LiveView
from mburst.sql import StoreFolder

NOW = 1_795_228_500_000_000_000
CELL = 10_000_000  # ns, of the heatmap
WAKES = 30  # the longest time that a browser waits for a message


@pytest.fixture
def growing(tmp_path):
    """A recording that has just begun."""
    store = Growing(tmp_path / "store", NOW)
    store.append([84] * 100)
    yield store
    store.close()


@pytest.fixture
def view(growing):
    live = LiveStore(growing.store)
    yield LiveView(live, LiveBursts(live, BurstDefinition()))
    live.close()


def test_silence_is_covered_and_time_between_recordings_is_not(growing, view):
    reader = Follower(view, 60 * SECOND, NOW)
    growing.append([0] * 5_000 + [84])
    reader.look()
    assert reader.coverage == [(0, 5_101 * BIN)]
    growing.append([0] * 15_000)
    growing.tick()
    reader.look()
    assert reader.coverage == [(0, 20_101 * BIN)]
    growing.rest(10_000)
    reader.look()
    assert reader.coverage == [(0, 5_101 * BIN), (30_101 * BIN, 30_102 * BIN)]
    growing.append([0] * 7_000 + [84])
    reader.look()
    assert reader.coverage == [(0, 5_101 * BIN), (30_101 * BIN, 37_102 * BIN)]


def test_a_path_has_one_measure(growing, view):
    """When most probes have another measure, latencies that were sent by the first one are sent again."""

    def probes(first, n, **stamps):
        return rows(
            "probes",
            *(
                {
                    "seq": i,
                    "tx_ns": NOW + i * BIN,
                    "rx_ns": NOW + i * BIN + 70_000,
                    **{name: NOW + i * BIN + ns for name, ns in stamps.items()},
                }
                for i in range(first, first + n)
            ),
        )

    with growing.store.writer("probes") as writer:
        writer.append(probes(0, 10, app_send_ns=-1000, app_recv_ns=75_000))
        growing.append([84] * 100)
        reader = Follower(view, 60 * SECOND, NOW)
        reader.look()
        [path] = reader.received["latency"]
        assert path["measure"] == "application" and set(path["largest"]) == {76_000}
        writer.append(probes(10, 90))
        growing.append([84] * 100)
        reader.look()
    [path] = reader.received["latency"]
    assert path["measure"] == "round trip" and path["largest"] == [70_000] * 100


def cells_of(growing, view):
    """Returns the heatmap's cells from the store: 0 if only silence was recorded."""
    [lane] = view.live.lanes.values()
    cells = {at: 0 for a, b in lane.coverage() for at in range(a // CELL * CELL, b, CELL)}
    for at, wire in growing.wire.items():
        cells[at // CELL * CELL] = max(cells[at // CELL * CELL], wire)
    return {at - NOW: wire for at, wire in cells.items()}


def test_the_heatmap_knows_which_cells_were_recorded(growing, view):
    reader = Follower(view, SECOND, NOW)
    for grow in (
        lambda: growing.append([0] * 25_050 + [FULL, 84]),
        lambda: growing.append([0] * 9_000),
        growing.tick,
        lambda: growing.rest(30_030),
        lambda: growing.burst(2),
        lambda: growing.append([0] * 12_345 + [84]),
        growing.tick,
    ):
        grow()
        reader.look()
        assert reader.cells == cells_of(growing, view) == Follower(view, SECOND, NOW).cells
    assert {3 * SECOND - CELL, 4 * SECOND} & reader.cells.keys() == set() and reader.cells[2 * SECOND] == 0


def test_bursts_and_the_heatmap_are_sent_for_any_followed_span(growing, view):
    reader = Follower(view, BIN * 10, NOW)
    begin = growing.burst(2)
    growing.append([84] * (2 * SECOND // BIN))
    reader.look()
    assert [burst["start"] for burst in reader.received["bursts"]] == [begin - NOW]
    heat = reader.received["heat"]
    assert [heat["start"] + cell * heat["width"] for cell in heat["cells"]] == list(range(CELL, growing.at - NOW, CELL))
    assert heat["largest"][(begin - NOW) // CELL - 1] == FULL


async def troubles(view: LiveView) -> AsyncIterator[list[str]]:
    """Yields the problems in each message to a browser."""
    waker = asyncio.Event()
    view.wakers.add(waker)
    reader = Follower(view, SECOND, NOW)
    following = asyncio.create_task(view.follow())
    try:
        for _ in range(WAKES):
            await waker.wait()
            waker.clear()
            reader.hear()
            yield reader.received["status"]["trouble"]
    finally:
        following.cancel()


def test_trouble_is_reported_until_the_store_can_be_read_again(growing, view):
    folder = growing.store.path / "hot" / "bins"
    aside = folder.with_name("aside")

    async def follow() -> None:
        async with aclosing(troubles(view)) as received:
            assert await anext(received) == []
            folder.rename(aside)
            folder.write_text("no folder")
            [trouble] = await anext(found async for found in received if found)
            assert "not a folder" in trouble
            folder.unlink()
            aside.rename(folder)
            assert await anext(found async for found in received if not found) == []

    asyncio.run(follow())


def test_trouble_with_the_definition_of_a_burst_stays(growing):
    live = LiveStore(growing.store)
    view = LiveView(live, LiveBursts(live, BurstDefinition(bin_ns=250_000)))
    growing.burst(2)

    async def follow() -> None:
        async with aclosing(troubles(view)) as received:
            first = await anext(found async for found in received if found)
            assert "not a multiple" in first[0]
            for _ in range(5):
                growing.append([84])
                assert await anext(received) == first

    asyncio.run(follow())
    live.close()


@pytest.mark.parametrize(("complete", "ended"), [(True, "stopped"), (False, "killed"), (False, "")])
def test_what_a_recorder_lost_is_known_when_it_ended_normally(growing, view, complete, ended):
    row = {**growing.names, "bin_ns": BIN, "start_ns": NOW, "end_ns": growing.at, "dropped": 7}
    row |= {"complete": complete, "ended": ended, "written_ns": time.time_ns() + SECOND}
    reader = Follower(view, SECOND, NOW)
    growing.writers["recordings"].append(rows("recordings", row))
    reader.look()
    status = reader.received["status"]
    assert (status["dropped"], status["droppedIsWhole"], status["scope"]) == (7, complete, "")
    other = {**row, "recording_id": "other", "direction": "out", "capture_id": f"capture of {RUN}"}
    growing.writers["recordings"].append(rows("recordings", other))
    reader.look()
    status = reader.received["status"]
    assert (status["dropped"], status["scope"]) == (7, "in both directions"), "the capture counts once"


def test_losses_so_far_are_only_of_what_this_process_records(tmp_path):
    """Other lanes have what their rows state, whatever their interface is called."""
    store = StoreFolder.create(tmp_path / "store")
    ended = {"complete": True, "ended": "stopped", "dropped": 1}
    killed = {"complete": False, "ended": "killed", "dropped": 2}
    lanes = [("here", "eth1", {}), ("here", "eth9", ended), ("elsewhere", "eth1", killed), ("again", "eth1", ended)]
    for number, (host, interface, row) in enumerate(lanes):
        names = {"recording_id": f"run-{number}", "host": host, "interface": interface}
        times = {"bin_ns": BIN, "start_ns": NOW, "end_ns": NOW + SECOND}
        write(store, "recordings", {**names, **times, "capture_id": f"capture-{number}", **row})
        write(store, "bins", {**names, "ts_ns": NOW})
    times = {"bin_ns": BIN, "start_ns": NOW + SECOND, "end_ns": NOW + 2 * SECOND, "capture_id": "capture-4"}
    write(store, "recordings", {**names, **times, "recording_id": "run-4"})
    write(store, "bins", {**names, "recording_id": "run-4", "ts_ns": NOW + SECOND})
    live = LiveStore(store, dropped=lambda: {"run-0": 45, "run-4": 40})
    losses = {(lane.named("host"), lane.named("interface")): live.loss_of(lane) for lane in live.lanes.values()}
    live.close()
    assert {name: (loss.dropped, loss.is_least) for name, loss in losses.items()} == {
        ("here", "eth1"): (45, False),
        ("here", "eth9"): (1, False),
        ("elsewhere", "eth1"): (2, True),
        ("again", "eth1"): (41, False),
    }


def test_lanes_of_one_name_state_what_differs(tmp_path):
    """Rack, width of bins and link speed: a reader would otherwise choose between equal names. The overview has the
    same names, whichever rack it shows."""
    store = StoreFolder.create(tmp_path / "store")
    lanes = [
        {"host": "a"},
        {"host": "b", "link_bps": 10**10},
        {"host": "b", "bin_ns": 10 * BIN},
        {"host": "b", "bin_ns": 10 * BIN, "link_bps": None},
        {"host": "c", "rack": "r1"},
        {"host": "c", "rack": "r2"},
        {"host": "d", "link_bps": 10**10, "bin_ns": 10 * BIN},
        {"host": "d", "link_bps": 10_010_000_000, "bin_ns": 1_000_400},
        {"host": "d", "link_bps": 0, "bin_ns": 10 * BIN},
        {"host": "d", "link_bps": None, "bin_ns": 10 * BIN},
    ]
    for number, lane in enumerate(lanes):
        names = {"recording_id": f"run-{number}", "host": lane["host"], "rack": lane.get("rack", "r1")}
        write(store, "recordings", {"bin_ns": BIN, **lane, **names, "start_ns": NOW, "end_ns": NOW + SECOND})
        write(store, "bins", {**names, "ts_ns": NOW})
    live = LiveStore(store)
    offered = [one["name"] for one in LiveView(live, LiveBursts(live, BurstDefinition())).lanes()]
    seen = [one["name"] for one in overview(live, "r1", 10)["lanes"]]
    live.close()
    assert offered == [
        "a eth0 in",
        "b eth0 in, bins of 100 µs, 10 Gb/s",
        "b eth0 in, bins of 1 ms, link speed not known",
        "b eth0 in, bins of 1 ms, 1 Gb/s",
        "c eth0 in, rack r1",
        "d eth0 in, bins of 1 ms (1,000,000 ns), 0 b/s",
        "d eth0 in, bins of 1 ms (1,000,000 ns), link speed not known",
        "d eth0 in, bins of 1 ms (1,000,000 ns), 10 Gb/s (10,000,000,000 b/s)",
        "d eth0 in, bins of 1 ms (1,000,400 ns), 10 Gb/s (10,010,000,000 b/s)",
        "c eth0 in, rack r2",
    ]
    assert len(seen) == 6 and {*seen} < {*offered}
