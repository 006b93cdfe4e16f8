"""Reports of a fleet in which some hosts did not count retransmissions."""

from __future__ import annotations

import html
import re

from fleettables import DATES, START, tables
from pagelib import fleet_figures

from mburst.dashboards.fleet import page

LOST = ("retransmits", "burst_retransmits", "retransmits_after")


def report(folder, is_counted):
    """Returns the figures, the text of the page, and the received bursts and hours of the day. IS_COUNTED says of each
    host whether it counted."""
    found = tables(5, racks=1, hosts=3, bursts=40)
    for row in found["bursts"] + found["hours"]:
        names = [name for name in LOST if name in row]
        row |= {name: row[name] or 1 if is_counted(row["host"]) else None for name in names}
    for row in found["hours"]:
        row |= {"packets": 1000, "wire_bytes": 10**9, "retransmits": row["retransmits"] and 9}
        row |= {name: row[name] and 2 for name in LOST[1:]}
    idle = {"packets": 0, "wire_bytes": 0, "bursts": 0, "burst_ns": 0, **dict.fromkeys(LOST, 0)}
    found["hours"] += [{**row, **idle} for row in found["hours"]]  # no packets: no retransmissions, counted or not
    fleet, _ = fleet_figures(folder, found, "")
    text = html.unescape(re.sub(r"<[^>]*>", " ", page.render_fleet(fleet, [])))
    of_day = ([row for row in found[name] if row["date"] == DATES[START] and row["direction"] != "out"]
              for name in ("bursts", "hours"))  # fmt: skip
    return fleet, re.sub(r"\s+", " ", text), *of_day


def losses_of(fleet):
    return {row["measure"]: row for row in fleet.answers.losses}


def test_a_value_that_no_host_counts_is_not_0(tmp_path):
    fleet, text, bursts, hours = report(tmp_path, lambda host: False)
    assert bursts and hours
    row = losses_of(fleet)["retransmits"]
    assert [row[part] for part in ("in_bursts", "after", "elsewhere")] == [None] * 3
    assert row["uncounted_ns"] == sum(hour["recorded_ns"] for hour in hours if hour["packets"])
    assert fleet.answers.loss == [] and {row["retransmits_per_gb"] for row in fleet.answers.hosts.rows} == {None}
    [rack] = fleet.racks
    assert rack.retransmits is rack.wire_bytes is rack.retransmits_per_gb is None
    assert "Retransmissions were not counted." in text and "No burst" not in text
    assert "Lossy bursts not counted" in text
    assert "Retransmissions: not counted in " in text and "None in this time: Retr" not in text


def test_a_value_that_some_hosts_count_is_attributed_to_these(tmp_path):
    fleet, text, bursts, hours = report(tmp_path, lambda host: host == "h1")
    counted = [row for row in bursts if row["host"] == "h1"]
    assert 0 < len(counted) < len(bursts)
    row = losses_of(fleet)["retransmits"]
    own = sum(hour["host"] == "h1" and hour["packets"] > 0 for hour in hours)
    assert [row[part] for part in ("in_bursts", "after", "elsewhere")] == [2 * own, 2 * own, 5 * own]
    assert row["uncounted_ns"] == sum(hour["recorded_ns"] for hour in hours if hour["packets"] and hour["host"] != "h1")
    assert losses_of(fleet)["ce_packets"]["uncounted_ns"] == 0
    assert [rack.retransmits_per_gb for rack in fleet.racks] == [9]
    rates = {row["host"]: row["retransmits_per_gb"] for row in fleet.answers.hosts.rows}
    assert rates == {host: 9 if host == "h1" else None for host in rates}
    said = f"{len(counted)} of {len(counted)} bursts whose retransmissions were counted have retransmissions in them"
    assert said in text and f"{len(counted)} of {len(counted)} that were counted" in text
    assert "Retransmissions: not counted in " in text


def test_a_value_that_all_hosts_count_has_no_note(tmp_path):
    fleet, text, bursts, _ = report(tmp_path, lambda host: True)
    assert f"{len(bursts)} of {len(bursts)} bursts have retransmissions in them" in text and "counted" not in text
    assert losses_of(fleet)["retransmits"]["uncounted_ns"] == 0
