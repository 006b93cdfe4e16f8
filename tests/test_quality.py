"""The bits of quality are the same in SQL, in Python and in the engine."""

from __future__ import annotations

import re

from places import ROOT

from mburst.quality import Quality
from mburst.sql import in_memory


def test_python_has_the_bits_of_the_store():
    with in_memory(1) as con:
        listed = con.execute("SELECT name, bit FROM quality ORDER BY bit").fetchall()
    told = {name.replace("-", "_").replace("µ", "u").upper(): bit for name, bit in listed}
    assert told == {flag.name: flag.value for flag in Quality}


def test_the_engine_has_the_same():
    header = (ROOT / "capture" / "frame.h").read_text("utf-8")
    bits = {name: 1 << int(shift) for name, shift in re.findall(r"MB_QUALITY_(\w+) = 1 << (\d+)", header)}
    assert bits and bits == {name: Quality[name].value for name in bits}


def test_the_macro_means_the_bit_impossible():
    with in_memory(1) as con:
        doubted = con.execute("SELECT list(bit) FROM quality WHERE NOT believable(bit)").fetchall()
    assert doubted == [([Quality.IMPOSSIBLE],)]
