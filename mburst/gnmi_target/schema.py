"""The paths of OpenConfig's models that this agent serves, and matching of requested paths.

Paths may have wildcards as in the gNMI path conventions: `*` matches any name of one step, `...` any number of steps,
and `*` as a key any value; a key that is left out matches any value, too. Names may have their YANG module as a prefix
(RFC 7951 section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ..errors import UsageError
from ..telemetry.gnmi.path import Step, Steps, as_text, steps_of

# Module → the version of openconfig/public on which this table is based; "" if only the module is named.
MODELS = {"openconfig-interfaces": "3.5.0", "openconfig-if-ethernet": "", "openconfig-qos": "0.7.0",
          "openconfig-lldp": "0.2.1", "openconfig-system": "0.17.1"}  # fmt: skip
ORIGIN = "openconfig"
LONGEST_PATH = 32  # most steps of a requested path
_TOP = {"interfaces": "openconfig-interfaces", "qos": "openconfig-qos", "lldp": "openconfig-lldp",
        "system": "openconfig-system"}  # fmt: skip


class RequestRefused(Exception):
    """A request that cannot be served; the message says why. `code` is the name of the gRPC status."""

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class LeafModel:
    """The properties of a leaf in the model."""

    steady: bool = False  # it changes seldom, so TARGET_DEFINED streams it on change
    operational: bool = True  # it is not a copy of a configured value
    wide: bool = True  # a number of 64 bits, which JSON_IETF encodes as text (RFC 7951 section 6.1)


COUNTER, STATUS, APPLIED = LeafModel(), LeafModel(steady=True), LeafModel(steady=True, operational=False)
_INDEX, _SIZE = LeafModel(steady=True, wide=False), LeafModel(steady=True, operational=False, wide=False)

DEPTH, MEAN_DEPTH = "max-queue-len", "avg-queue-len"
QUEUE = (("qos", ()), ("interfaces", ()), ("interface", (("interface-id", "*"),)), ("output", ()), ("queues", ()),
         ("queue", (("name", "*"),)), ("state", ()))  # fmt: skip
REFERENCE = (*QUEUE[:3], ("interface-ref", ()), ("state", ()))
_INTERFACE = (("interfaces", ()), ("interface", (("name", "*"),)))
STATE = (*_INTERFACE, ("state", ()))
COUNTERS = (*STATE, ("counters", ()))
ETHERNET = (*_INTERFACE, ("ethernet", ()), ("state", ()))
NEIGHBOUR = (("lldp", ()), ("interfaces", ()), ("interface", (("name", "*"),)), ("neighbors", ()),
             ("neighbor", (("id", "*"),)), ("state", ()))  # fmt: skip
SYSTEM = (("system", ()), ("state", ()))

# Container, with `*` as its keys → its leaves.
SCHEMA: dict[Steps, dict[str, LeafModel]] = {
    QUEUE: {"name": APPLIED, DEPTH: COUNTER, MEAN_DEPTH: COUNTER, "transmit-octets": COUNTER,
            "transmit-pkts": COUNTER, "dropped-pkts": COUNTER},
    REFERENCE: {"interface": APPLIED},
    STATE: {"name": APPLIED, "mtu": _SIZE, "ifindex": _INDEX, "admin-status": STATUS, "oper-status": STATUS},
    COUNTERS: dict.fromkeys(
        ("in-octets", "in-pkts", "in-multicast-pkts", "in-errors", "in-discards", "in-fcs-errors", "out-octets",
         "out-pkts", "out-errors", "out-discards"), COUNTER) | {"carrier-transitions": STATUS},
    ETHERNET: {"port-speed": APPLIED},
    NEIGHBOUR: dict.fromkeys(("id", "chassis-id", "port-id", "system-name"), STATUS),
    SYSTEM: {"hostname": APPLIED, "boot-time": STATUS},
}  # fmt: skip


def modules(steps: Steps) -> list[str]:
    """Returns the YANG module of each step of a path without wildcards."""
    first = _TOP[steps[0][0]]
    augmented = steps[0][0] == "interfaces" and len(steps) > 2 and steps[2][0] == "ethernet"
    return ["openconfig-if-ethernet" if augmented and place >= 2 else first for place in range(len(steps))]


@cache
def _schema_leaves() -> tuple[tuple[Steps, tuple[str, ...]], ...]:
    """Returns each leaf's path and the modules of its steps."""
    paths = [(*base, (leaf, ())) for base, leaves in SCHEMA.items() for leaf in leaves]
    return tuple((path, tuple(modules(path))) for path in paths)


