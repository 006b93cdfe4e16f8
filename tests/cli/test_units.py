"""Numbers with units, parsed and formatted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mburst.__main__ import main
from mburst.api.options import duration_ns, rate_bps, size_bytes
from mburst.errors import UsageError
from mburst.telemetry.gnmi.durations import parse_go_duration
from mburst.units import (
    LONGEST_NS,
    MOST,
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_rate,
    format_share,
    format_time,
    parse_duration,
    parse_fraction,
    parse_rate,
    parse_size,
    parse_time,
    whole,
)

NOW = 1_795_228_464_011_544_286


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("10us", 10_000),
        ("10 µs", 10_000),
        ("1.5ms", 1_500_000),
        ("24h", 86_400 * 10**9),
        ("2d", 2 * 86_400 * 10**9),
        ("1min", 60 * 10**9),
        ("3 S", 3 * 10**9),
        ("0ns", 0),
        ("0.001us", 1),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "10", "ms", "-1ms", "1.5ns", "1e3ms", "1 parsec", "1ms2", "nan", "1,5ms"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("1G", 10**9),
        ("25Gbps", 25 * 10**9),
        ("100Mbit/s", 10**8),
        ("2.5g", 2_500_000_000),
        ("9600bps", 9600),
        ("1 Tb/s", 10**12),
    ],
)
def test_rates(text: str, bps: int) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize("text", ["", "G", "0", "0G", "-1G", "1X", "1.0000000001", "fast"])
def test_invalid_rates_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid link speed"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("3", "write it with a unit, such as 3ms, 3s or 3h"),
        ("1.5", "write it with a unit, such as 1.5ms, 1.5s or 1.5h"),
        ("0", "examples: 10us, 1ms, 60s, 24h"),
        ("0.000000001", "examples: 10us, 1ms, 60s, 24h"),
        ("9999999999", "examples: 10us, 1ms, 60s, 24h"),
        ("1 parsec", "units: ns, us, ms, s, m, h, d"),
        ("1.5ns", "a duration is a whole number of nanoseconds"),
        ("ms", "examples: 10us, 1ms, 60s, 24h"),
    ],
)
def test_an_invalid_duration_has_the_remedy_of_its_mistake(text: str, remedy: str) -> None:
    with pytest.raises(UsageError, match="invalid duration") as refused:
        parse_duration(text)
    assert refused.value.hint == remedy


@pytest.mark.parametrize(
    ("speed", "remedy"),
    [
        ("25", "write it with a unit, such as 25G"),
        ("2.5", "write it with a unit, such as 2.5G"),
        ("0", "examples: 1G, 25Gbps, 100M"),
        ("0.0000001", "examples: 1G, 25Gbps, 100M"),
        ("999bps", "examples: 1G, 25Gbps, 100M"),
        ("0.9k", "examples: 1G, 25Gbps, 100M"),
        (25, "write '25G', or bits a second as an integer"),
        (0, "write '10G', or bits a second as an integer"),
    ],
)
def test_an_implausible_link_speed_is_refused(speed: str | int, remedy: str) -> None:
    """The unit was forgotten: with shares of 25 bit/s, every frame would be a burst."""
    for ask in (rate_bps, *([parse_rate] if isinstance(speed, str) else [])):
        with pytest.raises(UsageError, match=r"^invalid link speed '?[0-9.a-z]+'?: less than 1 kb/s$") as refused:
            ask(speed)  # type: ignore[arg-type]
        assert refused.value.hint == remedy
    assert rate_bps(1000) == rate_bps("1000bps") == parse_rate("1k") == 1000


@pytest.mark.parametrize("text", ["9" * 5000 + "{}", "0." + "9" * 5000 + "{}", "9" * 330 + "{}", "9" * 25 + "{}"])
def test_numbers_beyond_64_bits_are_refused_in_a_short_line(text: str) -> None:
    parsers = {parse_duration: "h", parse_rate: "G", parse_size: "MB", parse_fraction: "%", parse_go_duration: "h"}
    for parse, unit in parsers.items():
        with pytest.raises(UsageError, match=r"^invalid .{1,90}$"):
            parse(text.format(unit))
    for ask in (duration_ns, rate_bps, size_bytes):
        with pytest.raises(UsageError, match=r"^invalid .{1,90}$"):
            ask(10**30)


def test_the_limits_of_durations_rates_and_sizes() -> None:
    assert parse_duration("36525d") == duration_ns(LONGEST_NS) == LONGEST_NS
    assert parse_rate(f"{MOST}bps") == parse_size(f"{MOST}B") == MOST
    for too_much in (lambda: parse_duration("36525.1d"), lambda: duration_ns(LONGEST_NS + 1)):
        with pytest.raises(UsageError, match="longer than 100 years"):
            too_much()


@given(st.text() | st.integers(-10, 10**25).map(str))
def test_whole_numbers(text: str) -> None:
    found = whole(text, 3, 10**18)
    assert found is None or (3 <= found <= 10**18 and text.lstrip("0") == str(found))
    if text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= 3:
        assert found == int(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "\u00b2", "\u0663", "9" * 5000, str(MOST + 1)])
def test_invalid_whole_numbers_are_refused(text: str) -> None:
    assert whole(text) is None and whole(str(MOST)) == MOST


@pytest.mark.parametrize(("text", "share"), [("0.5", 0.5), ("50%", 0.5), ("100 %", 1.0), ("10", 10.0), ("0.1%", 0.001)])
def test_shares(text: str, share: float) -> None:
    assert parse_fraction(text) == share


@pytest.mark.parametrize("text", ["", "0", "0%", "11", "-0.5", "half", "50x", "inf"])
def test_invalid_shares_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid share"):
        parse_fraction(text)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01", 0),
        ("2026-11-21", 1_795_219_200 * 10**9),
        ("2026-11-21T02:34", 1_795_228_440 * 10**9),
        ("2026-11-21 02:34:24.011544286", NOW),
        ("2026-11-21T02:34:24.011544286Z", NOW),
        ("2026-11-21T03:34:24,011544286+01:00", NOW),
        ("2026-11-20T21:04:24.011544286-0530", NOW),
        ("1969-12-31T23:59:59.5", -500_000_000),
    ],
)
def test_times(text: str, ns: int) -> None:
    assert parse_time(text) == parse_time(text, 5) == ns


def test_durations_count_back_from_the_newest() -> None:
    assert parse_time("24h", NOW) == NOW - 86_400 * 10**9
    assert parse_time("99999999d", NOW) == parse_time("36525d", NOW) == NOW - LONGEST_NS
    with pytest.raises(UsageError, match="invalid time"):
        parse_time("24h")


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "2026-11-21T25:00", "2026-11-21T02:34.5", "26-11-21", "10"]
)
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid time"):
        parse_time(text)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59:59"])
def test_times_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="64-bit"):
        parse_time(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_times_are_cut_to_microseconds_and_come_back(ns: int) -> None:
    text = format_time(ns)
    assert len(text) == len("2026-11-21 02:34:24.011544")
    assert datetime.fromisoformat(text + "+00:00") - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(
        microseconds=ns // 1000
    )
    if ns // 1000 * 1000 >= -(2**63):
        assert parse_time(text) == ns // 1000 * 1000


def test_formatted_numbers() -> None:
    assert [format_duration(ns) for ns in (0, 999, 33_400_000, 1_500_000_000, 90 * 10**9, 5400 * 10**9, 10**15)] == [
        "0 ns",
        "999 ns",
        "33.4 ms",
        "1.5 s",
        "1.5 min",
        "1.5 h",
        "11.6 d",
    ]
    assert [format_bytes(n) for n in (0, 999, 4_000_000, 1_234_567)] == ["0 B", "999 B", "4 MB", "1.23 MB"]
    assert [format_rate(n) for n in (10**9, 25 * 10**9, 9600)] == ["1 Gb/s", "25 Gb/s", "9.6 kb/s"]
    assert [format_share(n) for n in (0.13, 1.0, 0.0512, 16.9)] == ["13 %", "100 %", "5.12 %", "1,690 %"]


@given(st.floats(1e-6, 1e15), st.sampled_from([1, -1]))
def test_numbers_for_people_have_three_digits_and_no_exponent(size: float, sign: int) -> None:
    shown = format_number(sign * size)
    assert "e" not in shown and float(shown.replace(",", "")) == pytest.approx(sign * size, rel=0.005_001)


@given(st.floats(0, 1e15))
def test_no_unit_is_shown_with_an_exponent(value: float) -> None:
    for show in (format_duration, format_bytes, format_rate):
        assert "e+" not in show(value)


def test_one_is_singular() -> None:
    assert [format_count(n, "burst") for n in (0, 1, 1200)] == ["0 bursts", "1 burst", "1,200 bursts"]
    assert [format_count(n, "switch") for n in (1, 2)] == ["1 switch", "2 switches"]
    assert format_count(2, "query", "queries") == "2 queries"


UNITS = {"B": 1, "b": 1, "k": 10**3, "kB": 10**3, "MB": 10**6, "g": 10**9, "GB": 10**9, "T": 10**12,
         "K": 10**3, "Ki": 2**10, "KiB": 2**10, "MiB": 2**20, "gib": 2**30, "TiB": 2**40}  # fmt: skip


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_sizes_have_one_rule(number: int, unit: str, gap: str) -> None:
    assert parse_size(f"{number}{gap}{unit}") == number * UNITS[unit]
    if UNITS[unit] % 4 == 0:
        assert parse_size(f"{number}.25{unit}") == number * UNITS[unit] + UNITS[unit] // 4


@pytest.mark.parametrize("text", ["", "0", "big", "-1M", "1.5", "1ki2", "4 BB", "1MBit", "1iB", "nan", "1e6"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="size") as failure:
        parse_size(text)
    assert failure.value.hint == "examples: 4MB (4,000,000 bytes) or 4MiB (4,194,304 bytes)"


@pytest.mark.parametrize("text", ["20", "1000", "65536", " 20 ", "10000000000"])
def test_a_number_without_a_unit_is_no_size_and_no_link_speed(text: str) -> None:
    """`--size 20` for 20 GB would be 20 bytes, and `--link 10000` for the Mb/s of ethtool 10 kb/s. Integers of Python
    have the documented unit."""
    for parse, examples in ((parse_size, "4MB"), (parse_rate, "25G"), (size_bytes, "4MB"), (rate_bps, "25G")):
        with pytest.raises(UsageError, match=r"^invalid ") as refused:
            parse(text)
        assert examples in refused.value.hint or refused.value.hint == "write it with a unit, such as 20G"
    assert rate_bps(10_000) == 10_000 and size_bytes(20) == 20


@pytest.mark.parametrize(
    "words",
    [
        "compact STORE --size",
        "record lo -o STORE --ring",
        "record lo -o STORE --reserve",
        "record lo -o STORE --keep-packets",
        "bursts STORE --link",
        "what-if STORE --buffer",
        "canary 127.0.0.1 --plan --link 10G --size",
    ],
)
def test_options_refuse_a_number_without_a_unit(words: str, tmp_path: Path, capfd: Any) -> None:
    assert main([*words.replace("STORE", str(tmp_path)).split(), "20000"]) == 2
    assert ": no unit (examples: " in capfd.readouterr().err
