"""Numbers with units: parsing and formatting. Times are integers of nanoseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from .errors import UsageError

NS_PER_S = 1_000_000_000
NS_PER_MINUTE = 60 * NS_PER_S
NS_PER_HOUR = 60 * NS_PER_MINUTE
NS_PER_DAY = 24 * NS_PER_HOUR
LONGEST_NS = 36_525 * NS_PER_DAY  # longest duration, 100 years: its sum with a present time has 64 bits
LEAST_LINK_BPS = 1000  # no link is slower: "25" lacks its unit
PLAUSIBLE_NS = (946_684_800 * NS_PER_S, 4_102_444_800 * NS_PER_S)  # plausible times: from 2000 to before 2100
MOST = 2**63 - 1  # largest rate and size, and largest number in a column of a table

_TIME = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "m": NS_PER_MINUTE,
    "min": NS_PER_MINUTE,
    "h": NS_PER_HOUR,
    "d": NS_PER_DAY,
}
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_DURATIONS = "10us, 1ms, 60s, 24h"
_RATES = "1G, 25Gbps, 100M"
SIZES = "4MB (4,000,000 bytes) or 4MiB (4,194,304 bytes)"  # the only definition of sizes, for help and hints
_NUMBER = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([^\s0-9.]*)\s*")
SHOWN = 40  # characters of an invalid text that an error shows


class WrittenFloat(float):
    """A number in a file that keeps its text: `rack = 1.10` means the rack "1.10", as with quotes. For `parse_float` of
    tomllib and json."""

    _text: str

    def __new__(cls, text: str) -> WrittenFloat:
        number = super().__new__(cls, text)
        number._text = text
        return number

    def __str__(self) -> str:
        return self._text


def whole(text: str, least: int = 0, most: int = MOST) -> int | None:
    """Returns the number from LEAST to MOST that TEXT has in ASCII digits, None for any other text of any length."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    return number if least <= (number := int(text)) <= most else None


def _split(text: str, what: str, example: str) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(text)
    if not match:
        raise UsageError(f"invalid {what} {text[:SHOWN]!r}", f"examples: {example}")
    return Fraction(match[1]), match[2]


def parse_duration(text: str) -> int:
    """Returns the nanoseconds of "10us", "1.5ms", "24h"; the unit is required. Raises UsageError, also beyond
    LONGEST_NS."""
    return checked_duration(_nanoseconds(text), text)


def _nanoseconds(text: str) -> int:
    value, unit = _split(text, "duration", _DURATIONS)
    factor = _TIME.get(unit if unit == "µs" else unit.lower())
    if factor is not None and (value * factor).denominator == 1:
        return int(value * factor)
    hint = "units: ns, us, ms, s, m, h, d" if factor is None else "a duration is a whole number of nanoseconds"
    raise UsageError(f"invalid duration {text[:SHOWN]!r}", hint if unit else _with_unit(text, value))


def _with_unit(text: str, value: Fraction) -> str:
    """Returns the hint for the duration TEXT, which is VALUE without a unit: it names only valid durations."""
    lengths = [value * _TIME[unit] for unit in ("ms", "s", "h")]
    if not all(0 < ns <= LONGEST_NS and ns.denominator == 1 for ns in lengths):
        return f"examples: {_DURATIONS}"
    number = text.strip()
    return f"write it with a unit, such as {number}ms, {number}s or {number}h"


def checked_duration(ns: int, text: object) -> int:
    """Returns NS, which TEXT states. Raises UsageError beyond LONGEST_NS."""
    if ns > LONGEST_NS:
        raise UsageError(f"invalid duration {str(text)[:SHOWN]!r}: longer than 100 years")
    return ns


def parse_rate(text: str) -> int:
    """Returns the bits per second of "1G", "25Gbps", "100Mbit/s", "9600bps"; the unit is required. Raises UsageError,
    also below LEAST_LINK_BPS."""
    value, unit = _split(text, "link speed", _RATES)
    prefix = re.sub(r"(bps|bit/s|bit|b/s)$", "", unit.lower())
    if prefix in _DECIMAL and value * _DECIMAL[prefix] < LEAST_LINK_BPS:
        meant = value * _DECIMAL["g"]
        is_valid = not unit and meant >= LEAST_LINK_BPS and meant.denominator == 1
        hint = f"write it with a unit, such as {text.strip()}G" if is_valid else f"examples: {_RATES}"
        raise too_slow(repr(text[:SHOWN]), hint)
    if not unit:
        raise UsageError(f"invalid link speed {text[:SHOWN]!r}: no unit", f"examples: {_RATES}")
    if prefix not in _DECIMAL or (rate := value * _DECIMAL[prefix]).denominator != 1 or rate > MOST:
        raise UsageError(f"invalid link speed {text[:SHOWN]!r}", f"examples: {_RATES}")
    return int(rate)


def too_slow(speed: str, hint: str) -> UsageError:
    """Returns the error for a link speed below LEAST_LINK_BPS, as it was written."""
    return UsageError(f"invalid link speed {speed}: less than {format_rate(LEAST_LINK_BPS)}", hint)


