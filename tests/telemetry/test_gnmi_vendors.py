"""The messages of each vendor, written after its documents and public examples, become the rows that they mean."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from gnmilib import T0, Fed, S, notification
from places import ROOT

from mburst.errors import UsageError
from mburst.telemetry.gnmi import messages
from mburst.telemetry.gnmi.path import parse
from mburst.telemetry.gnmi.vendor_words import COLUMNS
from mburst.telemetry.gnmi.vendors import Tables, VendorRule, built_in, load
from mburst.telemetry.tables import QUALITY_GUESSED


def lanz(ts_ns: int, kind: str, size: int, drops: int = 0) -> object:
    record = {"entryType": kind, "fabricPeerIntfName": "", "intfName": "Ethernet6", "portID": 105, "qDropCount": drops,
              "queueSize": size, "switchID": 0, "timeOfMaxQLen": 0, "timestamp": ts_ns // 1000, "trafficClass": 1,
              "txLatency": 0}  # fmt: skip
    return notification(ts_ns + 137_000, {"/congestionRecord": record}, prefix="eos_native:/LANZ/congestion")


def segments() -> object:
    record = {"lanzVersion": 1, "maxQueueSize": 524288000, "numOfPorts": 121, "segmentSize": 16, "timestamp": 1}
    return notification(T0, {"/configRecord": record}, prefix="eos_native:/LANZ/config")


def test_arista_lanz_counts_segments_and_its_windows_are_congestions():
    times = [T0 + i * 10**6 for i in range(5)]
    kinds = ["START", "UPDATE", "END", "START", "END"]
    fed = Fed("arista").feed(
        segments(), *(lanz(at, kind, 512 * (i + 1), i) for i, (at, kind) in enumerate(zip(times, kinds, strict=True)))
    )
    rows = fed.take()["queues"]
    assert [(row["port"], row["queue"], row["semantics"]) for row in rows] == [("Ethernet6", "1", "event")] * 5
    assert [row["max_bytes"] for row in rows] == [512 * 16 * (i + 1) for i in range(5)]
    assert [row["dropped_packets"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["ts_ns"] for row in rows] == times
    assert [row["ts_ns"] - row["window_start_ns"] for row in rows] == [0, 10**6, 10**6, 0, 10**6]


def test_arista_lanz_without_its_segment_size_is_stored_but_not_as_bytes():
    taken = Fed("arista").feed(lanz(T0, "POLLING", 1998240)).take()
    assert taken["queues"][0]["max_bytes"] is None
    assert {row["path"]: row["value"] for row in taken["gnmi_values"]}[
        "/LANZ/congestion/congestionRecord/queueSize"
    ] == "1998240"
    empty = {"bufferSize": 0, "duration": 0, "entryType": "", "timestamp": 0}
    taken = (
        Fed("arista")
        .feed(notification(T0, {"/globalBufferUsageRecord": empty}, prefix="/LANZ/globalBufferUsage"))
        .take()
    )
    assert len(taken["gnmi_values"]) == 4


def sonic(ts_ns: int, table: str, packets: int) -> object:
    queues = {
        f"Ethernet0:{i}": {
            "SAI_QUEUE_STAT_PACKETS": str(packets),
            "SAI_QUEUE_STAT_BYTES": str(packets * 100),
            "SAI_QUEUE_STAT_DROPPED_PACKETS": str(packets // 10),
            "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": str(4096 * (i + 1)),
        }
        for i in range(2)
    }
    return notification(ts_ns, {f"/{table}/Ethernet*/Queues": queues}, target="COUNTERS_DB")


def test_sonic_counts_in_text_under_virtual_paths():
    rows = Fed("sonic").feed(sonic(T0, "COUNTERS", 1000), sonic(T0 + S, "COUNTERS", 1500)).take()["queues"]
    marks = [row for row in rows if row["semantics"] == "periodic-max" and row["ts_ns"] == T0]
    assert [(row["port"], row["queue"], row["max_bytes"]) for row in marks] == [
        ("Ethernet0", "0", 4096),
        ("Ethernet0", "1", 8192),
    ]
    assert all(row["ts_ns"] - row["window_start_ns"] == 60 * S and row["quality"] == QUALITY_GUESSED for row in marks)
    counted = [row for row in rows if row["transmit_bytes"] is not None]
    assert [(row["transmit_bytes"], row["dropped_packets"]) for row in counted] == [(50_000, 50)] * 2
    periodic = Fed("sonic").feed(sonic(T0, "PERIODIC_WATERMARKS", 1)).take()["queues"]
    assert {row["ts_ns"] - row["window_start_ns"] for row in periodic} == {120 * S}


def test_sonic_ports_by_name_and_by_wildcard():
    def counted(octets: int) -> dict[str, str]:
        return {"SAI_PORT_STAT_IF_IN_OCTETS": str(octets), "SAI_PORT_STAT_PAUSE_RX_PKTS": str(octets // 100)}

    named = Fed("sonic").feed(*(notification(T0 + i * S, {"/COUNTERS/Ethernet0": counted(1000 * i)}) for i in (1, 2)))
    wild = Fed("sonic").feed(
        *(notification(T0 + i * S, {"/COUNTERS/Ethernet*": {"Ethernet0": counted(1000 * i)}}) for i in (1, 2))
    )
    for fed in (named, wild):
        [row] = fed.take()["ports"]
        assert (row["port"], row["in_bytes"], row["in_pause_frames"]) == ("Ethernet0", 1000, 10)


def test_sr_linux_has_maxima_of_the_last_minute_and_another_max_queue_len():
    depth = (
        "/qos/interfaces/interface[interface-id=ethernet-1/1]/output/queues/queue[queue-name=unicast-0]/queue-depth/"
    )
    rows = Fed("srlinux").feed(notification(T0, {depth + "high-watermark-1": 70_000, depth + "average-1": 900})).take()
    [row] = rows["queues"]
    assert (row["port"], row["queue"], row["max_bytes"], row["avg_bytes"]) == ("ethernet-1/1", "unicast-0", 70_000, 900)
    assert row["semantics"] == "sliding-max" and row["ts_ns"] - row["window_start_ns"] == 60 * S and not row["quality"]
    state = "/qos/interfaces/interface[interface-id=e]/output/queues/queue[name=0]/state/max-queue-len"
    configured = notification(T0, {state: 4_000_000})
    assert "queues" not in Fed("srlinux").feed(configured).take()
    assert Fed("").feed(configured).take()["queues"][0]["max_bytes"] == 4_000_000
    speeds = Fed("srlinux").feed(
        notification(T0, {"/srl_nokia-interfaces:interface[name=e]/ethernet/port-speed": "100G"})
    )
    assert speeds.take()["ports"][0]["link_bps"] == 10**11
    near = "/system/lldp/interface[name=e]/neighbor[id=00:01]/"
    links = (
        Fed("srlinux")
        .feed(notification(T0, {near + "system-name": "cache-1", near + "port-id": "eth0"}))
        .take()["links"]
    )
    assert [(row["host"], row["interface"], row["port"]) for row in links] == [("cache-1", "eth0", "e")]


def test_juniper_adds_its_two_kinds_of_drops():
    def made(ts_ns: int, count: int) -> object:
        leaves = {
            "peakBufferOccupancy": 467_168,
            "txPkts": count,
            "txBytes": 100 * count,
            "tailDropPkts": count,
            "redDropPkts": 2 * count,
            "ecnMarkedPkts": count,
        }
        return notification(
            ts_ns,
            {f"/{leaf}": number for leaf, number in leaves.items()},
            prefix="/cos/interfaces/interface[name=et-0/0/34]/queues/queue[queue=0]",
        )

    rows = Fed("juniper", interval_ns=2 * S).feed(made(T0, 10), made(T0 + 2 * S, 15)).take()["queues"]
    assert [
        (row["max_bytes"], row["dropped_packets"], row["ecn_marked_packets"], row["transmit_bytes"]) for row in rows
    ] == [(467_168, None, None, None), (467_168, 15, 5, 500)]
    assert {(row["port"], row["queue"], row["semantics"]) for row in rows} == {("et-0/0/34", "0", "max-since-last")}


def xr_class(name: str, count: int, unit: str, depth: int, **more: object) -> dict[str, object]:
    """Returns an entry of class-stats, by Cisco-IOS-XR-qos-ma-oper: lists without keys, counters as text in
    JSON_IETF."""
    length = [{"value": depth, "unit": f"policy-param-unit-{unit}"}]
    return {"class-name": name, "counter-validity-bitmask": "0",
            "general-stats": {"transmit-bytes": str(1000 * count), "total-drop-packets": str(2 * count)},
            "queue-stats-array": [{"queue-id": 8, "tail-drop-packets": str(count), "queue-instance-length": length,
                                   "queue-max-length": [{"value": 10**6, "unit": "policy-param-unit-bytes"}]}],
            "wred-stats-array": [{"profile-title": title, "red-ecn-marked-packets": str(count)} for title in "ab"],
            **more}  # fmt: skip


def test_ios_xr_reports_a_queues_length_in_bytes_or_in_packets():
    path = ("/Cisco-IOS-XR-qos-ma-oper:qos/interface-table/interface[interface-name=HundredGigE0/0/0/1]/output/"
            "service-policy-names/service-policy-instance[service-policy-name=out]/statistics")  # fmt: skip
    fed = Fed("iosxr")
    for second in range(2):
        child = {"policy-name": "inner", "class-stats": [xr_class("voice", second, "bytes", 70)]}
        rest = xr_class("rest", second, "packets", 40, **{"child-policy": child})
        classes = [xr_class("gold", second, "bytes", 5000), rest]
        fed.feed(notification(T0 + second * S, {path: {"policy-name": "out", "class-stats": classes}}))
    taken = fed.take()
    counted = {row["queue"]: row for row in taken["queues"] if row["transmit_bytes"] is not None}
    assert {row["port"] for row in taken["queues"]} == {"HundredGigE0/0/0/1"}
    assert {row["semantics"] for row in taken["queues"]} == {"gauge"}
    assert {name: (row["max_bytes"], row["transmit_bytes"], row["dropped_packets"], row["ecn_marked_packets"])
            for name, row in counted.items()} == {
        "out/gold": (5000, 1000, 2, 2), "out/rest": (None, 1000, 2, 2), "out/rest/voice": (70, 1000, 2, 2)}  # fmt: skip
    kept = {row["path"] for row in taken["gnmi_values"]}
    packets = "queue-instance-length[unit=policy-param-unit-packets]/value"
    assert any("rest" in one and one.endswith(packets) for one in kept)
    assert any("queue-max-length" in one for one in kept) and any("counter-validity" in one for one in kept)


NXOS = "/System/ipqos-items/queuing-items/policy-items/out-items/intf-items"


def nxos_queue(name: str, count: int, kind: str = "queuing") -> dict[str, object]:
    """Returns an entry of QueuingStats-list, by Cisco-NX-OS-device; numbers of 64 bits are text, as in published
    answers."""
    counted = {"txBytes": 1500 * count, "txPackets": count, "dropBytes": 3000 * count, "dropPackets": 2 * count,
               "randDropPackets": count, "randEcnMarkedPackets": 3 * count, "pfcTxPpp": 0}  # fmt: skip
    depths = {"currQueueDepth": 4096, "ucCurrQueueDepth": 4000, "mcCurrQueueDepth": 96, "maxQueueDepth": 307_200}
    return {"cmapName": name, "statType": kind, "pmapName": "default-out-policy",
            **{leaf: str(number) for leaf, number in (counted | depths).items()}}  # fmt: skip


def nxos_ports(count: int) -> list[dict[str, object]]:
    queues = [nxos_queue("c-out-8q-q3", count), nxos_queue("c-out-8q-q-default", 10 * count)]
    queues.append(nxos_queue("c-out-8q-q3", 7, "microburst"))
    return [{"name": port, "delIntfBit": False, "queCmap-items": {"QueuingStats-list": queues}}
            for port in ("eth1/1", "eth1/2")]  # fmt: skip


def json_val(tree: object) -> object:
    return messages.TypedValue(json_val=json.dumps(tree).encode())


@pytest.mark.parametrize("asked", ["policy-items", "interfaces", "one interface", "leaves"])
def test_nx_os_answers_with_a_whole_object_for_a_container(asked: str):
    """The value of an update is the object at the requested path; its lists have their keys inside."""
    above = NXOS.removesuffix("/out-items/intf-items")
    fed = Fed("nxos")
    for second in range(2):
        ports = nxos_ports(second)
        if asked == "policy-items":
            made = {above: json_val({"out-items": {"intf-items": {"If-list": ports}}})}
        elif asked == "interfaces":
            made = {NXOS: json_val({"If-list": ports})}
        elif asked == "one interface":
            made = {f"/Cisco-NX-OS-device:{NXOS[1:]}/If-list[name={port['name']}]": json_val(port) for port in ports}
        else:
            made = {
                f"{NXOS}/If-list[name={port['name']}]/queCmap-items/QueuingStats-list"
                f"[cmapName={queue['cmapName']}][statType={queue['statType']}]/{leaf}": given
                for port in ports
                for queue in port["queCmap-items"]["QueuingStats-list"]
                for leaf, given in queue.items()
            }
        fed.feed(notification(T0 + second * S, made))
    taken = fed.take()
    assert {row["semantics"] for row in taken["queues"]} == {"gauge"}
    found = {(row["port"], row["queue"]): (row["max_bytes"], row["transmit_bytes"], row["dropped_packets"],
                                           row["ecn_marked_packets"])
             for row in taken["queues"] if row["ts_ns"] == T0 + S}  # fmt: skip
    assert found == {(port, queue): (4096, 1500 * count, 2 * count, 3 * count)
                     for port in ("eth1/1", "eth1/2")
                     for queue, count in (("c-out-8q-q3", 1), ("c-out-8q-q-default", 10))}  # fmt: skip
    assert len(taken["queues"]) == 2 * len(found), "an entry of another statType is no queue"
    kept = {(row["path"].rpartition("/")[2], row["value"]) for row in taken["gnmi_values"]}
    assert {("maxQueueDepth", "307200"), ("ucCurrQueueDepth", "4000"), ("pmapName", "default-out-policy")} <= kept
    assert any("statType=microburst]/currQueueDepth" in row["path"] for row in taken["gnmi_values"])


def test_nx_os_values_of_both_models_are_two_rows_and_no_sum():
    own = f"{NXOS}/If-list[name=eth1/1]/queCmap-items/QueuingStats-list[cmapName=q][statType=queuing]/txBytes"
    other = "/qos/interfaces/interface[interface-id=eth1/1]/output/queues/queue[name=q]/state/transmit-octets"
    fed = Fed("nxos").feed(*(notification(T0 + i * S, {own: 100 * i, other: 100 * i}) for i in range(2)))
    assert [row["transmit_bytes"] for row in fed.take()["queues"]] == [100, 100]


def test_a_list_whose_keys_do_not_identify_entries_is_stored_whole():
    """Another list of the same name may have other keys: If-list has "id" below lldp-items."""
    path = "/System/lldp-items/inst-items/if-items"
    ports = [{"id": f"eth1/{number}", "name": "", "adminRxSt": "enabled"} for number in (1, 2)]
    kept = Fed("nxos").feed(notification(T0, {path: json_val({"If-list": ports})})).take()["gnmi_values"]
    assert {row["path"] for row in kept} == {f"{path}/If-list"}
    assert [json.loads(row["value"]) for row in kept] == ports


def test_ios_xr_counters_that_the_bitmask_calls_undetermined_are_left_out():
    path = ("/Cisco-IOS-XR-qos-ma-oper:qos/interface-table/interface[interface-name=e1]/output/service-policy-names/"
            "service-policy-instance[service-policy-name=out]/statistics")  # fmt: skip
    masks = [0x100, 0x100, 1, 2, 3, 0, 4783898624]
    for front in (True, False):  # the place of the bitmask among its siblings
        fed = Fed("iosxr")
        for second, mask in enumerate(masks):
            made = xr_class("gold", second, "bytes", 5000)
            del made["counter-validity-bitmask"]
            bits = {"counter-validity-bitmask": str(mask)}
            stats = bits | made if front else made | bits
            fed.feed(notification(T0 + second * S, {path: {"policy-name": "out", "class-stats": [stats]}}))
        taken = fed.take()
        rows = [(row["transmit_bytes"], row["dropped_packets"], row["max_bytes"], row["ts_ns"] - row["window_start_ns"])
                for row in taken["queues"]]  # fmt: skip
        assert rows == [(None, None, 5000, 0), (1000, 2, 5000, S), (None, 2, 5000, S), (None, None, 5000, S),
                        (None, None, 5000, S), (None, None, 5000, S), (1000, 2, 5000, S)]  # fmt: skip
        kept = [row["value"] for row in taken["gnmi_values"] if row["path"].endswith("counter-validity-bitmask")]
        assert kept == [str(mask) for mask in masks]


def test_openconfig_virtual_output_queues():
    path = (
        "/qos/interfaces/interface[interface-id=e1]/input/virtual-output-queues/voq-interface[name=e9]/queues/"
        "queue[name=2]/state/max-queue-len"
    )
    [row] = Fed().feed(notification(T0, {path: 77})).take()["queues"]
    assert (row["port"], row["queue"], row["max_bytes"]) == ("e1", "voq:e9:2", 77)


# --- the tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", built_in(), ids=lambda vendor: vendor.name)
def test_every_table_is_complete(vendor):
    assert vendor.about and vendor.source
    assert vendor.rules and all(rule.leaves for rule in vendor.rules)
    tables = Tables(built_in(), vendor.name)
    for rule in vendor.rules:
        shape = rule.pattern.shape()
        assert rule in list(tables.meanings(shape)), rule.pattern.text
        assert rule in list(tables.meanings(shape[:1]))
        assert all(not meaning.column or meaning.column in COLUMNS[rule.table] for meaning in rule.leaves.values())


@pytest.mark.parametrize("vendor", built_in(), ids=lambda vendor: vendor.name)
def test_each_leaf_names_its_model_and_revision_or_says_that_it_is_unchecked(vendor):
    models = [rule.model_of(leaf) for rule in vendor.rules for leaf in rule.leaves] + [
        fact.model for fact in vendor.facts]  # fmt: skip
    assert models and all(re.fullmatch(r"[\w.-]+@20\d\d-[01]\d-[0-3]\d|unchecked: .{10,}", model) for model in models)
    page = (ROOT / "docs" / "gnmi.md").read_text("utf-8")
    for model in models:
        assert model in page or model.startswith("unchecked"), f"docs/gnmi.md does not say that {model} was read"


def test_a_leaf_may_have_another_model_than_its_row(tmp_path: Path):
    row = QUEUE + 'semantics = "gauge"\nmodel = "a@2020-01-01"\ngauges = {x = "max_bytes", y = "avg_bytes"}\n'
    path = tmp_path / "my.toml"
    path.write_text(row + 'models = {y = "b@2021-02-03"}\n')
    [rule] = load(path).rules
    assert (rule.model_of("x"), rule.model_of("y")) == ("a@2020-01-01", "b@2021-02-03")


def test_junipers_drops_are_those_of_the_tail_and_of_all_colours():
    """The message is QueueMonitorStats of qmon.proto, of both directions."""
    base = "/junos/system/linecard/qmon-sw/queue_monitor_element_info[if_name=xe-0/0/1]/queue_monitor_stats_{}"
    base += "/queue_monitor_stats_info[queue_id=8][queue_number=3]/"
    fed = Fed("juniper")
    for second in range(2):
        for number, direction in enumerate(("egress", "ingress"), 1):
            leaves = {f"red_drop_packets_color_{colour}": 10**colour * second * number for colour in range(4)}
            leaves |= {"tail_drop_packets": 50_000 * second, "octets": 900 * second, "peak_buffer_occupancy_bytes": 7}
            here = base.format(direction)
            fed.feed(notification(T0 + second * S, {here + leaf: given for leaf, given in leaves.items()}))
    found = [row for row in fed.take()["queues"] if row["transmit_bytes"] is not None]
    assert sorted((row["port"], row["queue"], row["max_bytes"], row["dropped_packets"]) for row in found) == [
        ("xe-0/0/1", "3", 7, 51_111), ("xe-0/0/1", "in:3", 7, 52_222)]  # fmt: skip


def test_a_sensor_includes_values_under_other_paths():
    found = list(Tables(built_in(), "juniper").meanings(parse("/junos/system/linecard/qmon-sw/").steps))
    assert any(isinstance(rule, VendorRule) and rule.pattern.text.startswith("/cos") for rule in found)


QUEUE = '[[rows]]\ntable = "queues"\npath = "/a/{port}/{queue}"\n'
BAD = {
    "invalid TOML": "x = ",
    "maximum recursion depth": "x = " + 5000 * "[",
    "lacks 'table'": '[[rows]]\npath = "/a"',
    "unknown table 'quees'": '[[rows]]\ntable = "quees"\npath = "/a"',
    "no column 'max'": QUEUE + 'semantics = "gauge"\ngauges = {x = "max"}',
    "semantics 'often'": QUEUE + 'semantics = "often"\ngauges = {x = "max_bytes"}',
    "the path has no 'queue'": '[[rows]]\ntable = "queues"\npath = "/a/{port}"\nsemantics = "gauge"',
    "unknown word 'gauge'": '[[rows]]\ntable = "ports"\npath = "/a/{port}"\ngauge = {x = "in_bytes"}',
    "unknown fact 'start'": '[[facts]]\npath = "/a"\nfact = "start"',
    "invalid model 'a'": QUEUE + 'semantics = "gauge"\nmodel = "a"',
    "no column 'bytes'": QUEUE + 'semantics = "gauge"\nundetermined = {x = {bytes = 1}}',
    "invalid bits": QUEUE + 'semantics = "gauge"\nundetermined = {x = {max_bytes = 0}}',
    "invalid place: bad character": '[[rows]]\ntable = "ports"\npath = "/a[k={1port}]/{port}"',
    "invalid place: redefinition": '[[rows]]\ntable = "ports"\npath = "/a/{port}{port}"',
    "invalid duration": QUEUE + 'semantics = "gauge"\nwindow = "soon"',
}


@pytest.mark.parametrize(("fault", "text"), BAD.items(), ids=BAD)
def test_an_invalid_table_is_one_line(tmp_path: Path, fault: str, text: str):
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as failure:
        load(path)
    assert fault in str(failure.value) and str(path) in str(failure.value) and "\n" not in str(failure.value)


def test_the_example_of_the_page_is_a_valid_table(tmp_path: Path):
    page = (ROOT / "docs" / "add-a-switch.md").read_text("utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "acme.toml"
    path.write_text(text)
    fed = Fed()
    fed.device.tables = Tables([load(path), *built_in()], "acme")
    leaf = "/acme/port[name=1/1]/class[id=5]/depth/peak"
    assert fed.feed(notification(T0, {leaf: 12})).take()["queues"][0]["max_bytes"] == 12
