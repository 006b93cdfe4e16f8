"""TypedValue → Python values, and JSON trees → leaves (gNMI specification 2.2.3 and 2.3; RFC 7951 for JSON_IETF)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

from ...errors import UsageError
from ...units import parse_time
from .limits import JSON_PARTS, LIST_PARTS, PATH_BYTES, STEPS, VALUE_BYTES, LimitExceeded
from .path import Step, Steps, without_module

MOST_SECONDS = 10**12  # since 1970; the same number of nanoseconds would be a quarter of an hour after 1970

_FRACTION_DIGITS = 18  # of decimal64 at most (RFC 7950 section 9.3)
_NUMBER_LETTERS = 32  # of a number of 64 bits with its sign and spaces
INTEGERS = (-(2**63), 2**64 - 1)  # int64 and uint64


class NotUnderstood(ValueError):
    """A value that cannot be read; the message states why, without the value."""


def read(update: Any) -> tuple[str, Any]:
    """Returns (kind, value) of an Update: kind is "json" for a tree or list of JSON, with the parsed value, otherwise
    the name of the scalar's kind. Raises NotUnderstood, LimitExceeded."""
    kind = update.val.WhichOneof("value")
    if kind is None:
        return _old(update.value)
    value = getattr(update.val, kind)
    if kind in ("string_val", "bytes_val", "ascii_val"):
        return kind[:-4], _bounded(value)
    if kind in ("uint_val", "int_val", "bool_val", "double_val"):
        return kind[:-4], value
    if kind in ("json_ietf_val", "json_val"):
        return from_json(value)
    if kind == "float_val":
        return "float", value
    if kind == "decimal_val":
        return "decimal", _decimal(value)
    if kind == "leaflist_val":
        if len(value.element) > LIST_PARTS:
            raise LimitExceeded(f"a list of more than {LIST_PARTS:,} values")
        return "list", [_scalar(element) for element in value.element]
    return kind.removesuffix("_val"), _bounded(value.value if kind == "any_val" else value)


def _bounded(text: Any) -> Any:
    if len(text) > VALUE_BYTES:
        raise LimitExceeded(f"a value of more than {VALUE_BYTES >> 10} kB")
    return text