def parse_size(text: str) -> int:
    """Returns the bytes of "65536B", "4MB", "64MiB" or "20G"; the unit is required. k, M, G and T are powers of 1000;
    Ki, Mi, Gi and Ti are powers of 1024 (IEC 80000-13), with or without the B. Raises UsageError."""
    value, unit = _split(text, "size", SIZES)
    if not unit and value:
        raise UsageError(f"invalid size {text[:SHOWN]!r}: no unit", f"examples: {SIZES}")
    factor = {**_DECIMAL, **_BINARY}.get(unit.lower().removesuffix("b"))
    if factor is None or (size := value * factor).denominator != 1 or not 0 < size <= MOST:
        raise UsageError(f"invalid size {text[:SHOWN]!r}", f"examples: {SIZES}")
    return int(size)


def parse_fraction(text: str) -> float:
    """Returns a share of line rate in (0, 10] from "0.5" or "50%". Raises UsageError."""
    value, unit = _split(text, "share", "0.5, 50%")
    if unit not in ("", "%") or not 0 < (share := value / 100 if unit else value) <= 10:
        raise UsageError(f"invalid share of line rate {text[:SHOWN]!r}", "examples: 0.5, 50%")
    return float(share)


def is_duration(text: str) -> bool:
    """Whether `parse_time` takes TEXT as a duration rather than a time."""
    return bool(_NUMBER.fullmatch(text))


_ISO = re.compile(r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")


def parse_time(text: str, newest_ns: int | None = None) -> int:
    """Returns Unix nanoseconds of an ISO 8601 time, in UTC by default, or, if NEWEST_NS is given, of a duration (at
    most LONGEST_NS) before it: "2026-11-20", "2026-11-20T14:03:05.123456789", "24h". Raises UsageError."""
    example = f"examples: {'24h, ' if newest_ns is not None else ''}2026-11-20, 2026-11-20T14:03:05.25"
    if newest_ns is not None and is_duration(text):
        return newest_ns - min(_nanoseconds(text), LONGEST_NS)
    match = _ISO.fullmatch(text.strip())
    try:
        if not match or (match[2] and match[1].count(":") < 2):
            raise ValueError
        moment = datetime.fromisoformat(match[1] + ("T00:00" if len(match[1]) == 10 else "") + (match[3] or "+00:00"))
    except ValueError:
        raise UsageError(f"invalid time {text[:SHOWN]!r}", example) from None
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    return checked_time(seconds * NS_PER_S + int((match[2] or "").ljust(9, "0")), text)


def parse_span(begin: str, end: str) -> tuple[int | None, int | None]:
    """Returns the times in two cells called `from` and `until`, as `parse_time` reads them; None for an empty cell.
    Raises UsageError, also if the second time is not after the first."""
    from_ns, until_ns = (parse_time(text) if text.strip() else None for text in (begin, end))
    if from_ns is not None and until_ns is not None and from_ns >= until_ns:
        raise UsageError("until is not after from", "leave one of them out, or correct it")
    return from_ns, until_ns


def checked_time(ns: int, text: object) -> int:
    """Returns NS, Unix nanoseconds, which TEXT states. Raises UsageError if 64 bits cannot hold it."""
    if not -MOST - 1 <= ns <= MOST:
        raise UsageError(
            f"invalid time {str(text)[:SHOWN]!r}: outside the range of 64-bit nanoseconds", "valid years: 1678 to 2261"
        )
    return ns


def format_time(ns: int) -> str:
    """Returns "2026-11-20 14:03:05.123456" in UTC, cut (not rounded) to microseconds."""
    return str(datetime(1970, 1, 1) + timedelta(microseconds=ns // 1000)) + ("" if ns // 1000 % 10**6 else ".000000")


def format_number(value: float, significant: int = 3) -> str:
    """Returns "0.0512", "12.3", "11,040": SIGNIFICANT digits, and all digits before the point; below 1e-6 an
    exponent."""
    if abs(value) >= 10**significant - 0.5:
        return f"{value:,.0f}"
    digits = f"{value:.{significant}g}"
    if "e" not in digits:
        return digits
    return f"{Decimal(digits):f}" if abs(float(digits)) >= 1e-6 else digits.replace("e-0", "e-")


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    for size, unit in steps:
        if abs(value) >= 0.9995 * size:  # three digits would round up to this unit
            return f"{format_number(value / size)} {unit}"
    size, unit = steps[-1]
    return f"{format_number(value / size)} {unit}"


def format_duration(ns: float) -> str:
    """Returns "33.4 ms" for 33_400_000: three significant digits in the usual unit."""
    longer = [(NS_PER_DAY, "d"), (NS_PER_HOUR, "h"), (NS_PER_MINUTE, "min")]
    return _scaled(ns, [*longer, (NS_PER_S, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")])


def format_count(number: int, one: str, many: str = "") -> str:
    """Returns "1 burst", "1,200 bursts", "2 switches"; MANY is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or one + ('es' if one.endswith('ch') else 's')}"


def format_bytes(count: float) -> str:
    """Returns "4 MB" for 4_000_000, in decimal units."""
    return _scaled(count, [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")])


def format_rate(bps: float) -> str:
    """Returns "1 Gb/s" for 10**9."""
    return _scaled(bps, [(1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1, "b/s")])


def format_share(share: float) -> str:
    """Returns "13 %" for 0.13."""
    return f"{format_number(100 * share)} %"
