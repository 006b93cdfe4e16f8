"""Names of the senders of bursts, as they were at that time: in bursts, in groups of bursts, in a live view, and in
texts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE
from livestore import Growing
from storelib import write
from test_fanin import T0, found, gather_rounds

from mburst import senders
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.names import LiveNames
from mburst.analysis.live.store import LiveStore
from mburst.dashboards.investigation.phrases import is_of_services, who_words
from mburst.names import shown
from mburst.sql import StoreFolder

HOUR = 3600 * 10**9
NAMES = [
    {"prefix": "10.0.1.16/29", "service": "db-shard", "located": "r7"},
    {"prefix": "10.0.1.24/30", "service": "db-shard", "located": "r8"},
    {"prefix": "10.0.1.18", "name": "db-18"},
    {"prefix": "10.0.1.18", "name": "old", "until_ns": T0 - HOUR},
    {"prefix": "10.0.7.7", "name": "back\x1b[31mup", "from_ns": T0 - HOUR},
]


def with_names(store: StoreFolder, names: list[dict[str, Any]]) -> None:
    given = {"batch": "b", "origin": "names.csv", "kind": "csv", "imported_ns": 1, "from_ns": None, "until_ns": None}
    given |= dict.fromkeys(("name", "service", "located", "owner"), "")
    write(store, "names", *({**given, **name} for name in names))


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    store = StoreFolder.create(tmp_path / "s")
    gather_rounds(store, 20, asked=12)
    return store


def test_bursts_have_the_names_and_services_that_were_valid_then(store: StoreFolder) -> None:
    with_names(store, NAMES)
    with store.connect() as con:
        *bursts, last = find_bursts(con, BurstDefinition(), direction="in")
    for burst in bursts:
        names = {
            sender["source"]: (sender["name"], sender["service"], sender["rack"]) for sender in burst["top_sources"]
        }
        assert names["10.0.1.18"] == ("db-18", "db-shard", "r7")
        assert names["10.0.1.17"] == ("db-shard 10.0.1.17", "db-shard", "r7")
        racks = [{"rack": "r7", "senders": 8}, {"rack": "r8", "senders": 4}]
        assert burst["services"] == [{"service": "db-shard", "senders": 12, "racks": racks}]
        assert senders.senders_text(burst, 3) == "12 of db-shard (racks r7 8, r8 4)"
    assert last["services"] == [] and last["top_sources"][0]["name"] == "back\x1b[31mup"
    assert senders.senders_text(last, 3) == r"back\x1b[31mup 100 %"


def test_without_names_there_are_addresses(store: StoreFolder) -> None:
    with store.connect() as con:
        [burst, *_] = find_bursts(con, BurstDefinition(), direction="in")
    assert {(top["name"], top["service"], top["rack"]) for top in burst["top_sources"]} == {(None, None, None)}
    assert burst["services"] == []
    text = senders.senders_text(burst, 2)
    assert text == "10.0.1.16 8.33 %, 10.0.1.17 8.33 % and 10 more" or text.count("10.0.1.") == 2


@pytest.mark.parametrize(
    ("top", "sources", "text"),
    [
        ({"10.0.0.1": 0.5, "other": 0.5}, 6, "10.0.0.1 50 % and 5 more"),
        ({"other": 0.6, "10.0.0.1": 0.4}, 3, "10.0.0.1 40 % and 2 more"),
        ({"other": 1.0}, 4, "4 senders"),
        ({"other": 1.0}, 1, "1 sender"),
        ({}, 0, ""),
    ],
)
def test_senders_that_count_together_are_counted_once(top: dict[str, float], sources: int, text: str) -> None:
    listed = [{"source": name, "name": None, "share": share} for name, share in top.items()]
    burst = {"top_sources": listed, "services": [], "sources": sources, "fan_in": 1}
    assert senders.senders_text(burst, 3) == text


def test_a_group_has_the_service_of_most_of_its_members(store: StoreFolder) -> None:
    with_names(store, NAMES)
    answers, backup = found(store)
    racks = [{"rack": "r7", "senders": 8}, {"rack": "r8", "senders": 4}]
    assert answers.services == [{"service": "db-shard", "senders": 12, "racks": racks}]
    assert answers.racks == ["r7", "r8"] and answers.called["10.0.1.18"].name == "db-18"
    assert who_words([answers]) == (
        "They come from 12 of db-shard (racks r7 8, r8 4), 10.0.1.16/28 (12 senders): 12 at once (incast) from port "
        "9000, 2 ms after this host asked 12 of db-shard at once on port 9000."
    )
    assert backup.services == [] and who_words([backup]).startswith(r"They come from back\x1b[31mup (10.0.7.7)")


@pytest.mark.parametrize(("of_service", "named"), [(5, False), (6, True)])
def test_a_service_of_fewer_than_half_names_no_group(store: StoreFolder, of_service: int, named: bool) -> None:
    with_names(store, [{"prefix": f"10.0.1.{16 + n}", "service": "db"} for n in range(of_service)])
    answers, _ = found(store)
    assert is_of_services(answers) == named and len(answers.called) == of_service
    with store.connect() as con:
        [burst, *_] = find_bursts(con, BurstDefinition(), direction="in")
    assert (senders.burst_services_text(burst) != "") == named
    if named:
        assert senders.senders_text(burst, 3) == "6 of db and 6 more"


def test_a_live_view_uses_names_that_are_imported_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mburst.analysis.live.names.LOOK_S", 0.0)
    growing = Growing(tmp_path / "store", T0)
    growing.append([84] * 100)
    live = LiveStore(growing.store)
    bursts = LiveBursts(live, BurstDefinition())
    [lane] = live.lanes.values()
    shown = []
    for name in (None, "first", "second"):
        if name:
            with_names(growing.store, [{"prefix": "10.1.0.1", "name": name, "imported_ns": len(shown), "batch": name}])
        growing.burst(20, senders=("10.1.0.1", "10.1.0.2"))
        growing.append([84] * 30_000)
        live.poll()
        with live.lock:
            bursts.look()
        shown.append([sender["name"] for sender in lane.bursts[-1]["top_sources"]])
    assert Counter(map(tuple, shown)) == Counter([(None, None), ("first", None), ("second", None)])
    growing.close()
    live.close()


def test_names_are_read_again_only_if_files_changed(store: StoreFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mburst.analysis.live.names.LOOK_S", 0.0)
    names = LiveNames(store)
    assert names.rows() is None
    with_names(store, NAMES)
    first = names.rows()
    assert first is not None and first.num_rows == len(NAMES) and names.rows() is first


def test_ports_have_the_name_of_this_system_behind_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {(5432, "tcp"): "postgresql", (514, "udp"): "sys\nlog", (50000, "tcp"): "a client's"}

    def look(port: int, protocol: str) -> str:
        if (port, protocol) not in known:
            raise OSError("port/proto not found")
        return known[port, protocol]

    senders.port_text.cache_clear()
    monkeypatch.setattr("socket.getservbyport", look)
    texts = [senders.port_text(port) for port in (5432, 514, 9000, 50000)]
    assert texts == ["5432 (postgresql)", r"514 (sys\x0alog)", "9000", "50000"]
    senders.port_text.cache_clear()


@pytest.mark.parametrize(("fan_in", "text"), [(12, "3 of a (rack r1), 3 of b and 6 more"), (13, "")])
def test_two_services_are_named_if_they_have_half_of_the_senders(fan_in: int, text: str) -> None:
    racks = {"a": [{"rack": "r1", "senders": 3}], "b": [], "c": []}
    services = [{"service": service, "senders": 3, "racks": of} for service, of in racks.items()]
    burst = {"fan_in": fan_in, "sources": 12, "top_sources": [], "services": services}
    assert senders.burst_services_text(burst) == senders.senders_text(burst, 3) == text
    assert senders.named_address("10.0.0.1", None) == "10.0.0.1"
    assert senders.named_address("10.0.0.1", "db 10.0.0.1") == "db 10.0.0.1"


def test_hostile_names_stay_short_text_on_one_line_and_keep_the_address(store: StoreFolder) -> None:
    """A sentence has the names of the group and of at most two racks."""
    given = list(HOSTILE.values())
    for name in given:
        top = [{"source": "10.0.0.1", "name": name, "share": 1.0, "bytes": 1}]
        of = [{"service": name, "senders": 3, "racks": [{"rack": name, "senders": 3}]}]
        texts = [
            senders.sender_name(top[0]),
            senders.named_address("10.0.0.1", name),
            senders.senders_text({"fan_in": 1, "sources": 1, "top_sources": top, "services": []}, 3),
            senders.senders_text({"fan_in": 3, "sources": 3, "top_sources": top, "services": of}, 3),
        ]
        for text in texts:
            assert text == shown(text) and len(text) <= 2 * senders.LONGEST + 30
        assert "10.0.0.1" in texts[1]
    long = "x" * 250 + "10.0.0.1"
    assert senders.named_address("10.0.0.1", long).endswith("\N{HORIZONTAL ELLIPSIS} (10.0.0.1)")
    with_names(
        store, [{"prefix": "10.0.1.16/28", "service": HOSTILE["terminal"] + "y" * 200, "located": HOSTILE["bidi"]}]
    )
    answers, _ = found(store)
    assert who_words([answers]) == shown(who_words([answers])) and "10.0.1.16/28 (12 senders)" in who_words([answers])
    assert "y" * senders.LONGEST not in who_words([answers])
