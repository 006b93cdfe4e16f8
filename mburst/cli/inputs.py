"""The inputs of a recording: capture files or interfaces, followed by a pcap filter, as for tcpdump and tshark."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import MburstError, UsageError
from ..services.record.backends import DEVICES_OF_MODULES

_CAPTURE = re.compile(
    r"\.(pcap|pcapng|pcp|cap|dmp|dump|trc|trace|snoop|erf|ntar)\d*(\.(gz|zst|xz|bz2|lz4))?$|\.(gz|zst|xz|bz2|lz4)$",
    re.IGNORECASE,
)
_NETWORK = re.compile(r"[0-9.]+/[0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*/\d+", re.IGNORECASE)
_ARITHMETIC = re.compile(r"[\[\]()<>=&|+*]")
_BEFORE_NAMES = {"host", "src", "dst", "net", "gateway", "and", "or", "not", "ra", "ta", "addr1", "addr2"}  # of a host


class Inputs(NamedTuple):
    """Files or interfaces, and a pcap filter, or ""."""

    targets: list[str]
    filter: str


def add_options(parser: Any) -> None:
    """Add FILE, INTERFACE and FILTER as arguments, and -r, -i and -f."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="FILE|INTERFACE|FILTER",
        help="files or interfaces, then an optional pcap filter; after -r or -i only a filter",
    )
    parser.add_argument(
        "-r",
        dest="files",
        action="append",
        metavar="FILE",
        help="a capture file, - for standard input; may be repeated",
    )
    parser.add_argument(
        "-i", dest="devices", action="append", metavar="INTERFACE", help="an interface to capture from; may be repeated"
    )
    parser.add_argument("-f", "--filter", default="", metavar="FILTER", help="a pcap filter, in one word for the shell")


def check_given(arguments: argparse.Namespace) -> None:
    """Raise UsageError if no input is named."""
    if not (arguments.inputs or arguments.files or arguments.devices):
        raise UsageError("nothing to record", "name capture files (-r FILE) or an interface (-i INTERFACE)")


def inputs_of(arguments: argparse.Namespace) -> Inputs:
    """Returns the inputs that the options name. Raises UsageError, and MburstError for a file that does not exist."""
    files, devices = getattr(arguments, "files", None), getattr(arguments, "devices", None)
    if files and devices:
        raise UsageError("-r and -i exclude each other", "record files, or interfaces")
    if files:
        targets, words = _split([*map(_existing, files), *arguments.inputs], arguments.backend)
    elif devices:
        targets, words = [_interface(name, arguments.backend) for name in devices], arguments.inputs
    else:
        targets, words = _split(arguments.inputs, arguments.backend)
    _refuse_files(words)
    return Inputs(targets, _one_filter(str(getattr(arguments, "filter", "") or ""), " ".join(words)))


def _split(inputs: list[str], backend: str) -> tuple[list[str], list[str]]:
    """Returns the existing files, or the existing interfaces, or else the first name; and the words that follow."""
    if not inputs[0]:
        raise UsageError("an empty name of a file or interface", "after -r or -i, a filter may be empty")
    count = _leading(inputs, lambda name: name == "-" or is_file(name)) or _leading(inputs, is_interface)
    is_device = backend in DEVICES_OF_MODULES and ":" in inputs[0]
    if not count and is_like_a_file(inputs[0]) and not is_device:
        raise no_such_file(inputs[0])
    return inputs[: count or 1], inputs[count or 1 :]


def _leading(words: list[str], holds: Callable[[str], bool]) -> int:
    """Returns the number of words at the start for which HOLDS is true."""
    return next((place for place, word in enumerate(words) if not holds(word)), len(words))


def _existing(name: str) -> str:
    if name == "-" or is_file(name):
        return name
    raise MburstError(f"{name}: no such file", "an interface is named with -i") if is_interface(name) else (
        no_such_file(name))  # fmt: skip


def _interface(name: str, backend: str) -> str:
    if is_file(name) and not is_interface(name):
        raise MburstError(f"{name}: no such interface", "a capture file is named with -r")
    if is_file(name) and backend == "auto":
        raise UsageError(f"{name} is an interface and a file in this folder", "name the --backend, such as afpacket")
    return name


def _refuse_files(words: list[str]) -> None:
    """Raise MburstError if a word of a filter looks like a file name."""
    for before, word in zip(["", *words], words, strict=False):
        if is_like_a_file(word) and ("/" in word or before.lower() not in _BEFORE_NAMES or is_file(word)):
            if is_file(word):
                raise MburstError(f"{word}: a file where a filter is expected", "name files before the filter")
            raise no_such_file(word)


def is_like_a_file(word: str) -> bool:
    """Whether a word looks like a file name, not like an interface or a part of a pcap filter: it has the suffix of a
    capture or a compressed file, or a slash that is part of no network (10.0.0.0/8) and no arithmetic (ip[0]/4)."""
    if " " in word or _ARITHMETIC.search(word):
        return False
    has_path = "/" in word and any(map(str.isalpha, word)) and not _NETWORK.fullmatch(word)
    return has_path or bool(_CAPTURE.search(word))


def is_file(name: str) -> bool:
    """Whether a file (or pipe, or folder) with this name exists."""
    try:
        return bool(name) and Path(name).exists()
    except OSError:  # a filter may be longer than a file name can be
        return False


def no_such_file(name: str) -> MburstError:
    """Returns the error for a missing file, with a similar file name if there is one."""
    path = Path(name)
    try:
        near = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], 1)
    except OSError:
        near = []
    return MburstError(
        f"{name}: no such file",
        f"there is {path.parent / near[0]}" if near else "files come first, a filter behind them or with -f",
    )


def is_interface(name: str) -> bool:
    """Whether this machine has an interface with this name; "any" stands for all."""
    from ..capture import device

    return name == "any" or device(name) is not None


def _one_filter(named: str, words: str) -> str:
    if named and words:
        raise UsageError(f"two filters: {named!r} and {words!r}", "join them with `and`")
    return named or words


def explained(error: MburstError, expression: str) -> MburstError:
    """Returns ERROR, or a likelier one if a filter cannot be compiled: a word with a suffix is probably a missing file,
    and a single word a missing interface."""
    if not expression or not str(error).startswith(f"filter '{expression}'"):
        return error
    if names := [word for word in expression.split() if re.search(r"\.[A-Za-z]\w*$", word) and not is_file(word)]:
        return no_such_file(names[0])
    if re.fullmatch(r"[\w.-]{1,15}", expression):
        return MburstError(f"{expression}: neither an interface of this machine nor a filter", "`ip link` lists them")
    return error
