"""`mburst what-if`: what a faster link, priority, staggered senders, a smaller fan-in or another buffer would have
done."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import MburstError, UsageError
from ..names import tell
from ..units import SIZES, format_bytes, format_duration, format_rate, parse_duration, parse_rate, parse_size
from .investigate import add_scope, judged
from .output import write, write_json_value

if TYPE_CHECKING:
    from ..analysis.what_if import Change

DESCRIPTION = """Replay the recorded bursts through a model of their port with something changed, and predict the
latency of the recorded probes. The model's error on the recorded situation comes first. Each option is one prediction;
several options give each alone and then all together; none gives the usual ones."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("what-if", help="predict what a change would do to the tail", description=DESCRIPTION)
    add_scope(parser)
    change = parser.add_argument_group("what to change")
    change.add_argument("--link", metavar="RATE", help="speed of the port's link, such as 10G")
    change.add_argument(
        "--priority", action="store_true", help="the probes' class goes first, or over a link of its own"
    )
    change.add_argument(
        "--stagger", metavar="TIME", help="senders begin one after the other over this time, such as 5ms"
    )
    change.add_argument("--fan-in", type=int, metavar="N", help="at most N senders at once")
    change.add_argument("--buffer", metavar="SIZE", help=f"the port's buffer, such as {SIZES}")
    parser.add_argument(
        "--recorded-link", metavar="RATE", help="speed of the recorded link, where the store does not tell"
    )
    parser.add_argument("--json", action="store_true", help="print the predictions as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Judge, fit, predict, print."""
    from ..analysis.what_if import usual_changes, what_if
    from ..dashboards.investigation_facts import outcome_facts, what_if_facts
    from ..dashboards.investigation_phrases import before_words, model_words, unsure_words
    from ..dashboards.investigation_words import outcome_row

    changes = wanted(arguments)
    answer = judged(recorded(arguments))
    replay = answer.replay
    if replay is None:
        raise MburstError(
            "there is nothing to replay: no late probe met a full port",
            "`mburst investigate` says what the tail is about",
        )
    outcomes = what_if(replay, changes or usual_changes(replay))
    if arguments.json:
        facts = {
            **(what_if_facts(answer) or {}),
            "cause": answer.cause,
            "damaged_files": [file.facts() for file in answer.damaged],
            "changes": [outcome_facts(outcome) for outcome in outcomes],
        }
        write_json_value(facts)
        return 0
    tell(model_words(replay))
    if where := before_words(answer.findings[0].evidence):
        tell(where)
    if answer.cause != "bursts":
        print(f"Mind: bursts are not shown to be the cause of the tail ({answer.cause}).")
    for sentence in unsure_words(outcomes):
        tell(sentence)
    print()
    write(
        "table",
        ["change", "p50", "p99", "p99.9", "late or dropped", "dropped"],
        [outcome_row(outcome, replay) for outcome in (replay.recorded, replay.modelled, *outcomes)],
    )
    return 0


def recorded(arguments: argparse.Namespace) -> argparse.Namespace:
    """The options with `link` as the rest of the program understands it: of the recording."""
    return argparse.Namespace(
        **{
            **vars(arguments),
            "link": arguments.recorded_link,
            "bin": None,
            "threshold": None,
            "release": None,
            "join": None,
            "min_duration": None,
        }
    )


def wanted(arguments: argparse.Namespace) -> list[Change]:
    """The changes that the options name: each alone, and all together where there are several. Raises UsageError."""
    from ..analysis.what_if import Change, together

    changes = []
    if arguments.link:
        rate = parse_rate(arguments.link)
        changes.append(Change(f"a link of {format_rate(rate)}", link_bps=float(rate)))
    if arguments.priority:
        changes.append(Change("strict priority or a separate link", priority=True))
    if arguments.stagger:
        time = parse_duration(arguments.stagger)
        changes.append(Change(f"senders staggered over {format_duration(time)}", stagger_ns=float(time)))
    if arguments.fan_in is not None:
        if arguments.fan_in < 1:
            raise UsageError(f"--fan-in {arguments.fan_in}: somebody must send", "write 1 or more")
        changes.append(Change(f"at most {arguments.fan_in} senders at once", fan_in=arguments.fan_in))
    if arguments.buffer:
        size = parse_size(arguments.buffer)
        changes.append(Change(f"a buffer of {format_bytes(size)}", buffer_bytes=float(size)))
    if len(changes) > 1:
        changes.append(together(changes))
    return changes
