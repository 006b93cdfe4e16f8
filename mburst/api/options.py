"""Options as people write them: text with a unit, as on the command line, or a number in the base unit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import MburstError, UsageError
from ..units import (
    LEAST_LINK_BPS,
    MOST,
    SHOWN,
    checked_duration,
    checked_time,
    format_time,
    is_duration,
    parse_duration,
    parse_fraction,
    parse_rate,
    parse_size,
    parse_time,
    too_slow,
)

if TYPE_CHECKING:
    import os

    import duckdb

    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

Duration = str | int  # "1ms", or nanoseconds
Time = str | int | datetime  # "2026-11-20T14:03" (UTC), "24h" (before the newest data), or Unix nanoseconds
Rate = str | int  # "10G", or bits per second
Size = str | int  # "4MB", or bytes
Share = str | float  # "80%" or 0.8
Names = str | Sequence[str]


class Scope(NamedTuple):
    """The selection of recordings and of their time: bins that start in [since_ns, until_ns). None selects all."""

    hosts: list[str] | None = None
    rack: str | None = None
    interface: str | None = None
    direction: str | None = None
    recording: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    def filters(self) -> dict[str, Any]:
        """Returns the keyword arguments for analysis.bursts.detect_bursts."""
        return self._asdict()

    def no_recording(self, store: str | os.PathLike[str]) -> MburstError:
        """Returns the error that STORE has no recording in this scope."""
        named = {
            "recording": self.recording,
            "rack": self.rack,
            "host": " or ".join(self.hosts or ()),
            "interface": self.interface,
            "direction": self.direction,
        }
        asked = " and ".join(f"{what} {value}" for what, value in named.items() if value)
        return MburstError(
            f"{store}: no recording" + (f" of {asked}" if asked else ""),
            "`mburst sql STORE recordings` lists what there is",
        )


def names(given: Names | None) -> list[str]:
    """Returns one name or several as a list. Raises UsageError."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    found = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in found):
        raise UsageError(f"invalid names {repr(given)[:SHOWN]}", "write a name as text, or a list of names")
    return found


def duration_ns(value: Duration) -> int:
    """Returns nanoseconds. Raises UsageError."""
    return checked_duration(_number(parse_duration, value, "duration", "'1ms', or nanoseconds as an integer"), value)


def rate_bps(value: Rate) -> int:
    """Returns bits per second. Raises UsageError, also below LEAST_LINK_BPS."""
    rate = _number(parse_rate, value, "link speed", "'10G', or bits a second as an integer")
    if rate < LEAST_LINK_BPS:
        raise too_slow(str(rate), f"write '{rate or 10}G', or bits a second as an integer")
    return rate


def size_bytes(value: Size) -> int:
    """Returns bytes. Raises UsageError."""
    return _number(parse_size, value, "size", "'4MB', or bytes as an integer")


def share_of(value: Share) -> float:
    """Returns a share of line rate. Raises UsageError."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    return parse_fraction(_text(value, "share of line rate", "0.8 or '80%'"))


def _number(parse: Callable[[str], int], value: Any, what: str, example: str) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        if value < 0:
            raise UsageError(f"invalid {what} {value}: it is negative", f"write {example}")
        if int(value) > MOST:
            raise UsageError(f"invalid {what}: more than {MOST:,}", f"write {example}")
        return int(value)
    return parse(_text(value, what, example))


def _text(value: Any, what: str, example: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"invalid {what} {value!r}", f"write {example}")
    return value


def definition_of(
    bin: Duration | None = None,
    threshold: Share | None = None,
    release: Share | None = None,
    join: Duration | None = None,
    min_duration: Duration | None = None,
    link: Rate | None = None,
) -> BurstDefinition:
    """Returns the definition of a burst; None selects the default. Raises UsageError."""
    from ..analysis.bursts.find import THRESHOLD, BurstDefinition

    return BurstDefinition(
        bin_ns=_optional(duration_ns, bin),
        threshold=THRESHOLD if threshold is None else share_of(threshold),
        release=_optional(share_of, release),
        join_ns=_optional(duration_ns, join),
        min_duration_ns=_optional(duration_ns, min_duration),
        link_bps=_optional(rate_bps, link),
    )


def _optional(parse: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else parse(value)


class NewestData:
    """The time of the newest data of stores and racks. Each is read once, so that all durations of a command count back
    from one time."""

    def __init__(self) -> None:
        self._newest_ns: dict[tuple[str, str | None], int | None] = {}

    def of(self, store: StoreFolder, rack: str | None) -> int | None:
        """Returns the time of the newest row of bins, probes or switch queues in a store, or of RACK if it is given, in
        Unix ns; None if there is none. Raises MburstError."""
        key = str(store.path), rack
        if key not in self._newest_ns:
            with store.connect_newest(rack) as con:
                self._newest_ns[key] = newest_ns(con)
        return self._newest_ns[key]


def span_of(
    store: StoreFolder,
    since: Time | None,
    until: Time | None,
    rack: str | None = None,
    newest: NewestData | None = None,
) -> tuple[int | None, int | None]:
    """Returns both times in Unix nanoseconds. Durations count back from the newest data in the store, or of RACK if it
    is given, as in NEWEST (None: as they are now). Raises UsageError, also for a begin after all data and after the
    present: nothing can be in it."""
    if since is None and until is None:
        return None, None
    newest_ns = (newest or NewestData()).of(store, rack)
    since_ns, until_ns = time_of(newest_ns, since), time_of(newest_ns, until)
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise UsageError("--since is not before --until")
    if since_ns is not None and since_ns > max(newest_ns or 0, time.time_ns()):
        raise UsageError(
            f"--since {format_time(since_ns)[:19]} UTC is in the future",
            "give an earlier time, or a duration such as 24h",
        )
    return since_ns, until_ns


def time_of(newest_ns: int | None, value: Time | None) -> int | None:
    """Returns a time, in the forms of parse_time, in Unix nanoseconds. A duration counts back from NEWEST_NS. Returns
    None if VALUE is None, or a duration in an empty store, whose NEWEST_NS is None. Raises UsageError."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return checked_time(_of_datetime(value), value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return checked_time(int(value), value)
    text = _text(value, "time", "'24h', '2026-11-20T14:03', a datetime with a time zone, or Unix nanoseconds")
    return None if is_duration(text) and newest_ns is None else parse_time(text, newest_ns)


def _of_datetime(value: datetime) -> int:
    """Returns a datetime in Unix nanoseconds; a datetime of pandas has nanoseconds in addition. Raises UsageError if
    VALUE has no time zone."""
    if value.tzinfo is None:
        raise UsageError(f"missing time zone in {value}", "give one, such as datetime.UTC")
    since_1970 = value - datetime(1970, 1, 1, tzinfo=UTC)
    whole = timedelta(since_1970.days, since_1970.seconds, since_1970.microseconds)
    return whole // timedelta(microseconds=1) * 1000 + int(getattr(value, "nanosecond", 0))


def newest_ns(con: duckdb.DuckDBPyConnection) -> int | None:
    """Returns the time of the newest row of bins, probes or switch queues in Unix ns, None if there is none."""
    [(newest,)] = con.execute("SELECT max(ts_ns) FROM newest").fetchall()
    return None if newest is None else int(newest)
