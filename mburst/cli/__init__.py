"""The command line, with one module for each verb. Each has

- `add_parser(verbs)`: adds the verb's parser, and sets its `run` default;
- `run(arguments) -> int`: does the work and returns the exit code; raises MburstError.

Damaged files that a verb left out are reported here for all verbs: see `carry_out`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .. import files
from ..errors import UsageError
from ..messages import print_message
from ..units import MOST, SHOWN

if TYPE_CHECKING:
    from ..sql.damage import DamagedFile

VERBS = [
    "record",
    "probe",
    "reflect",
    "collect",
    "switch_agent",
    "doctor",
    "import_",
    "names",
    "canary",
    "bursts",
    "extract",
    "sql",
    "live",
    "top",
    "report",
    "export",
    "schedule",
    "run",
    "status",
    "metrics",
    "investigate",
    "what_if",
    "compare",
    "check",
    "repair",
    "migrate",
    "compact",
    "ship",
    "fleet",
    "demo",
]


# Arguments that take files and folders of this machine, by metavar: an address would become a folder `s3:` here.
# Interfaces may have such names (pcap:/FILE of PF_RING).
LOCAL = re.compile(r"(?!.*INTERFACE)(STORE|CAPTURE|RING|FILE|FOLDER|DIR|OLD|NEW|A|B)(\||$)")

# Arguments that name a file, a folder or another place: an empty word would be the current folder. Inputs of `record`
# may be only a filter (inputs.py).
PLACES = re.compile(
    r"(?!FILE\|INTERFACE)(STORE|CAPTURE|RING|FILE|FOLDER|DIR|OLD|NEW|A|B|TARGET|RESULTS|PLACE|SOURCE)(\||$)"
)

# Options whose file or folder is written.
WRITTEN = {"-o", "--sent"}

# Verbs that succeed even if another file of the store is damaged.
WRITERS = {"record", "probe", "collect", "import", "names"}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError for an invalid call, which is then reported as one line. argparse
    itself would print the usage first, and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("type", int, _whole_number)
        self._mixes = False

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see `{self.prog} --help`")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Returns the value of all words of an argument. Raises UsageError for an empty name of a place. A pcap filter
        after it may be empty."""
        if isinstance(action.metavar, str) and PLACES.match(action.metavar):
            for word in arg_strings[:1] if "FILTER" in action.metavar else arg_strings:
                if not word:
                    raise UsageError(f"argument {_title(action)}: an empty name", "the current folder is `.`")
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Returns the value of one word. Raises UsageError for an invalid value, for an address in place of a file or
        folder, for a folder in place of a file, because a Path drops the slash at its end, and for `-` in place of a
        file to write."""
        if arg_string == "-" and WRITTEN.intersection(action.option_strings):
            raise UsageError(f"argument {_title(action)}: standard output is not supported", "a file `-` is `./-`")
        if isinstance(action.metavar, str) and LOCAL.match(action.metavar):
            files.check_local(arg_string)
        if action.metavar == "FILE" and arg_string.endswith("/"):
            raise UsageError(f"{arg_string}: a folder in place of a file", "name a file in it")
        try:
            return super()._get_value(action, arg_string)
        except UsageError as error:  # of values.py
            raise UsageError(f"argument {_title(action)}: {error}", error.hint) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest a similar choice, if there is one, instead of listing all."""
        if action.choices is not None and value not in action.choices and (near := _near(value, action.choices)):
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (did you mean {near}?)")
        super()._check_value(action, value)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help text or a version. argparse would ignore that it cannot be written."""
        print(message, end="", file=file or sys.stderr)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refer to the help of the verb if the verb does not know an argument; argparse would refer to the main
        help. Arguments may stand on both sides of options: with some of them optional, argparse takes those in front
        for all (Python 3.11). Without a word, list the verbs."""
        if args is not None and not args and self._subparsers is not None:
            self.print_help(sys.stderr)
            raise SystemExit(2)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None and not self._mixes:
            self._mixes = True
            try:
                found, unknown = self.parse_known_intermixed_args(args)
            finally:
                self._mixes = False
        if unknown and self._subparsers is None and not self._mixes:
            options = [option for action in self._actions for option in action.option_strings]
            near = _near(unknown[0], options) if unknown[0].startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f" (did you mean {near}?)" if near else ""))
        return found, unknown

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Raises UsageError for an invalid call."""
        words = sys.argv[1:] if args is None else args
        for word in words:
            _check_word(word)
        if words.count("--") > 1:  # argparse makes an empty list of the second one
            raise UsageError("invalid argument '--'", "one `--` ends the options")
        found, unknown = self.parse_known_args(words, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found


def _title(action: argparse.Action) -> str:
    """Returns an argument as errors name it: `-o/--output`, `STORE`."""
    return "/".join(action.option_strings) or str(action.metavar)


def _near(word: str, known: Iterable[str]) -> str:
    """Returns the option or choice that WORD, possibly with a value, resembles; '' if there is none."""
    import difflib

    return next(iter(difflib.get_close_matches(word.partition("=")[0], list(known), 1)), "")


def _check_word(word: str) -> None:
    """Raise UsageError for bytes that are not UTF-8, which neither the database nor a page can hold, and for an option
    with the value `--`, which argparse ignores (Python 3.11)."""
    if not files.is_utf8(word):
        hint = "rename what has this name; `-` reads a capture from standard input"
        readable = os.fsencode(word).decode(errors="backslashreplace")
        raise UsageError(f"invalid argument {readable}: not UTF-8", hint)
    if word.startswith("-") and word.partition("=")[1:] == ("=", "--"):
        raise UsageError(f"argument {word.partition('=')[0]}: invalid value '--'")


def _whole_number(text: str) -> int:
    """Returns the number for `type=int`. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MOST:
        raise argparse.ArgumentTypeError(f"invalid number {text[:SHOWN]!r} (a whole one from 0 to {MOST:,})")
    return number


def build_parser(verb: str = "") -> argparse.ArgumentParser:
    """Returns the parser of the whole command, or only of VERB, because the modules of the other verbs take 0.2 s to
    load. The parser raises UsageError for an invalid call."""
    from .. import __doc__ as about
    from .. import __version__

    parser = Parser(prog="mburst", description=about, epilog="Start with `mburst demo`.")
    parser.add_argument("--version", action="version", version=f"mburst {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb", required=True)
    module = next((name for name in VERBS if name.strip("_").replace("_", "-") == verb), None)
    for name in VERBS if module is None else [module]:
        importlib.import_module(f".{name}", __name__).add_parser(verbs)
    return parser


def carry_out(arguments: argparse.Namespace) -> int:
    """Run the verb, and return its exit code. Each damaged file that it meets is reported once on standard error, at
    once. If an answer lacks rows of such a file, the exit code is 1 instead of 0; `status` has its own exit code for
    damaged files."""
    from ..sql.damage import FOUND
    from ..sql.limits import noting

    FOUND.files.clear()  # left by an earlier verb in this process
    FOUND.listeners.append(name_damage)
    try:
        with noting(name_limit):
            code: int = arguments.run(arguments)
    finally:
        FOUND.listeners.remove(name_damage)
    return 1 if code == 0 and FOUND.files and arguments.verb not in {*WRITERS, "status"} else code


def name_damage(damaged: DamagedFile) -> None:
    """Report a damaged file on standard error."""
    print_message(str(damaged))


def name_limit(sentence: str) -> None:
    """Report a limit of the answer on standard error."""
    print_message(f"note: {sentence}")
