"""Known delays, to test an instrument or to try out their effect on an application.

constant:100us                 always the same
uniform:0:20us                 evenly between two
normal:100us:20us              mean and standard deviation; negative values become 0
pareto:10us:1.5                least delay and tail index: P(delay > x) = (least / x)^index
pareto-normal:100us:20us       mean and standard deviation of a quarter normal and three quarters Pareto of index 3,
                               the mixture that Linux's netem calls paretonormal; negative values become 0
file:CDF.csv                   a delay (100us, or nanoseconds) and the share of delays up to it on each line,
                               ascending and the last share 1; evenly in between
"""

from __future__ import annotations

import csv
import random
from bisect import bisect_left
from collections.abc import Callable
from math import sqrt

from ...errors import MburstError, UsageError
from ...units import NS_PER_MINUTE, parse_duration

Delay = Callable[[], int]  # the next delay, ns
LONGEST_NS = NS_PER_MINUTE

_PARETO_INDEX = 3.0
_PARETO_MEAN, _PARETO_DEVIATION = 1.5, sqrt(0.75)  # of a Pareto distribution with index 3 and minimum 1
_MIXTURE_DEVIATION = sqrt(1 / 16 + 9 / 16)


def parse(text: str, seed: int | None = None) -> Delay:
    """Returns a source of delays as described by `text`; the same seed gives the same delays. Raises UsageError, and
    MburstError for a file."""
    kind, _, rest = text.partition(":")
    rng = random.Random(seed)
    if kind == "file" and rest:
        return _from_file(rest, rng)
    make = _KINDS.get(kind)
    values = rest.split(":") if rest else []
    if make is None or len(values) != make[0]:
        raise UsageError(
            f"invalid delay {text!r}",
            "examples: uniform:0:20us, normal:100us:20us, pareto:10us:1.5, "
            "pareto-normal:100us:20us, constant:1ms, file:CDF.csv",
        )
    return make[1](values, rng)


def _duration(text: str) -> int:
    ns = 0 if text == "0" else parse_duration(text)
    if ns > LONGEST_NS:
        raise UsageError(f"a delay of {text} is longer than a minute")
    return ns


def _bounded(draw: Callable[[], float]) -> Delay:
    return lambda: min(max(0, round(draw())), LONGEST_NS)


def _constant(values: list[str], rng: random.Random) -> Delay:
    ns = _duration(values[0])
    return lambda: ns


def _uniform(values: list[str], rng: random.Random) -> Delay:
    low, high = map(_duration, values)
    if low > high:
        raise UsageError(f"uniform:{values[0]}:{values[1]}: the first delay is longer than the second")
    return lambda: rng.randint(low, high)


def _normal(values: list[str], rng: random.Random) -> Delay:
    mean, deviation = map(_duration, values)
    return _bounded(lambda: rng.gauss(mean, deviation))


def _pareto(values: list[str], rng: random.Random) -> Delay:
    least = _duration(values[0])
    try:
        index = float(values[1])
    except ValueError:
        index = 0.0
    if not 0 < index <= 1000:
        raise UsageError(f"invalid tail index {values[1]!r} of a Pareto distribution", "example: pareto:10us:1.5")
    return _bounded(lambda: least * rng.paretovariate(index))


def _pareto_normal(values: list[str], rng: random.Random) -> Delay:
    mean, deviation = map(_duration, values)

    def draw() -> float:
        pareto = (rng.paretovariate(_PARETO_INDEX) - _PARETO_MEAN) / _PARETO_DEVIATION
        return mean + deviation * (rng.gauss(0, 1) / 4 + pareto * 3 / 4) / _MIXTURE_DEVIATION

    return _bounded(draw)


_KINDS: dict[str, tuple[int, Callable[[list[str], random.Random], Delay]]] = {
    "constant": (1, _constant),
    "uniform": (2, _uniform),
    "normal": (2, _normal),
    "pareto": (2, _pareto),
    "pareto-normal": (2, _pareto_normal),
}


def _from_file(path: str, rng: random.Random) -> Delay:
    delays, shares = read_cdf(path)

    def draw() -> int:
        share = 1 - rng.random()  # (0, 1]: no delay belongs to a share of 0
        place = bisect_left(shares, share)
        if place == 0 or shares[place] == shares[place - 1]:
            return delays[place]
        part = (share - shares[place - 1]) / (shares[place] - shares[place - 1])
        return round(delays[place - 1] + part * (delays[place] - delays[place - 1]))

    return draw


def read_cdf(path: str) -> tuple[list[int], list[float]]:
    """Reads delays in ns and the shares of delays up to each of them, both ascending, from a CSV file of two columns; a
    first line without numbers is a heading. Raises MburstError with the line of a fault."""
    delays: list[int] = []
    shares: list[float] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or (number == 1 and not any(cell[:1].isdigit() for cell in row)):
                    continue
                _add_point(delays, shares, row, f"{path} line {number}")
    except (UnicodeDecodeError, csv.Error):
        raise MburstError(f"{path} is not a CSV file") from None
    if not shares or shares[-1] != 1:
        raise MburstError(f"{path}: the last share is {shares[-1] if shares else 'missing'}, not 1")
    return delays, shares


def _add_point(delays: list[int], shares: list[float], row: list[str], where: str) -> None:
    try:
        delay, share = (int(row[0]) if row[0].strip().isdigit() else parse_duration(row[0])), float(row[1])
    except (ValueError, IndexError, UsageError):
        raise MburstError(f"{where}: not a delay and a share", "example: 100us,0.5") from None
    if not 0 <= share <= 1 or delay > LONGEST_NS:
        raise MburstError(f"{where}: a share is 0 to 1, a delay at most a minute")
    if delays and (delay < delays[-1] or share < shares[-1]):
        raise MburstError(f"{where}: delays and shares must ascend")
    delays.append(delay)
    shares.append(share)
