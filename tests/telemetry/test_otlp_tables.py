"""Tables of metrics: their meaning, and errors in one line with the file, the place in it and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from otlplib import MS, T0, FedIntake, message

from mburst.errors import MburstError
from mburst.quality import Quality
from mburst.telemetry.otlp.intake import Intake
from mburst.telemetry.otlp.meanings import built_in, load, meanings
from mburst.telemetry.otlp.speeds import Speeds

QUEUES = 'table = "queues"\nsemantics = "gauge"\nfrom = { q = "{port}|{queue}" }\n'
PORTS = 'table = "ports"\nfrom = { object_name = "{port}" }\n'
DEPTH = 'gauges = { "acme.depth" = "max_bytes" }\n'

WRONG = [
    ("\x00", "invalid TOML"),
    ("x = " + 5000 * "9", "invalid TOML"),
    ("", "rows: no [[rows]]"),
    ("rows = 1", "rows: no [[rows]]"),
    ("rows = [1]", "rows: no [[rows]]"),
    ("device = 'host.name'\n[[rows]]\n" + QUEUES + DEPTH, "device: invalid list of attributes"),
    ("about = 1\n[[rows]]\n" + QUEUES + DEPTH, "about: invalid text 1"),
    ("abuot = ''\n[[rows]]\n" + QUEUES + DEPTH, "unknown word 'abuot'"),
    ("[[rows]]\n" + QUEUES, "rows 1: no metric"),
    ("[[rows]]\n" + QUEUES + DEPTH + "[[rows]]\n" + QUEUES + "gauge = {}", "rows 2: unknown word 'gauge'"),
    ("[[rows]]\n" + QUEUES.replace("queues", "buffers") + DEPTH, "rows 1.table: unknown table 'buffers'"),
    ("[[rows]]\n" + QUEUES.replace('"queues"', "[]") + DEPTH, "rows 1.table: invalid text []"),
    ("[[rows]]\n" + QUEUES.replace('"gauge"', '"depth"') + DEPTH, "rows 1.semantics: invalid semantics 'depth'"),
    ("[[rows]]\n" + PORTS + "semantics = 'gauge'\ncounters = {a = 'in_bytes'}", "rows 1.semantics: ports has none"),
    ("[[rows]]\n" + QUEUES.replace("{port}|", "") + DEPTH, "rows 1.from: 0 attributes have {port}"),
    ("[[rows]]\n" + QUEUES.replace("|", "|{port}|") + DEPTH, "rows 1.from: 2 attributes have {port}"),
    ("[[rows]]\n" + QUEUES.replace("|", "") + DEPTH, "rows 1.from.q: nothing between two places"),
    ("[[rows]]\n" + QUEUES.replace("{queue}", "{1q}") + DEPTH, "rows 1.from: unknown place {1q}"),
    ("[[rows]]\n" + QUEUES.replace("{queue}", "{queue}{}") + DEPTH, "rows 1.from.q: nothing between two places"),
    ("[[rows]]\n" + QUEUES.replace('{ q = "{port}|{queue}" }', '"{port}"') + DEPTH, "rows 1.from: invalid table"),
    ("[[rows]]\n" + QUEUES.replace('"{port}|{queue}"', "7") + DEPTH, "rows 1.from.q: invalid text 7"),
    ("[[rows]]\n" + QUEUES + "gauges = ['a']", "rows 1.gauges: invalid table ['a']"),
    ("[[rows]]\n" + QUEUES + "gauges = { d = 'depth' }", "rows 1.gauges.d: unknown column 'depth'"),
    ("[[rows]]\n" + QUEUES + "gauges = { d = ['max_bytes'] }", "rows 1.gauges.d: unknown column ['max_bytes']"),
    ("[[rows]]\n" + QUEUES + "gauges = { d = 'dropped_packets' }", "rows 1.gauges.d: unknown column"),
    ("[[rows]]\n" + QUEUES + "counters = { d = 'max_bytes' }", "rows 1.counters.d: unknown column"),
    ("[[rows]]\n" + PORTS + "counters = {a='in_bytes'}\ncounts = {a='out_bytes'}", "rows 1.counts.a: the metric"),
    ("[[rows]]\n" + QUEUES + DEPTH + "scale = { other = 8 }", "rows 1.scale.other: the row has no such metric"),
    ("[[rows]]\n" + QUEUES + DEPTH + "scale = { 'acme.depth' = 0 }", "rows 1.scale.acme.depth: invalid number 0"),
    ("[[rows]]\n" + QUEUES + DEPTH + "scale = { 'acme.depth' = true }", "rows 1.scale.acme.depth: invalid number True"),
    ("[[rows]]\n" + QUEUES + DEPTH + "bits = { 'acme.depth' = 32 }", "rows 1.bits.acme.depth: the row has no such"),
    ("[[rows]]\n" + PORTS + "counters = { a = 'in_bytes' }\nbits = { a = 64 }", "rows 1.bits.a: invalid number 64"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_errors_in_a_table_are_reported_with_their_place(tmp_path, text, said):
    path = tmp_path / "acme.toml"
    path.write_text(text)
    with pytest.raises(MburstError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {said}") and caught.value.hint
    assert "\n" not in str(caught.value)


def test_unreadable_tables_are_named(tmp_path):
    for path, said in ((tmp_path, "Is a directory"), (tmp_path / "none.toml", "No such file")):
        with pytest.raises(MburstError, match=f"{path}: cannot read: {said}") as caught:
            load(path)
        assert caught.value.hint
    path = tmp_path / "binary.toml"
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(MburstError, match="invalid TOML"):
        load(path)


def test_tables_that_come_with_mburst_are_read():
    assert {path.stem for path in built_in()} == {"cumulus", "sonic"} and len(meanings()) > 20


def octets(folder: Path, values: list[tuple[int, int]], link: int | None = 100 * 10**9) -> FedIntake:
    """Returns the intake of a counter of octets that wraps after 2^32 - 1, at a port of 100 Gb/s. VALUES are (ms, bytes
    carried)."""
    path = folder / "acme.toml"
    path.write_text(
        f'device = ["host.name"]\n[[rows]]\n{PORTS}counters = {{ tx = "out_bytes" }}\nbits = {{ tx = 32 }}\n'
    )
    fed = FedIntake()
    fed.intake = Intake(meanings([path]), "b", Speeds(others=link))
    for first in range(0, len(values), 50):
        fed.feed(message([("tx", "E", T0 + ms * MS, value % 2**32) for ms, value in values[first : first + 50]]))
    return fed.end()


def test_a_decrease_is_a_wrap_if_the_link_can_have_carried_it(tmp_path):
    """The counter may have been in the middle of its range. A little more than the link carries is a reset."""
    step = 1_187_500_000  # 95 % of 100 ms
    fed = octets(tmp_path, [(100 * k, step * k) for k in range(60)])
    assert [one for one in fed.bins.values()] == [(step, 0)] * 59 and not fed.missed
    assert not fed.intake.counted()
    fed = octets(tmp_path, [(k, 2**32 - 10_000 + (k if k < 30 else 20_000_000)) for k in range(31)])
    assert fed.intake.counted()["tor1", "reset", "counter reset"] == 1


@pytest.mark.parametrize("carried", [11_886_875_000, 5 * 10**9])
def test_bytes_of_a_counter_that_may_have_wrapped_twice_are_not_known(tmp_path, carried):
    """In a second the link carries three times the range of the counter: the number of bytes is unknown, whether the
    value decreased or not."""
    values = [(k, 12_000_000 * k) for k in range(100)]
    values += [(1100 + k, values[-1][1] + carried + 12_000_000 * k) for k in range(100)]
    fed = octets(tmp_path, values)
    assert [(one.start_ns - T0, one.end_ns - T0, one.bytes) for one in fed.missed] == [(99 * MS, 1100 * MS, None)]
    assert sum(amount for amount, _ in fed.bins.values()) == 2 * 99 * 12_000_000
    assert fed.intake.counted() == {("tor1", "dropped", "totals that may have wrapped more than once"): 1}


def test_a_row_whose_counter_may_have_wrapped_more_than_once_has_no_bytes(tmp_path):
    """The counter is sampled infrequently. If the speed of the link is not known, it may be the fastest one."""
    fed = octets(tmp_path, [(2000 * k, 10**6 * k) for k in range(20)])
    assert {(row["out_bytes"], row["quality"]) for row in fed.rows["ports"]} == {
        (None, Quality.IMPOSSIBLE | Quality.GAP)
    }
    assert len(fed.rows["ports"]) == 19
    for ms, missed in ((1, 0), (10, 1)):
        assert len(octets(tmp_path, [(ms * k, 1000 * k) for k in range(40)], None).missed) == missed


def wrapping(folder: Path, bits: str) -> FedIntake:
    """Returns the intake of a counter of cells that wraps after 2^32 - 1, sampled each millisecond."""
    path = folder / "acme.toml"
    path.write_text(
        'device = ["host.name"]\n[[rows]]\n'
        + PORTS
        + 'counters = { "tx" = "out_bytes" }\nscale = { "tx" = 192 }\n'
        + bits
    )
    fed = FedIntake()
    fed.intake = Intake(meanings([path]), "b", Speeds())
    return fed.feed(message([("tx", "E", T0 + k * MS, (2**32 - 300 + 10 * k) % 2**32) for k in range(60)])).end()


def test_a_counter_wraps_only_if_its_table_says_so(tmp_path):
    fed = wrapping(tmp_path, "bits = { tx = 32 }\n")
    assert [one for one in fed.bins.values()] == [(1920, 0)] * 59 and not fed.missed
    many = [("tx", "E", T0 + 99 * MS, 2**63 // 192 + 1)]
    assert fed.intake.read(message(many), "a").refused == {"a value out of range of its column": 1}
    fed = wrapping(tmp_path, "")
    assert len(fed.missed) == 1 and fed.intake.counted()["tor1", "reset", "counter reset"] == 1
