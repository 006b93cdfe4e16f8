"""`mburst compare`: two situations side by side, and whether the second is better."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..errors import MburstError, UsageError
from ..names import say, tell
from ..units import format_duration, format_share, parse_duration
from . import definition
from .output import write_json_value, write_table

if TYPE_CHECKING:

    from ..analysis.bursts import BurstDefinition
    from ..analysis.compare import Bursts, Comparison, Latency
    from ..analysis.stats import Estimate
    from ..sql.damage import DamagedFile

DESCRIPTION = """Put two stores, or two parts of them, side by side: latency by percentile with the ratio B / A and its
95 % interval, bursts, and what both mean for requests that need many answers. --a and --b choose what is compared of
each, such as --a until=10m --b since=10m for two times of one store."""
KEYS = ("since", "until", "src", "dst", "protocol", "batch", "host", "rack", "interface", "direction")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("compare", help="put two situations side by side", description=DESCRIPTION)
    parser.add_argument("store_a", metavar="A", help="a store")
    parser.add_argument("store_b", metavar="B", help="another, or the same")
    for name, what in (("a", "of A"), ("b", "of B"), ("both", "of both")):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="KEY=VALUE",
                            help=f"only this {what}; may be repeated"
                            + (f"; KEY is {', '.join(KEYS[:-1])} or {KEYS[-1]}" if name == "a" else ""))
    parser.add_argument("--measure",
                        choices=["application", "round_trip", "forward", "back", "host_here", "host_there"],
                        help="what is compared of a probe (default: what the application saw, where that is known)")
    parser.add_argument("--slow", metavar="TIME",
                        help="what is a slow answer to a request that needs many (default: the p99 of A)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the resampling (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    definition.add_burst_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read both, compare, print."""
    from ..analysis.compare import compare

    wanted = definition.definition_of(arguments)
    slow = parse_duration(arguments.slow) if arguments.slow else None
    chosen = [choice([*arguments.both, *mine]) for mine in (arguments.a, arguments.b)]
    damaged: dict[str, DamagedFile] = {}
    a, bursts_a = read(arguments.store_a, chosen[0], wanted, arguments.measure, damaged)
    b, bursts_b = read(arguments.store_b, chosen[1], wanted, arguments.measure, damaged)
    if not (a.n and b.n) and not (bursts_a and bursts_b):
        both = (("A", a.n or bursts_a), ("B", b.n or bursts_b))
        lacking = " and ".join(name for name, there in both if not there)
        raise MburstError(f"nothing to compare: {lacking or 'one of both'} has no probes of that kind, and no recording"
                          if lacking else "nothing to compare: one has probes only, the other recordings only",
                          "`mburst sql STORE` shows what there is")
    found = compare(a, b, slow, bursts_a, bursts_b, arguments.seed)
    if arguments.json:
        write_json_value(facts(found, damaged.values()))
    else:
        show(found)
    return 0


