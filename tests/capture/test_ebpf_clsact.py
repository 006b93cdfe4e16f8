"""Counting in a kernel without tcx: at clsact, where a program outlives its process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import livelab
import pytest
from building import library
from kernel_bins import many_senders, pair

__all__ = ["pair"]
RECORD = ["-m", "mburst", "record", "--backend", "ebpf", "--json"]
INTERRUPTED = """
import sys
from mburst.process import ending
from mburst.__main__ import main
from mburst.services.record import recorder

def interrupt(*_, **__):
    raise KeyboardInterrupt

recorder.{} = interrupt
ending.end(main(sys.argv[1:]))
"""
PART = """
import os, runpy, signal, sys
from mburst.services.record import recorder

recorder.Attempt = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
sys.argv[1:1] = [str(os.getppid())]
runpy.run_module("mburst.agent.child", run_name="__main__")
"""


def filters(lab, way):
    """Returns how many filters of mburst are at clsact of `b`."""
    return livelab.sh(f"ip netns exec {lab.far} tc filter show dev {lab.b} {way}").count("direct-action")


def filter_programs(lab):
    """Returns the kernel's ids of the programs that count incoming frames."""
    shown = livelab.sh(f"ip netns exec {lab.far} tc filter show dev {lab.b} ingress")
    return re.findall(r" id (\d+)", shown)


def both_ways(lab):
    return filters(lab, "ingress"), filters(lab, "egress")


def until(lab, *expected):
    for _ in range(1500):
        if both_ways(lab) == expected:
            return
        time.sleep(0.02)
    raise AssertionError((both_ways(lab), expected))


def begin(lab, store, *, lacks="tcx", record=RECORD):
    environment = {**os.environ, "LD_PRELOAD": str(library("tests/c/lesser_kernel.c")), "LACKS": lacks}
    command = ["ip", "netns", "exec", lab.far, sys.executable, *record, "-i", lab.b, "-o", str(store)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=store.parent
    )


def arrived(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    [row] = [row for row in map(json.loads, out.splitlines()) if row["direction"] == "in"]
    return row["packets"]


@pytest.fixture(autouse=True)
def nothing_stays(pair):
    yield
    subprocess.run(["ip", "netns", "exec", pair.far, "tc", "qdisc", "del", "dev", pair.b, "clsact"], check=False)


def test_several_recorders_count_and_remove_their_filters(pair, tmp_path):
    first = begin(pair, tmp_path / "first")
    until(pair, 1, 1)
    second = begin(pair, tmp_path / "second")
    until(pair, 2, 2)
    many_senders(pair, 300)
    time.sleep(0.3)
    assert arrived(first) == 300
    until(pair, 1, 1)
    many_senders(pair, 200)
    time.sleep(0.3)
    assert arrived(second) == 500
    assert both_ways(pair) == (0, 0)


def test_the_next_recorder_removes_the_filter_of_a_killed_one(pair, tmp_path):
    killed = begin(pair, tmp_path / "store")
    until(pair, 1, 1)
    livelab.sh(f"kill -9 {killed.pid}")
    killed.communicate()
    assert both_ways(pair) == (1, 1)
    left = filter_programs(pair)
    after = begin(pair, tmp_path / "store")
    for _ in range(1500):
        if filter_programs(pair) not in ([], left):
            break
        time.sleep(0.02)
    until(pair, 1, 1)
    many_senders(pair, 100)
    time.sleep(0.3)
    assert arrived(after) == 100
    assert both_ways(pair) == (0, 0)


def test_what_a_killed_earlier_mburst_left_as_the_last_filter_is_removed(pair, tmp_path):
    """It counted leaving frames there. The filter of another handle stays."""
    in_far = ["ip", "netns", "exec", pair.far, "tc"]
    subprocess.run([*in_far, "qdisc", "add", "dev", pair.b, "clsact"], check=True)
    for handle in ("0x6d620001", "0x77"):
        at = ["dev", pair.b, "egress", "pref", "65535", "handle", handle]
        code = ["bpf", "bytecode", "1,6 0 0 4294967295,", "direct-action"]
        subprocess.run([*in_far, "filter", "add", *at, *code], check=True)
    assert both_ways(pair) == (0, 2)
    process = begin(pair, tmp_path / "store")
    until(pair, 1, 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert both_ways(pair) == (0, 1)


@pytest.mark.parametrize("at", ["Attempt", "privileges.drop", "recovery.Housekeeping"])
def test_no_filter_stays_if_a_recorder_is_interrupted_before_it_reads(pair, tmp_path, at):
    record = ["-c", INTERRUPTED.format(at), *RECORD[2:]]
    process = begin(pair, tmp_path / "store", record=record)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "mburst: interrupted\n")
    assert both_ways(pair) == (0, 0)
    assert not list(tmp_path.iterdir())


def test_no_filter_stays_if_a_part_of_run_is_ended_before_it_reads(pair, tmp_path):
    record = ["-c", PART, *RECORD[2:]]
    process = begin(pair, tmp_path / "store", record=record)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "mburst: interrupted\n")
    assert both_ways(pair) == (0, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("protocol", ["all", "ip"])
def test_another_kind_of_filter_at_its_priority_is_named(pair, tmp_path, protocol):
    in_far = f"ip netns exec {pair.far} tc"
    livelab.sh(f"{in_far} qdisc add dev {pair.b} clsact")
    livelab.sh(f"{in_far} filter add dev {pair.b} egress pref 1 protocol {protocol} u32 match u32 0 0")
    process = begin(pair, tmp_path / "store")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and err.count("\n") == 1, err
    assert f"{pair.b}: this kernel has no tcx, and at clsact a filter of another kind or protocol has priority 1" in err
    assert both_ways(pair) == (0, 0)


def test_the_qdisc_ingress_in_the_place_of_clsact_is_refused(pair, tmp_path):
    """It has one list of filters: a program for leaving frames would count arriving ones."""
    livelab.sh(f"ip netns exec {pair.far} tc qdisc add dev {pair.b} ingress")
    process = begin(pair, tmp_path / "store")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and err.count("\n") == 1, err
    assert (
        f"{pair.b}: this kernel has no tcx, and the qdisc `ingress` of the interface has no filters for leaving" in err
    )
    assert filters(pair, "ingress") == 0
    livelab.sh(f"ip netns exec {pair.far} tc qdisc del dev {pair.b} ingress")


def test_a_recording_ends_if_another_process_removes_its_program(pair, tmp_path):
    """As `tc qdisc del` does."""
    process = begin(pair, tmp_path / "store")
    until(pair, 1, 1)
    livelab.sh(f"ip netns exec {pair.far} tc qdisc del dev {pair.b} clsact")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and err.count("\n") == 1, err
    assert f"{pair.b}: another process has taken the program that counts off the interface" in err


def test_a_kernel_without_tcx_and_clsact_is_refused(pair, tmp_path):
    process = begin(pair, tmp_path / "store", lacks="hooks")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and err.count("\n") == 1, err
    assert f"{pair.b}: this kernel has no tcx, and attaching the program that counts to clsact" in err
    assert both_ways(pair) == (0, 0)
