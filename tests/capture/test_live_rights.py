"""The rights that the packet socket backend needs, and the state in which it leaves the interface."""

from __future__ import annotations

import livelab
import pytest
from test_live_afpacket import capture, sending


def test_net_raw_alone_is_enough(lab, live_driver, sender):
    command = [
        "ip",
        "netns",
        "exec",
        lab.far,
        "setpriv",
        "--bounding-set=-all,+net_raw",
        "--inh-caps=-all,+net_raw",
        str(live_driver),
        f"target={lab.b}",
        "idle_ms=300",
        "filter=ether proto 0x88b5",
    ]
    for arguments in (["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]):
        got = livelab.run_driver([*command, *arguments], sending(lab, sender, 100))
        assert got.total["frames"] == 100, got.total


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_the_error_without_privilege_states_how_to_get_it(lab, live_driver, backend):
    command = [
        "ip",
        "netns",
        "exec",
        lab.far,
        "setpriv",
        "--bounding-set=-net_raw",
        "--inh-caps=-net_raw",
        str(live_driver),
        f"target={lab.b}",
        f"backend={backend}",
    ]
    output = livelab.run_driver(command).total
    assert "CAP_NET_RAW" in output["error"] and "setcap cap_net_raw+ep" in output["error"]
    checked = livelab.run_driver([*command, "mode=check"]).total
    assert checked["status"] == output["status"] < 0


def test_promiscuous_mode_ends_with_the_capture(lab, live_driver):
    def look(_process):
        assert "promiscuity 1" in sh_details(lab)

    assert "promiscuity 0" in sh_details(lab)
    capture(lab, live_driver, "idle_ms=0", "seconds=1", action=look)
    assert "promiscuity 0" in sh_details(lab)
    capture(
        lab,
        live_driver,
        "idle_ms=0",
        "seconds=1",
        "own_traffic=1",
        action=lambda _: pytest.fail("promiscuous") if "promiscuity 1" in sh_details(lab) else None,
    )


def sh_details(lab):
    return livelab.sh(f"ip -n {lab.far} -d link show {lab.b}")
