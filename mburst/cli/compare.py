"""`mburst compare`: two situations side by side, and whether the second one is better."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, get_args

from ..api import asked
from ..api.comparing import Compared, ComparisonSide, compared, interval, side_of
from ..errors import UsageError
from ..messages import print_lines, print_message
from ..units import format_duration, format_share, format_time
from . import definition, values
from .output import write_json_value, write_table

if TYPE_CHECKING:
    from ..analysis.model.stats import Estimate

DESCRIPTION = """Compare two stores, or two parts of them: latency by percentile with the ratio B / A and its 95 %
interval, bursts, and the effect of both on requests that need many answers. --a and --b select the compared part of
each, such as --a until=10m --b since=10m for two times of one store."""
KEYS = ComparisonSide._fields


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("compare", help="compare two stores, times, hosts or paths", description=DESCRIPTION)
    parser.add_argument("store_a", metavar="A", help="a store")
    parser.add_argument("store_b", metavar="B", help="another store, or the same")
    for name, what in (("a", "of A"), ("b", "of B"), ("both", "of both")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help=f"only this {what}; may be repeated"
            + (f"; KEY is {', '.join(KEYS[:-1])} or {KEYS[-1]}" if name == "a" else ""),
        )
    parser.add_argument(
        "--measure",
        choices=get_args(asked.LatencyMeasure),
        help="latency measure to compare (default: application, if it is known)",
    )
    parser.add_argument(
        "--slow",
        type=values.duration,
        metavar="TIME",
        help="latency from which one of many answers is slow (default: the p99 of A)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the resampling (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    definition.add_burst_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read both sides, compare, print."""
    from ..sql import StoreFolder

    sides = [choice([*arguments.both, *mine]) for mine in (arguments.a, arguments.b)]
    stores = [StoreFolder.open(path) for path in (arguments.store_a, arguments.store_b)]
    found = compared(
        (stores[0], sides[0]),
        (stores[1], sides[1]),
        definition.definition_of(arguments),
        measure=arguments.measure,
        slow=arguments.slow,
        seed=arguments.seed,
    )
    for note in found.notes:
        print_message(note)
    if arguments.json:
        write_json_value(found.to_dict())
    else:
        show(found)
    return 0


def choice(given: list[str]) -> ComparisonSide:
    """Returns the ComparisonSide of KEY=VALUE arguments. Raises UsageError."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or key not in KEYS or not value:
            raise UsageError(f"invalid selection {text!r}: not KEY=VALUE", f"KEY is {', '.join(KEYS)}")
        found[key] = value
    return side_of(found)


def show(answer: Compared) -> None:
    """Print the comparison as text."""
    found = answer.comparison
    rows = []
    if found.a.sent or found.b.sent:
        spans = [side.span or () for side in (found.a, found.b)]
        for place, head in enumerate(("first probe", "last probe")):
            rows.append([head, *(format_time(span[place])[:19] if span else "-" for span in spans), ""])
        rows.append(["latency", *(", ".join(side.measures) or "-" for side in (found.a, found.b)), ""])
        rows.append(["probes", *(f"{side.sent:,}" if side.sent else "none" for side in (found.a, found.b)), ""])
    if found.a.n and found.b.n:
        rows.append(["lost", *(format_share(side.loss) for side in (found.a, found.b)), ""])
        rows += [
            [
                f"p{100 * level.share:g}",
                *("-" if value is None else format_duration(value) for value in (level.a, level.b)),
                ratio_words(level.ratio),
            ]
            for level in found.levels
            if level.a is not None or level.b is not None
        ]
    both = found.bursts_a, found.bursts_b
    if any(both):
        rows.append(["bursts a minute", *(interval(side.per_minute) if side else "-" for side in both), ""])
        rows.append(["time in bursts", *(format_share(side.share_of_time) if side else "-" for side in both), ""])
    write_table(["", "A", "B", "B / A"], rows, sys.stdout)
    if found.fans:
        print(
            f"\nRequests that meet an answer slower than {format_duration(found.threshold_ns)}, or lost, by how many "
            "they need"
        )
        write_table(
            ["answers", *(f"{fan.width:,}" for fan in found.fans)],
            [["A", *(format_share(fan.a) for fan in found.fans)], ["B", *(format_share(fan.b) for fan in found.fans)]],
            sys.stdout,
        )
    print_lines("", answer.summary)


def ratio_words(ratio: Estimate | None) -> str:
    """Returns B / A, or that there is too little data for an interval."""
    return interval(ratio) if ratio else "-"