def _scalar(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    return _decimal(value.decimal_val) if kind == "decimal_val" else getattr(value, kind)


def _decimal(value: Any) -> Decimal:
    if value.precision > _FRACTION_DIGITS:
        raise NotUnderstood(f"a decimal of more than {_FRACTION_DIGITS} fraction digits")
    return Decimal(value.digits).scaleb(-value.precision)


def _old(value: Any) -> tuple[str, Any]:
    """The form of targets before gNMI 0.4: bytes and an encoding."""
    from .messages import ENCODINGS

    if not value.value:
        return "none", None
    if value.type in (ENCODINGS.index("JSON"), ENCODINGS.index("JSON_IETF")):
        return from_json(value.value)
    return "bytes", _bounded(value.value)


def from_json(text: bytes) -> tuple[str, Any]:
    """Returns (kind, value) of a JSON document. Raises NotUnderstood, LimitExceeded."""
    if len(text) > JSON_PARTS and text.count(b",") + text.count(b"{") + text.count(b"[") > JSON_PARTS:
        raise LimitExceeded(f"JSON of more than {JSON_PARTS:,} parts")
    try:
        value = json.loads(text.decode("utf-8-sig"))  # by default, json.loads accepts halves of characters
    except ValueError as error:
        raise NotUnderstood(f"invalid JSON: {getattr(error, 'msg', 'not UTF-8')}") from None
    except RecursionError:
        raise NotUnderstood("JSON that is nested too deeply") from None
    if b"\\u" in text:
        value = _without_surrogates(value)
    if isinstance(value, dict | list):
        return "json", value
    if value is None:
        return "none", None
    kinds: dict[type, str] = {bool: "bool", int: "int", float: "double", str: "string"}
    return kinds[type(value)], value


def _without_surrogates(value: Any) -> Any:
    """VALUE without halves of characters, which JSON can escape and no other text can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(entry) for entry in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(below) for name, below in value.items()}
    return value


def leaves(tree: Any, base: Steps, keys_of: dict[str, tuple[tuple[str, ...], ...]]) -> Iterator[tuple[Steps, Any]]:
    """Yields (path, scalar or JSON list) of each leaf in a JSON tree at BASE. Names lose their YANG module.

    A list of objects needs its keys: KEYS_OF has, for the name of a list, the sets of names that can be its keys. A
    list with unknown keys, and a list of scalars, is a leaf; so are entries that these keys do not separate. Raises
    LimitExceeded.
    """
    if len(base) > STEPS:
        raise LimitExceeded(f"JSON that is nested deeper than {STEPS} levels")
    if isinstance(tree, dict):
        for name, below in tree.items():
            plain = _plain(name) if not name[:1].isdigit() and not _is_key_like(name) else name
            if isinstance(below, list) and below and all(isinstance(entry, dict) for entry in below):
                yield from _entries(plain, below, base, keys_of)
            else:
                yield from leaves(below, (*base, (plain, ())), keys_of)
    elif isinstance(tree, list) and tree and all(isinstance(entry, dict) for entry in tree) and base:
        yield from _entries(base[-1][0], tree, base[:-1], keys_of)
    else:
        yield base, tree


def _plain(name: str) -> str:
    if len(name) > PATH_BYTES:
        raise LimitExceeded(f"a name of more than {PATH_BYTES:,} letters")
    return without_module(name)


def _is_key_like(name: str) -> bool:
    """SONiC has names such as "Ethernet0:3" and "oid:0x15", in which the part before the colon is not a module."""
    return name.rpartition(":")[2][:1].isdigit()


def _entries(
    name: str, entries: list[dict[str, Any]], base: Steps, keys_of: dict[str, tuple[tuple[str, ...], ...]]
) -> Iterator[tuple[Steps, Any]]:
    steps = [_step(name, entry, keys_of.get(name, ())) for entry in entries]
    times = Counter(steps)
    for entry, step in zip(entries, steps, strict=True):
        if step is None or times[step] > 1:  # another list of that name, with keys of its own
            yield (*base, (name, ())), entry
            continue
        keys = {key for key, _ in step[1]}
        rest = {key: value for key, value in entry.items() if _plain(key) not in keys}
        yield from leaves(rest, (*base, step), keys_of)


def _step(name: str, entry: dict[str, Any], keys_of: tuple[tuple[str, ...], ...]) -> Step | None:
    """The step of an entry of a list: its name with the first of the sets of keys that the entry has."""
    plain = {_plain(key): value for key, value in entry.items()}
    keys = next((keys for keys in keys_of if all(key in plain for key in keys)), None)
    return None if keys is None else (name, tuple(sorted((key, str(plain[key])) for key in keys)))


def as_text(value: Any) -> str:
    """A value in the form of a row of `gnmi_values`: exact, and the same for the same value."""
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=as_text)
    return "" if value is None else str(value)


def as_integer(value: Any) -> int | None:
    """A whole number of 64 bits, with or without a sign, also from the text of JSON_IETF; None if it is not one."""
    number: int | None = None
    if type(value) is int:
        number = value
    elif isinstance(value, str) and len(value) <= _NUMBER_LETTERS:
        with suppress(ValueError):
            number = int(value)
    elif isinstance(value, float | Decimal) and abs(float(value)) < 2**64:  # false for NaN
        number = int(value)
    return number if number is not None and INTEGERS[0] <= number <= INTEGERS[1] else None


def as_time(value: Any) -> int | None:
    """Unix nanoseconds from a number of them, a number of seconds (as openconfig-system@2018-11-21 has boot-time), or
    an RFC 3339 time; None if it is none of these."""
    number = as_integer(value)
    if number is not None:
        return number * 10**9 if 0 < number < MOST_SECONDS else number
    if not isinstance(value, str) or len(value) > 2 * _NUMBER_LETTERS:
        return None
    try:
        return parse_time(value)
    except UsageError:
        return None


def kind_of(value: Any) -> str:
    """The kind of a leaf of a JSON tree."""
    kinds: dict[type, str] = {
        bool: "bool",
        int: "int",
        float: "double",
        str: "string",
        type(None): "none",
        list: "list",
    }
    return kinds.get(type(value), "json")
