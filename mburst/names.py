"""Names from outside as text. Hosts, racks, interfaces, probes and switches name themselves; what a terminal, a
browser, a figure or a file system would obey in such a name is shown instead.

Programs get names as they are (JSON, Parquet, labels of metrics); these functions are for what people read, and for
names of files.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import sys

LONGEST = 60  # characters of a name in a file's name
FORMULA = (*"=+-@＝＋－＠", "\t", "\r", "\n")  # what a spreadsheet takes a cell to be computed for, wide signs too
# What Python calls printable and nobody sees: Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt) where
# it is a letter or a mark, and the pattern of Braille without a dot.
_BLANK = frozenset(
    map(
        chr,
        (
            0x34F,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            *range(0x180B, 0x1810),
            0x2800,
            0x3164,
            *range(0xFE00, 0xFE10),
            0xFFA0,
            *range(0xE0100, 0xE01F0),
        ),
    )
)


def _is_seen(text: str) -> bool:
    return text.isprintable() and _BLANK.isdisjoint(text)


def shown(text: str) -> str:
    r"""TEXT on one line without what is not seen: controls (C0, C1), line separators, marks of writing direction, blank
    letters and other format characters are shown as \x1b, \u202e or \U000e0001. What is shown already stays so."""
    return text if _is_seen(text) else "".join(map(_seen, text))


def _seen(character: str) -> str:
    if _is_seen(character) or character == "\N{NO-BREAK SPACE}":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def say(text: str) -> None:
    """A line of mburst itself for people, on standard error, in the place of a progress line if there is one."""
    place = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{place}mburst: {shown(text)}\n", end="", file=sys.stderr, flush=True)  # at once: other threads print, too


def say_progress(text: str) -> None:
    """TEXT as the progress line on standard error, in place of the one before: as much of it as a row of the terminal
    has, since what goes on in a second row stays."""
    line = shown(text)
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # no terminal
        columns = 0
    if 0 < columns <= len(line):
        line = line[: max(columns - 2, 0)] + "…" * (columns > 1)
    print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def print_lines(*lines: str) -> None:
    """Lines for people on standard output."""
    for line in lines:
        print(shown(line), flush=True)


def seen_json(text: str) -> str:
    """The same JSON, with what is not seen in its strings escaped: some of that JSON itself would leave as it is."""
    return "\n".join(line if _is_seen(line) else "".join(map(_json_seen, line)) for line in text.split("\n"))


def _json_seen(character: str) -> str:
    return character if _is_seen(character) else json.dumps(character)[1:-1]


def short(text: str, most: int) -> str:
    """TEXT as it is shown, cut to MOST characters."""
    seen = shown(text)
    return seen if len(seen) <= most else seen[: most - 1] + "…"


def label(text: str) -> str:
    """TEXT as it is shown, for plotly, which takes tags and entities in titles, ticks and names of traces."""
    return html.escape(shown(text), quote=False)


def cell(text: str) -> str:
    """TEXT for a cell of CSV: a quote comes before what a spreadsheet would compute."""
    return f"'{text}" if text.startswith(FORMULA) else text


def file_part(name: str, also: str = "-") -> str:
    """NAME as a part of a file's name, of letters, digits, dots, underscores and BESIDES: with two dashes and a digest
    of the whole name where anything had to be replaced, so that no two names make the same part."""
    kept = re.sub(f"[^A-Za-z0-9._{re.escape(also)}]+", "_", name)[:LONGEST].strip("._-")
    if kept and kept == name and "--" not in kept:
        return kept
    return f"{kept}--{hashlib.blake2b(name.encode(errors='surrogatepass'), digest_size=8).hexdigest()}"
