"""Whether values that came as JSON are of the types that a class states: files in a bucket are anybody's."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from .units import MOST

Check = Callable[[Any], bool]


def is_typed(value: Any) -> bool:
    """Whether VALUE, a dataclass or NamedTuple, has in each field what its class states. No boolean passes for a
    number, a number has at most 64 bits and is finite, and a list passes for a tuple."""
    kind: Any = type(value)
    return _check_of(kind)(value)


@cache
def _check_of(kind: Any) -> Check:
    """The test for an annotation: such a class, a plain type, Any, and unions, mappings and sequences of these. It is
    made once, since there may be a hundred thousand values."""
    origin, of = get_origin(kind), [_check_of(one) for one in get_args(kind) if one is not ...]
    if kind is Any:
        return lambda value: True
    if kind is int:
        return lambda value: type(value) is int and -MOST - 1 <= value <= MOST
    if kind is float:
        return lambda value: type(value) in (int, float) and abs(value) <= MOST  # which NaN is not
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