def choice(given: list[str]) -> dict[str, str]:
    """KEY=VALUE as a dict. Raises UsageError."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or key not in KEYS or not value:
            raise UsageError(f"{text!r} is no KEY=VALUE", f"KEY is {', '.join(KEYS)}")
        found[key] = value
    return found


def read(path: str, picked: dict[str, str], wanted: BurstDefinition, measure: str | None,
         damaged: dict[str, DamagedFile]) -> tuple[Latency, Bursts | None]:
    """The probes and the bursts of one side. What they have to do without goes into DAMAGED, by path."""
    from ..analysis.compare import read_bursts, read_latency
    from ..analysis.paths import Selection
    from ..sql import Store
    from ..sql.damage import damaged_files

    with Store.open(path).connect() as con:
        damaged |= {file.path: file for file in damaged_files(con)}
        since, until = (definition.time_of(con, picked.get(key)) for key in ("since", "until"))
        if since is not None and until is not None and since >= until:
            raise UsageError("since is not before until")
        latency = read_latency(con, Selection(picked.get("batch"), picked.get("src"), picked.get("dst"),
                                              picked.get("protocol"), since, until), measure)
        try:
            bursts = read_bursts(con, wanted, hosts=[picked["host"]] if "host" in picked else None,
                                 rack=picked.get("rack"), interface=picked.get("interface"),
                                 direction=picked.get("direction"), since_ns=since, until_ns=until)
        except UsageError:
            raise
        except MburstError as error:
            if not latency.n:
                raise
            say(f"{path}: bursts are left out: {error}")
            bursts = None
        return latency, bursts


# --- what is printed --------------------------------------------------------------------------------------------------


def facts(found: Comparison, damaged: Iterable[DamagedFile]) -> dict[str, Any]:
    """For programs. Times in ns."""
    def side(latency: Latency, bursts: Bursts | None) -> dict[str, Any]:
        return {"n": latency.n, "lost": latency.lost, "bursts": bursts and {
            "count": bursts.count, "recorded_ns": bursts.recorded_ns, "share_of_time": bursts.share_of_time,
            "per_minute": bursts.per_minute._asdict()}}

    return {
        "verdict": found.verdict, "decided_by": found.decided_by, "summary": sentence(found),
        "a": side(found.a, found.bursts_a), "b": side(found.b, found.bursts_b),
        "percentiles": [{"share": level.share, "a_ns": level.a, "b_ns": level.b,
                         "ratio": level.ratio and level.ratio._asdict()} for level in found.levels],
        "damaged_files": [file.facts() for file in damaged],
        "slow_ns": found.threshold_ns, "fan_out": [asdict(fan) for fan in found.fans],
    }


def show(found: Comparison) -> None:
    """For people."""
    rows = []
    if found.a.sent or found.b.sent:
        rows.append(["probes", *(f"{side.sent:,}" if side.sent else "none" for side in (found.a, found.b)), ""])
    if found.a.n and found.b.n:
        rows.append(["lost", *(format_share(side.lost / side.sent) for side in (found.a, found.b)), ""])
        rows += [[f"p{100 * level.share:g}", *("-" if value is None else format_duration(value)
                                              for value in (level.a, level.b)), ratio_words(level.ratio)]
                 for level in found.levels if level.a is not None or level.b is not None]
    both = found.bursts_a, found.bursts_b
    if any(both):
        rows.append(["bursts a minute", *(interval(side.per_minute) if side else "-" for side in both), ""])
        rows.append(["time in bursts", *(format_share(side.share_of_time) if side else "-" for side in both), ""])
    write_table(["", "A", "B", "B / A"], rows, sys.stdout)
    if found.fans:
        print(f"\nRequests that meet an answer slower than {format_duration(found.threshold_ns)}, or lost, by how many "
              "they need")
        write_table(["answers", *(f"{fan.width:,}" for fan in found.fans)],
                    [["A", *(format_share(fan.a) for fan in found.fans)],
                     ["B", *(format_share(fan.b) for fan in found.fans)]], sys.stdout)
    tell("", sentence(found))


def interval(estimate: Estimate) -> str:
    """A number with its interval."""
    value, low, high = (f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"
                        for number in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low} to {high})"


def ratio_words(ratio: Estimate | None) -> str:
    """B / A, or that there is too little to say how sure it is."""
    return interval(ratio) if ratio else "-"


def sentence(found: Comparison) -> str:
    """Whether B is better, in one sentence."""
    head = {"better": "B is better", "worse": "B is worse", "alike": "B is like A",
            "undetermined": "It cannot be told whether B is better"}[found.verdict]
    if found.verdict == "undetermined" and not found.decided_by:
        return f"{head}: there are too few probes, or they were sent in too short a time."
    if found.decided_by == "bursts" and found.bursts_a and found.bursts_b:
        return (f"{head}: {interval(found.bursts_b.per_minute)} bursts a minute against "
                f"{interval(found.bursts_a.per_minute)}.")
    if found.decided_by == "loss":
        return f"{head}: it loses {format_share(found.b.lost / found.b.sent)} of the probes, A " \
               f"{format_share(found.a.lost / found.a.sent)}."
    level = next((one for one in found.levels if f"p{100 * one.share:g}" == found.decided_by), None)
    if level is None or level.ratio is None or level.a is None or level.b is None:
        return f"{head}: no percentile differs for sure, and by 5 % or more."
    said = (f"the {level_name(found.decided_by)} is {format_duration(level.b)} against {format_duration(level.a)}, "
            f"{interval(level.ratio)} times as long")
    if found.verdict == "undetermined":
        return f"{head}: {said}, but another percentile or the loss says the opposite."
    return f"{head}: {said}."


def level_name(name: str) -> str:
    """A percentile as people say it."""
    return "median" if name == "p50" else name
