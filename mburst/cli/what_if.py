"""`mburst what-if`: the predicted effect of a faster link, priority, staggered senders, a smaller fan-in or another
buffer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..api import options
from ..api.investigating import WhatIf, changes_of, predicted
from ..messages import print_lines
from ..units import SIZES
from . import values
from .investigate import add_scope, asked_for
from .output import write, write_json_value

if TYPE_CHECKING:
    from ..analysis.whatif.replay import WhatIfChange

DESCRIPTION = """Replay the recorded bursts through a model of their port with something changed, and predict the
latency of the recorded probes. The error of the model on the recorded situation comes first. Each option is one
prediction; several options are predicted separately and then together; without options, the usual changes are
predicted."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("what-if", help="predict the effect of a change on the tail", description=DESCRIPTION)
    add_scope(parser, "--recorded-link")
    change = parser.add_argument_group("what to change")
    change.add_argument("--link", type=values.rate, metavar="RATE", help="speed of the link of the port, such as 10G")
    change.add_argument(
        "--priority", action="store_true", help="the class of the probes has strict priority, or a separate link"
    )
    change.add_argument(
        "--stagger",
        type=values.duration,
        metavar="TIME",
        help="senders begin one after the other over this time, such as 5ms",
    )
    change.add_argument("--fan-in", type=int, metavar="N", help="at most N senders at once")
    change.add_argument("--buffer", type=values.size, metavar="SIZE", help=f"the port's buffer, such as {SIZES}")
    parser.add_argument(
        "--recorded-link",
        type=values.rate,
        metavar="RATE",
        help="speed of the recorded link, if the store does not have it",
    )
    parser.add_argument("--json", action="store_true", help="print the predictions as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Investigate, fit, predict, print."""
    changes = wanted(arguments)
    found = predicted(asked_for(arguments, options.definition_of(link=arguments.recorded_link)), changes)
    if arguments.json:
        write_json_value(found.to_dict())
    else:
        show(found)
    return 0


def show(found: WhatIf) -> None:
    """Print the predictions as text."""
    from ..dashboards.investigation.phrases import (
        before_words,
        examined_words,
        model_words,
        of_what_words,
        pauses_words,
        unsure_words,
    )
    from ..dashboards.investigation.words import outcome_row

    print_lines(f"{of_what_words(found.answer.findings[0])} {examined_words(found.answer)}")
    print_lines(model_words(found.replay))
    for said in (before_words, pauses_words):
        if words := said(found.answer.findings[0].evidence):
            print_lines(words)
    if found.answer.cause != "bursts":
        print(f"Caution: bursts are not shown to be the cause of the tail ({found.answer.cause}).")
    for sentence in unsure_words(found.changes):
        print_lines(sentence)
    print()
    write(
        "table",
        ["change", "p50", "p99", "p99.9", "late or dropped", "dropped"],
        [outcome_row(outcome, found.replay) for outcome in (found.recorded, found.modelled, *found.changes)],
    )


def wanted(arguments: argparse.Namespace) -> list[WhatIfChange]:
    """Returns the changes that the options name. Raises UsageError."""
    return changes_of(arguments.link, arguments.priority, arguments.stagger, arguments.fan_in, arguments.buffer)
