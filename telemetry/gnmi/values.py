"""TypedValue → Python values, and JSON trees → leaves (gNMI specification 2.2.3 and 2.3; RFC 7951 for JSON_IETF)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ...errors import UsageError
from ...units import parse_time
from .path import Step, Steps, without_module

MOST_SECONDS = 10**12  # since 1970; as nanoseconds it would be a quarter of an hour after
Scalar = int | float | str | bool | bytes | Decimal | None


class NotUnderstood(ValueError):
    """A value that cannot be read; the message says why."""


def read(update: Any) -> tuple[str, Any]:
    """(kind, value) of an Update: kind is "json" for a tree or list of JSON, whose value is parsed, else the name of
    the scalar's kind. Raises NotUnderstood."""
    kind = update.val.WhichOneof("value")
    if kind is None:
        return _old(update.value)
    value = getattr(update.val, kind)
    if kind in ("uint_val", "int_val", "string_val", "bool_val", "double_val", "bytes_val", "ascii_val"):
        return kind[:-4], value
    if kind in ("json_ietf_val", "json_val"):
        return from_json(value)
    if kind == "float_val":
        return "float", value
    if kind == "decimal_val":
        return "decimal", Decimal(value.digits).scaleb(-value.precision)
    if kind == "leaflist_val":
        return "list", [_scalar(element) for element in value.element]
    return kind.removesuffix("_val"), value.value if kind == "any_val" else value


def _scalar(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "decimal_val":
        return Decimal(value.decimal_val.digits).scaleb(-value.decimal_val.precision)
    return getattr(value, kind)


def _old(value: Any) -> tuple[str, Any]:
    """What targets before gNMI 0.4 send: bytes and an encoding."""
    from .messages import ENCODINGS

    if not value.value:
        return "none", None
    if ENCODINGS[value.type] in ("JSON", "JSON_IETF"):
        return from_json(value.value)
    return "bytes", value.value


def from_json(text: bytes) -> tuple[str, Any]:
    """(kind, value) of a JSON document. Raises NotUnderstood."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise NotUnderstood(f"no JSON: {error}") from None
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
    """JSON can escape half of a character, which no other text can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(entry) for entry in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(below) for name, below in value.items()}
    return value


def leaves(tree: Any, base: Steps, keys_of: dict[str, tuple[tuple[str, ...], ...]]) -> Iterator[tuple[Steps, Any]]:
    """(path, scalar or JSON list) of each leaf in a JSON tree at BASE. Names lose their YANG module.

    A list of objects needs to know its keys: KEYS_OF has for the name of a list the sets of names that can be its keys.
    A list whose keys are not known, and a list of scalars, is a leaf.
    """
    if isinstance(tree, dict):
        for name, below in tree.items():
            plain = without_module(name) if not name[:1].isdigit() and not _is_key_like(name) else name
            if isinstance(below, list) and below and all(isinstance(entry, dict) for entry in below):
                yield from _entries(plain, below, base, keys_of)
            else:
                yield from leaves(below, (*base, (plain, ())), keys_of)
    elif isinstance(tree, list) and tree and all(isinstance(entry, dict) for entry in tree) and base:
        yield from _entries(base[-1][0], tree, base[:-1], keys_of)
    else:
        yield base, tree


def _is_key_like(name: str) -> bool:
    """SONiC has names such as "Ethernet0:3" and "oid:0x15", in which what stands before the colon is no module."""
    return name.rpartition(":")[2][:1].isdigit()


def _entries(
    name: str, entries: list[dict[str, Any]], base: Steps, keys_of: dict[str, tuple[tuple[str, ...], ...]]
) -> Iterator[tuple[Steps, Any]]:
    for entry in entries:
        plain = {without_module(key): value for key, value in entry.items()}
        keys = next((keys for keys in keys_of.get(name, ()) if all(key in plain for key in keys)), None)
        if keys is None:
            yield (*base, (name, ())), entry
            continue
        step: Step = (name, tuple(sorted((key, str(plain[key])) for key in keys)))
        yield from leaves({key: value for key, value in plain.items() if key not in keys}, (*base, step), keys_of)


def as_text(value: Any) -> str:
    """A value as a row of `gnmi_values` keeps it: exact, and the same for the same value."""
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
    """A whole number, also of the text that JSON_IETF has for 64 bits; None where it is none."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    if isinstance(value, float | Decimal):
        number = float(value)
        return int(value) if number == number and abs(number) < 2**63 else None
    return None


def as_time(value: Any) -> int | None:
    """Unix nanoseconds of a number of them, of a number of seconds (as openconfig-system@2018-11-21 has boot-time), or
    of an RFC 3339 time; None where it is none of these."""
    number = as_integer(value)
    if number is not None:
        return number * 10**9 if 0 < number < MOST_SECONDS else number
    if not isinstance(value, str):
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
