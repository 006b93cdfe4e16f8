"""What captures dropped: once for all of their port directions, and at least that where a recorder did not end."""

from __future__ import annotations

import pytest
from racklib import DAY, MS, START, report
from reportlib import gathered
from storelib import write

from mburst.__main__ import main
from mburst.analysis.cause.read import dropped_by
from mburst.dashboards.rack import tables
from mburst.dashboards.rack import words as rack_words
from mburst.dashboards.report.words import statements
from mburst.sql import StoreFolder


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


def record(store, direction="in", *, packets=100, losing=0, **more) -> None:
    """Adds a recording of one direction of cache-1 with a bin each millisecond, of which the first LOSING lost
    packets."""
    name = {"recording_id": f"run-{direction}-{more.get('interface', '')}", "direction": direction}
    name |= {"interface": more.get("interface", "eth0")}
    times = {"start_ns": START, "end_ns": START + packets * MS, "packets": packets, "backend": "afpacket"}
    write(store, "recordings", {**name, **times, **more})
    rows = ({**name, "ts_ns": START + i * MS, "wire_bytes": 100, "quality": 32 * (i < losing)} for i in range(packets))
    write(store, "bins", *rows)


def losses_said(store) -> dict[str, tuple[str, str]]:
    """Returns the head and text of the statement about losses of each direction."""
    return {
        of.lane.direction: (one.head, one.text)
        for of in gathered(store)
        for one in statements(of)
        if "dropped" in one.head or "lost" in one.head
    }


def lost_cells(store) -> dict[str, str]:
    table = tables.hosts(report(store, length=DAY))
    return {str(row[0]): str(row[table.heads.index("Lost")]) for row in table.rows}


def printed(store, capsys) -> list[str]:
    assert main(["bursts", str(store.path)]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if "% of the time" in line]


def test_losses_of_both_directions_are_a_share_of_both(store, capsys):
    for direction, packets in (("in", 800), ("out", 200)):
        record(store, direction, packets=packets, dropped=1000, capture_id="both")
    for head, text in losses_said(store).values():
        assert head == "1,000 packets were dropped before they were seen, in both directions"
        assert text.startswith("That is 50 % of what passed in both directions.")
    assert set(lost_cells(store).values()) == {"1,000 in both directions"}
    lines = printed(store, capsys)
    assert len(lines) == 2
    for line in lines:
        assert "1,000 packets were dropped, in both directions: counts are lower bounds" in line


def test_losses_of_files_are_those_of_all_their_interfaces(store):
    for interface in ("eth0", "eth1"):
        record(store, interface=interface, packets=50, dropped=100, capture_id="files")
    for of in gathered(store):
        [loss] = (one for one in statements(of) if "dropped" in one.head)
        assert loss.head == "100 packets were dropped before they were seen, at all interfaces of the capture"
        assert loss.text.startswith("That is 50 % of what passed at all interfaces of the capture.")
    assert set(lost_cells(store).values()) == {"100 at all interfaces of the capture"}


def test_a_lane_of_a_capture_of_one_direction_has_its_losses_alone(store):
    record(store, packets=100, dropped=100)
    assert losses_said(store)["in"][0] == "100 packets were dropped before they were seen"
    assert losses_said(store)["in"][1].startswith("That is 50 % of what passed.")
    assert set(lost_cells(store).values()) == {"100"}


def test_losses_of_two_captures_add_up(store):
    for number, capture in enumerate(("one", "other")):
        more = {"recording_id": f"run-{capture}", "start_ns": START + number * DAY // 4}
        times = {"end_ns": START + number * DAY // 4 + MS, "backend": "afpacket", "packets": 25}
        write(store, "recordings", {**more, **times, "dropped": 50})
        write(store, "bins", {"recording_id": more["recording_id"], "ts_ns": more["start_ns"], "wire_bytes": 100})
    assert losses_said(store)["in"][0] == "100 packets were dropped before they were seen"
    assert "66.7 % of what passed" in losses_said(store)["in"][1]
    assert set(lost_cells(store).values()) == {"100"}


def test_a_killed_recorder_dropped_at_least_what_its_gaps_have(store, capsys):
    """Its row is older than its last gaps, and it knew of no packet after that."""
    record(store, complete=False, ended="killed", dropped=7)
    gap = {"recording_id": "run-in-", "end_ns": START + 9 * MS, "direction": "both", "detail": ""}
    for reason, packets in (("dropped", 5), ("reader too slow", 6), ("killed", 1000)):
        write(store, "gaps", {**gap, "start_ns": START + packets, "reason": reason, "packets": packets})
    head, text = losses_said(store)["in"]
    assert head == "At least 11 packets were dropped before they were seen"
    assert "%" not in text.split(". Counts")[0]
    assert set(lost_cells(store).values()) == {"at least 11"}
    [lost] = (one for one in rack_words.statements(report(store, length=DAY)) if "were lost" in one.head)
    assert lost.text.startswith("At least 11 packets on an interface, ")
    lane = ("cache-1", "eth0", "in")
    known = dropped_by(store.connect(), {lane: [{"recording_id": "run-in-"}] * 2})[lane]
    assert (known.dropped, known.is_least) == (11, True), "investigations know as many"
    [line] = printed(store, capsys)
    assert "at least 11 packets were dropped: counts are lower bounds" in line


def test_the_number_of_losses_of_a_recording_that_has_not_ended_is_not_known(store):
    record(store, complete=False, losing=3)
    assert set(lost_cells(store).values()) == {"not known"}
    [lost] = (one for one in rack_words.statements(report(store, length=DAY)) if "were lost" in one.head)
    assert lost.text.startswith("How many is not known, 3 bins of this time.")


def test_samples_that_a_switch_did_not_send_are_not_0_lost_packets(store):
    record(store, losing=3, backend="otlp")
    assert set(lost_cells(store).values()) == {"not known"}


def test_no_loss_is_0(store):
    record(store)
    assert set(lost_cells(store).values()) == {"0"}


def test_losses_of_a_recording_without_a_link_speed_are_in_the_report_of_its_rack(store):
    record(store, "in", dropped=5, link_bps=None, capture_id="one")
    assert [cell for cell in lost_cells(store).values()] == ["5"]


def test_a_capture_counts_all_of_its_interfaces_also_those_without_a_link_speed(store):
    record(store, "in", dropped=100, capture_id="files")
    record(store, "in", dropped=100, capture_id="files", interface="eth1", link_bps=None)
    found = {lane.name[1]: lane.loss for lane in report(store, length=DAY).lanes}
    assert (found["eth0"].interfaces, found["eth0"].packets) == (2, 200)