# --- matching of paths ------------------------------------------------------------------------------------------------


def matched(asked: Steps, steps: Steps) -> int | None:
    """Returns the least number of STEPS that a path with wildcards spans, or None if STEPS is not at or below the path.
    A key `*` in STEPS, as in the schema, matches every value."""
    spans = [0]  # numbers of steps that the part of the path so far may span, in ascending order
    for part in asked:
        if part[0] == "...":
            spans = list(range(spans[0], len(steps) + 1))
        else:
            spans = [span + 1 for span in spans if span < len(steps) and _meets(part, steps[span])]
        if not spans:
            return None
    return spans[0]


def _meets(asked: Step, step: Step) -> bool:
    if asked[0] not in (step[0], "*"):
        return False
    have = dict(step[1])
    return all(key in have and (value in ("*", have[key]) or have[key] == "*") for key, value in asked[1])


def is_above(asked: Steps, base: Steps) -> bool:
    """Whether a path selects leaves of a container of the schema."""
    return any(matched(asked, (*base, (leaf, ()))) is not None for leaf in SCHEMA[base])


def is_exact(asked: Steps) -> bool:
    """Whether a path names one instance by its keys, so that its absence is reported."""
    return any(keys for _, keys in asked) and not any(
        name in ("*", "...") or any(value == "*" for _, value in keys) for name, keys in asked
    )


def checked_path(prefix: Any, path: Any) -> Steps:
    """Returns the steps of a Path message under a prefix, without modules. Raises RequestRefused."""
    try:
        raw = steps_of(prefix) + steps_of(path)
    except UsageError as error:
        raise RequestRefused(str(error)) from None
    origin = _origin(prefix.origin, path.origin)
    shown = as_text(raw, origin)
    if len(raw) > LONGEST_PATH:
        raise RequestRefused(f"a path of {len(raw)} steps is not supported: {LONGEST_PATH} is the most")
    wanted_modules, steps = _without_modules(raw, origin)
    for name, keys in steps:
        _check_keys(name, keys)
    if not any(_is_of(steps, wanted_modules, *leaf) for leaf in _schema_leaves()):
        raise RequestRefused(f"the path {shown} is not supported: this agent serves /{', /'.join(_TOP)}")
    return steps


def _origin(*given: str) -> str:
    """Returns the origin of a path, which may be given in the path or in its prefix. Raises RequestRefused."""
    found = {origin for origin in given if origin}
    if len(found) > 1:
        raise RequestRefused(f"prefix and path have different origins: {' and '.join(sorted(found))}")
    origin = found.pop() if found else ""
    if origin not in ("", ORIGIN, *MODELS):
        raise RequestRefused(f"the origin {origin!r} is not supported: use {ORIGIN} or none")
    return origin


def _without_modules(raw: Steps, origin: str) -> tuple[list[str], Steps]:
    """Returns the module of each step ("" for none), and the steps without modules. An origin may be the module of the
    first step. A `...` that follows another is removed, because it adds nothing."""
    wanted: list[str] = []
    steps: list[Step] = []
    for place, (name, keys) in enumerate(raw):
        module, colon, plain = name.partition(":")
        if not colon or module not in MODELS:
            module, plain = "", name
        if place == 0 and origin in MODELS:
            module = module or origin
        if plain == "..." and steps and steps[-1][0] == "...":
            continue
        wanted.append(module)
        steps.append((plain, keys))
    return wanted, tuple(steps)


def _check_keys(name: str, keys: tuple[tuple[str, str], ...]) -> None:
    if name == "..." and keys:
        raise RequestRefused("the wildcard ... takes no keys")
    for key, value in keys:
        if "*" in value and value != "*":
            raise RequestRefused(f"{name}[{key}={value}] is not supported: a key is a whole value, or * for all")


def _is_of(asked: Steps, wanted: list[str], path: Steps, modules_of_path: tuple[str, ...]) -> bool:
    """Whether a leaf of the schema is at or below a path, and has the modules that the path names. After `...` modules
    are not compared."""
    if matched(asked, path) is None:
        return False
    for (name, _), module, found in zip(asked, wanted, modules_of_path, strict=False):
        if name == "...":
            return True
        if module not in ("", found):
            return False
    return True
