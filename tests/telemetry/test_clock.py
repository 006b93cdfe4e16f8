"""Clocks are read together: readings agree with each other, and a clock that was set is noticed."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from mburst.sql.tables import columns
from mburst.telemetry.probe import clock
from mburst.telemetry.probe.clock import Clocks, Reading, jump_ns

NOW = Reading(1_700_000_000_000_000_000, 5_000_000_000, 37_000_000_000, None, 100, 0, 1000, True)


def test_a_reading_has_the_current_time():
    before = time.time_ns()
    with Clocks() as clocks:
        reading = clocks.read()
    after = time.time_ns()
    assert before <= reading.ts_ns <= after
    assert 0 <= reading.uncertainty_ns <= after - before
    assert reading.phc_offset_ns is None
    assert reading.tai_offset_ns % 10**9 == 0


def test_a_reading_has_the_columns_of_the_table():
    assert [*vars(NOW)] == [column.name for column in columns("clock")][3:]


@pytest.mark.parametrize("jump", [0, 1, -3_600_000_000_000, 250_000_000])
def test_a_jump_is_the_change_of_system_time_beyond_the_raw_clock(jump):
    later = replace(NOW, ts_ns=NOW.ts_ns + 10**9 + jump, monotonic_raw_ns=NOW.monotonic_raw_ns + 10**9)
    assert jump_ns(NOW, later) == jump


def test_an_interface_clock_that_cannot_be_opened_is_left_out():
    with Clocks(phc_index=4711) as clocks:
        assert clocks.read().phc_offset_ns is None


def test_an_interface_clock_is_stored_as_its_offset(monkeypatch):
    real, opened = time.clock_gettime_ns, os.open
    monkeypatch.setattr(clock.os, "open", lambda path, flags: opened(os.devnull if "ptp" in path else path, flags))
    monkeypatch.setattr(
        clock.time,
        "clock_gettime_ns",
        lambda which: real(time.CLOCK_REALTIME) + 37_000_000_000 if which < 0 else real(which),
    )
    with Clocks(phc_index=0) as clocks:
        reading = clocks.read()
    assert abs(reading.phc_offset_ns - 37_000_000_000) <= reading.uncertainty_ns


def test_clock_ids_are_the_kernels():
    assert clock.phc_clock(3) == -29  # ((~3) << 3) | 3
