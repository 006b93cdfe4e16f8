"""Safe output of names from outside. Hosts, racks, interfaces, probes and switches choose their own names. Characters
that a terminal, a browser, a figure or a file system would interpret are shown in escaped form.

Programs get names unchanged (JSON, Parquet, labels of metrics). These functions are for text that people read, and for
file names.
"""

from __future__ import annotations

import hashlib
import html
import json
import re

LONGEST = 60  # most characters of a name within a file name
MOST_REASON = 300  # characters of the cause of an error that others report
FORMULA = (*"=+-@＝＋－＠", "\t", "\r", "\n")  # characters at which a spreadsheet begins a formula, also wide forms
# Characters that Python calls printable but nobody sees: Unicode's Default_Ignorable_Code_Point
# (DerivedCoreProperties.txt) if it is a letter or a mark, and the Braille pattern without a dot.
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
    r"""Returns TEXT on one line with invisible characters escaped: controls (C0, C1), line separators, marks of writing
    direction, blank letters and other format characters become \x1b, \u202e or \U000e0001. Applying it again changes
    nothing."""
    return text if _is_seen(text) else "".join(map(_seen, text))


def _seen(character: str) -> str:
    if _is_seen(character) or character == "\N{NO-BREAK SPACE}":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def seen_json(text: str) -> str:
    """Returns JSON with invisible characters in its strings escaped, including those that JSON allows unescaped."""
    return "\n".join(line if _is_seen(line) else "".join(map(_json_seen, line)) for line in text.split("\n"))


def _json_seen(character: str) -> str:
    return character if _is_seen(character) else json.dumps(character)[1:-1]


def short(text: str, most: int) -> str:
    """Returns TEXT as it is shown, cut to MOST characters."""
    seen = shown(text)
    return seen if len(seen) <= most else seen[: most - 1] + "…"


def label(text: str) -> str:
    """Returns TEXT as it is shown, for plotly, which interprets tags and entities in titles, ticks and names of
    traces."""
    return html.escape(shown(text), quote=False)


def cell(text: str) -> str:
    """Returns TEXT for a CSV cell, with a quote in front if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def file_part(name: str, also: str = "-") -> str:
    """Returns NAME as a part of a file name, of letters, digits, dots, underscores and the characters ALSO. If anything
    had to be replaced, two dashes and a digest of the whole name are added, so that different names give different
    parts."""
    kept = re.sub(f"[^A-Za-z0-9._{re.escape(also)}]+", "_", name)[:LONGEST].strip("._-")
    if kept and kept == name and "--" not in kept:
        return kept
    return f"{kept}--{hashlib.blake2b(name.encode(errors='surrogatepass'), digest_size=8).hexdigest()}"
