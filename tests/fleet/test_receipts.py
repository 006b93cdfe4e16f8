"""Receipts are read as they were written, and no changed receipt is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.fleet import receipts
from mburst.fleet.receipts import DamagedReceipt, Receipt, ReceiptName, ShippedFile
from mburst.fleet.target import open_target

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
times = st.integers(-(2**63), 2**63 - 1)
written = st.integers(0, 4 * 10**18)
files = st.builds(
    ShippedFile, texts, texts, st.integers(0, 2**40), st.text("0123456789abcdef"), st.integers(0, 2**40), times, times
)
definitions = st.none() | st.dictionaries(texts, st.integers(-(2**53), 2**53) | texts | st.none(), max_size=3)
some = st.builds(
    Receipt,
    *(names, names, texts, st.lists(texts, max_size=3).map(tuple), definitions, times, times, written),
    *(st.none() | st.integers(1, 10**18), texts, st.lists(files, max_size=4).map(tuple)),
    *(st.lists(texts, max_size=3).map(tuple), st.lists(texts, max_size=3).map(tuple)),
    st.none() | st.tuples(times, times),
)


@settings(max_examples=40)
@given(some)
def test_a_receipt_comes_back_as_it_was_written(receipt: Receipt) -> None:
    content = receipt.to_json()
    assert Receipt.from_json(content) == receipt
    name = ReceiptName.parse(receipts.key_of(receipt, content))
    assert name is not None and (name.rack, name.host) == (receipt.rack, receipt.host)
    assert name.written_ns == receipt.written_ns // 10**9 * 10**9


@settings(max_examples=30)
@given(some, st.data())
def test_a_changed_receipt_is_not_read(receipt: Receipt, data: st.DataObject) -> None:
    content = bytearray(receipt.to_json())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert receipts.key_of(receipt, bytes(content)) != receipts.key_of(receipt, receipt.to_json())


values = st.none() | st.booleans() | st.integers() | texts
deep = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)


@settings(max_examples=30)
@given(deep)
def test_other_json_is_no_receipt(value: object) -> None:
    with pytest.raises(ValueError):
        Receipt.from_json(json.dumps(value).encode())


@pytest.mark.parametrize(
    "field, value",
    [
        ("until_ns", True), ("until_ns", 1.0), ("host", 1), ("files", [{}]), ("definition", []), ("missing", [1]),
        ("every_ns", "1h"), ("format", 2), ("more", 1), ("until_ns", 2**63), ("written_ns", -(2**64)),
        ("compacted_ns", 1), ("compacted_ns", [1]), ("compacted_ns", [1, "2"]),
    ],
)  # fmt: skip
def test_a_receipt_has_the_types_of_its_fields(field: str, value: object) -> None:
    facts = {**json.loads(receipt().to_json()), field: value}
    with pytest.raises(ValueError):
        Receipt.from_json(json.dumps(facts).encode())


def receipt(host: str = "cache-1", until: int = 10, keys: tuple[str, ...] = ("a",), **more: Any) -> Receipt:
    """Returns a receipt of host HOST in rack r/1, written UNTIL seconds after 1970."""
    stated = tuple(ShippedFile("bins", key, 1, "00", 1, 0, 1) for key in keys)
    given: dict[str, Any] = {
        "rack": "r/1", "host": host, "level": "all", "tables": ("bins",), "definition": None, "since_ns": 0,
        "until_ns": until, "written_ns": until * 10**9, "every_ns": None, "version": "1", "files": stated,
    }  # fmt: skip
    return Receipt(**{**given, **more})


def test_receipts_are_listed_by_rack_host_and_time(tmp_path: Path) -> None:
    target = open_target(tmp_path / "archive")
    all_of_them = [receipt(host, until) for host in ("a", "b") for until in (10, 20)] + [receipt("a", rack="r")]
    for one in all_of_them:
        key = receipts.write_receipt(target, one)
        assert receipts.write_receipt(target, one) == key
    assert sorted([*receipts.read_receipts(target)], key=repr) == sorted(all_of_them, key=repr)
    assert [*receipts.read_receipts(target, "r/1", "b")] == all_of_them[2:4]
    assert [*receipts.read_receipts(target, "r")] == all_of_them[4:]
    assert [*receipts.read_receipts(target, "r/1", written_since_ns=15 * 10**9)] == [all_of_them[1], all_of_them[3]]


def test_a_damaged_receipt_is_named(tmp_path: Path) -> None:
    target = open_target(tmp_path / "archive")
    good, bad = receipts.write_receipt(target, receipt("a")), receipts.write_receipt(target, receipt("b"))
    (tmp_path / "archive" / bad).write_bytes(receipt("b", until=11).to_json())
    with pytest.raises(DamagedReceipt, match="does not match its checksum"):
        list(receipts.read_receipts(target))
    heard: list[DamagedReceipt] = []
    assert [found.host for found in receipts.read_receipts(target, damaged=heard.append)] == ["a"]
    assert len(heard) == 1 and bad in str(heard[0])
    other = receipt("c").to_json()
    target.put_new(receipts.key_of(receipt("a"), other), other)
    with pytest.raises(DamagedReceipt, match="of another rack or host"):
        list(receipts.read_receipts(target, "r/1", "a"))
    assert good


def test_the_files_of_receipts_are_their_union_without_replaced_files() -> None:
    several = [receipt(keys=("a", "b")), receipt(keys=("b", "c")), receipt(keys=("d",), replaces=("a", "c"))]
    heard: list[str] = []
    hear = lambda error, file: heard.append(f"{file.key}: {error}")  # noqa: E731
    assert list(receipts.files_of(several, hear)) == ["b", "d"] and not heard
    changed = receipt(keys=())._replace(files=(ShippedFile("bins", "b", 1, "11", 1, 0, 1),))
    assert list(receipts.files_of([*several, changed], hear)) == ["d"]
    assert heard == ["b: b: receipts of host cache-1 state SHA-256 00 and 11"]
