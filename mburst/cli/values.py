"""Values with units in options, checked while the command line is parsed, so that the error names the option, and a
configuration file is refused before anything is started. The values stay text."""

from __future__ import annotations

from collections.abc import Callable

from ..api.interfaces import check_speeds
from ..units import parse_duration, parse_fraction, parse_rate, parse_size, parse_time


def checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Returns a type of arguments: text that PARSE accepts."""

    def value(text: str) -> str:
        parse(text)
        return text

    return value


duration = checked(parse_duration)
rate = checked(parse_rate)
rates = checked(check_speeds)  # of one interface or of several
share = checked(parse_fraction)
size = checked(parse_size)
moment = checked(parse_time)
since = checked(lambda text: parse_time(text, newest_ns=0))  # a time, or a duration before the newest data
