"""The words in which the engine's decoder and the plain one describe a frame."""

from __future__ import annotations

from typing import NamedTuple

CE, TCP, UNPARSED, TRUNCATED, MERGED, CNP, PAUSE = 1, 2, 4, 8, 16, 32, 64
IN, OUT = 1, 2
NONE, IPV4, IPV6, MAC = 0, 4, 6, 48


class Address(NamedTuple):
    family: int
    value: int


NOBODY = Address(NONE, 0)
