"""The choice of timestamps: decided, explained and undone. No interface here stamps in hardware, so the test simulates
one."""

from __future__ import annotations

import errno
import json
import subprocess

import pytest
from building import linked

NONE, ALL, SOME, PTP = 0, 1, 2, 12
RX_HARDWARE, RX_SOFTWARE, SOFTWARE, RAW_HARDWARE = 1 << 2, 1 << 3, 1 << 4, 1 << 6
WRAPPED = ["ioctl", "open", "clock_gettime", "adjtimex", "setsockopt"]
FEATURES = {"full": 2, "ptp": 1, "none": 0}


@pytest.fixture(scope="module")
def decide():
    driver = linked(
        ("tests/c/timestamp_driver.c", "capture/backend/timestamp.c", "capture/error.c"),
        link=tuple(f"-Wl,--wrap={name}" for name in WRAPPED),
    )

    def run(wanted, **settings):
        if "features" in settings:
            settings["features"] = FEATURES[settings["features"]]
        done = subprocess.run(
            [driver, wanted, *(f"{key}={value}" for key, value in settings.items())],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    return run


def test_hardware_stamps_are_used_if_their_clock_follows_system_time(decide):
    got = decide("auto")
    assert got["status"] == 0 and got["hardware"] and got["own_clock"] and not got["notice"]
    assert got["during"] == ALL
    assert got["asked"] == RX_HARDWARE | RAW_HARDWARE | RX_SOFTWARE | SOFTWARE
    assert got["reported"] == RAW_HARDWARE | SOFTWARE


@pytest.mark.parametrize("before", [NONE, PTP])
def test_settings_are_undone_and_the_transmit_side_is_not_changed(decide, before):
    for wanted in ("auto", "hw"):
        got = decide(wanted, before=before)
        assert got["during"] == ALL and got["after"] == before
        assert got["tx"] == 1


def test_settings_from_before_are_left_unchanged(decide):
    got = decide("hw", before=ALL)
    assert got["hardware"] and got["sets"] == 0 and got["after"] == ALL


def test_settings_that_another_program_made_meanwhile_are_not_undone(decide):
    assert decide("hw", meddle=1)["after"] == PTP


def test_software_stamps_are_requested_on_the_socket(decide):
    for got in (decide("sw"), decide("auto", features="none"), decide("auto", features="ptp")):
        assert not got["hardware"] and got["sets"] == 0
        assert got["asked"] == RX_SOFTWARE | SOFTWARE and got["reported"] == SOFTWARE


@pytest.mark.parametrize(
    ("ahead_ns", "serves"),
    [
        (0, True),
        (500_000, True),
        (-500_000, True),
        (37_000_000_000, False),
        (-2_000_000_000, False),
        (5_000_000, False),
    ],
)
def test_a_clock_that_differs_from_system_time_is_not_used(decide, ahead_ns, serves):
    got = decide("auto", ahead_ns=ahead_ns)
    assert got["hardware"] == serves
    assert ("ahead of system time" in got["notice"]) == (not serves)
    forced = decide("hw", ahead_ns=ahead_ns)
    assert forced["hardware"] and forced["synchronized"] == serves


def test_an_interrupted_reading_of_a_clock_is_ignored(decide):
    """The scheduler may stop a process anywhere. One of several readings is short, and that one counts."""
    for held in (1, 4):
        assert decide("auto", held=held)["hardware"]
        assert not decide("auto", held=held, ahead_ns=5_000_000)["hardware"]


@pytest.mark.parametrize("settings", [{"phc": -1}, {"phc_open": 0}])
def test_a_clock_that_cannot_be_read_is_not_used(decide, settings):
    assert not decide("auto", **settings)["hardware"]
    assert "cannot be read" in decide("auto", **settings)["notice"]
    forced = decide("hw", **settings)
    assert forced["hardware"] and not forced["synchronized"] and not forced["own_clock"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EOPNOTSUPP, "eth7 has no hardware stamps"),
        (errno.EINVAL, "eth7 has no hardware stamps"),
        (errno.ERANGE, "eth7 stamps only frames of PTP in hardware"),
        (errno.EPERM, "needs CAP_NET_ADMIN"),
        (errno.EBUSY, "in use by another program"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_refusal_is_explained(decide, code, reason):
    got = decide("hw", set_errno=code)
    assert got["status"] == -code and reason in got["error"]
    fallen_back = decide("auto", set_errno=code)
    assert fallen_back["status"] == 0 and not fallen_back["hardware"] and reason in fallen_back["notice"]


@pytest.mark.parametrize("given", [NONE, SOME, PTP])
def test_a_driver_that_stamps_less_than_it_was_asked_for(decide, given):
    got = decide("hw", set_gives=given, before=NONE)
    assert got["status"] < 0 and got["after"] == NONE


def test_a_driver_that_cannot_report_its_settings(decide):
    got = decide("hw", get_errno=errno.EOPNOTSUPP, before=NONE)
    assert got["hardware"] and got["after"] == NONE


def test_a_socket_that_refuses_leaves_the_interface_as_it_was(decide):
    got = decide("hw", fail_socket=1)
    assert got["applied"] == -errno.EPERM and got["after"] == NONE


def test_an_unsynchronized_clock(decide):
    assert decide("sw", synced=1)["synchronized"]
    assert not decide("sw", synced=0)["synchronized"]
    assert not decide("auto", synced=0)["synchronized"]


def test_stamps_of_each_frame_are_counted(decide):
    got = decide("sw")
    assert (got["hw"], got["sw"], got["neither"], got["both"]) == (1, 2, 4, 1)
