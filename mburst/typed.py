"""Checks that values from JSON have the types that a class declares: anybody may have written the files in a bucket."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from .units import MOST

Check = Callable[[Any], bool]


def is_typed(value: Any) -> bool:
    """Whether each field of VALUE, a dataclass or NamedTuple, has the type that its class declares. A boolean is no
    number, a number is finite and has at most 64 bits, and a list counts as a tuple."""
    kind: Any = type(value)
    return _check_of(kind)(value)


@cache
def _check_of(kind: Any) -> Check:
    """Returns the check for an annotation: such a class, a plain type, Any, and unions, mappings and sequences of
    these. It is cached, because there may be a hundred thousand values."""
    origin, of = get_origin(kind), [_check_of(one) for one in get_args(kind) if one is not ...]
    if kind is Any:
        return lambda value: True
    if kind is int:
        return lambda value: type(value) is int and -MOST - 1 <= value <= MOST
    if kind is float:
        return lambda value: type(value) in (int, float) and abs(value) <= MOST  # false for NaN
    if origin is types.UnionType:
        return lambda value: any(check(value) for check in of)
    if origin in (dict, Mapping):
        key, one = of
        return lambda value: type(value) is dict and all(key(name) and one(each) for name, each in value.items())
    if origin is tuple and ... not in get_args(kind):
        return lambda value: (
            type(value) in (list, tuple)
            and len(value) == len(of)
            and all(test(each) for test, each in zip(of, value, strict=True))
        )
    if origin in (list, tuple, Sequence):
        return lambda value: type(value) in (list, tuple) and all(map(of[0], value))
    if fields := {} if kind.__module__ == "builtins" else get_type_hints(kind):
        checks = [(name, _check_of(field)) for name, field in fields.items()]
        return lambda value: type(value) is kind and all(check(getattr(value, name)) for name, check in checks)
    return lambda value: type(value) is kind
