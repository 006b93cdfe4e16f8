"""Recording several interfaces at once: which are allowed, and the link speed of each."""

from __future__ import annotations

import os

from ..errors import MburstError, UsageError
from ..services.record.backends import ONE_INTERFACE
from .options import Rate, rate_bps

NAME_BYTES = 15  # of an interface; an alternative name may have 127


def check_several(names: list[str], backend: str, called: str | None) -> None:
    """Raise UsageError if the interfaces NAMES cannot be recorded at once, and MburstError if one does not exist.
    CALLED is the value of --interface."""
    from ..capture import device

    if backend in ONE_INTERFACE:
        raise UsageError(f"--backend {backend} records one interface at a time", "name one, or take another backend")
    if called:
        raise UsageError("--interface names one interface, and several are recorded", "leave it out")
    if "any" in names:
        raise UsageError("any is all interfaces: it cannot be recorded beside others", "name it alone")
    found = {name: device(name) for name in names}
    if missing := [name for name, one in found.items() if one is None]:
        raise missing_interface(missing[0], "; nothing is recorded")
    numbers = [one["index"] for name in names if (one := found[name])]
    if twice := [name for name, number in zip(names, numbers, strict=True) if numbers.count(number) > 1]:
        raise UsageError(f"{twice[-1]}: this interface is named twice")


def missing_interface(name: str, then: str = "") -> MburstError:
    """Returns the error that there is no interface NAME, as mb_device_missing() has it, and the remedy with THEN."""
    if len(os.fsencode(name)) > NAME_BYTES:
        return MburstError(
            f"{name}: no such interface by a name of at most {NAME_BYTES} bytes",
            f"alternative names may be longer, give a short one{then}",
        )
    return MburstError(f"{name}: no such interface", f"`ip link` lists them{then}")


def links_of(link: Rate | None, names: list[str]) -> dict[str, Rate | None]:
    """Returns the link speed of each of NAMES, as --link gives it: one speed for all, or eth0=1G,eth1=10G for some of
    them. It is None for an interface without one. Raises UsageError."""
    if not isinstance(link, str) or "=" not in link:
        return dict.fromkeys(names, link)
    links: dict[str, Rate | None] = dict.fromkeys(names)
    for name, rate in _speeds(link):
        if name not in links:
            hint = "examples: 10G, eth0=1G,eth1=10G"
            raise UsageError(f"invalid --link {link!r}: {name or rate} is not among what is recorded", hint)
        links[name] = rate
    return links


def check_speeds(link: str) -> None:
    """Raise UsageError unless --link has link speeds, whatever interfaces it names."""
    for _, rate in _speeds(link):
        rate_bps(rate)


def _speeds(link: str) -> list[tuple[str, str]]:
    """Returns the names and speeds in --link; a speed of all interfaces has no name."""
    parts = link.split(",") if "=" in link else [link]
    return [(name, rate) for name, _, rate in (part.rpartition("=") for part in parts)]
