"""The parts of a configuration file and their values: read as text, and checked for what they should be.

Every scalar is text, as gnmic_content.py reads it. A mistake is a UsageError with its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...units import LONGEST_NS, whole
from .durations import parse_go_duration
from .messages import ENCODINGS
from .path import PathName, parse

LEAST_PLAIN_NS = 10**6  # a number without a unit is nanoseconds to gnmic; a smaller one probably means seconds
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "": False}


class File:
    """The state of reading a configuration: its path, the environment, and warnings."""

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        self.path = path
        self.folder = Path(path).parent
        self.environment = environment
        self.warnings: list[str] = []
        self._unused: dict[str, dict[str, str]] = {}  # section → key → remark

    def fail(self, where: str, what: str, hint: str = "") -> UsageError:
        """Returns the error for a mistake at WHERE."""
        return UsageError(" ".join(f"{self.path}: {where}: {what}".splitlines()), " ".join(hint.splitlines()))

    def warn(self, where: str, what: str) -> None:
        """Note a line for people, once."""
        line = f"{self.path}: {where}: {what}"
        if line not in self.warnings:
            self.warnings.append(line)

    def unused(self, section: str, word: str, remark: str = "") -> None:
        """Note that a key of gnmic is not used."""
        self._unused.setdefault(section, {})[word] = remark

    def all_warnings(self) -> tuple[str, ...]:
        """All warnings, a line each."""
        lines = []
        for section, words in self._unused.items():
            listed = ", ".join(f"{word} ({remark})" if remark else word for word, remark in words.items())
            lines.append(f"{self.path}: {section}not used by mburst: {listed}")
        return (*lines, *self.warnings)

    def expanded(self, text: str, where: str) -> str:
        """TEXT with $NAME and ${NAME} of the environment expanded. Raises UsageError for a variable that is not set,
        which gnmic takes as empty."""

        def look_up(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            if name not in self.environment:
                raise self.fail(where, f"the environment has no variable {name}")
            return self.environment[name]

        return _VARIABLE.sub(look_up, text)


class GnmicPart:
    """A mapping of the file with known keys."""

    def __init__(self, file: File, where: str, given: Mapping[str, Any]) -> None:
        self.file, self.where, self.given = file, where, given

    def place(self, word: str) -> str:
        """The place of a key, for messages."""
        return f"{self.where}.{word}" if self.where else word

    def over(self, defaults: Mapping[str, Any]) -> GnmicPart:
        """The same part, with DEFAULTS for keys that are missing or have no value."""
        own = {word: value for word, value in self.given.items() if value is not None}
        return GnmicPart(self.file, self.where, {**defaults, **own})

    def text(self, word: str, default: str = "", secret: bool = False) -> str:
        """A text with environment variables expanded. In a SECRET they are expanded only if it begins with one, since a
        password may have a $ anywhere (gnmic does the same)."""
        found = plain(self.file, self.given.get(word), self.place(word))
        if secret and not found.startswith("$"):
            return found or default
        return self.file.expanded(found, self.place(word)) or default

    def texts(self, word: str) -> list[str]:
        """A list of texts; a single text is a list of one."""
        value = self.given.get(word)
        place = self.place(word)
        each = value if isinstance(value, list) else [] if value in (None, "") else [value]
        return [self.file.expanded(plain(self.file, text, place), place) for text in each]

    def flag(self, word: str) -> bool:
        """true or false; false if it is not given."""
        text = self.text(word)
        if text.lower() not in _FLAGS:
            raise self.file.fail(self.place(word), f"invalid value {text!r}: must be true or false")
        return _FLAGS[text.lower()]

    def duration(self, word: str) -> int:
        """Nanoseconds of a duration in the form of Go; 0 if it is not given."""
        text = self.text(word)
        if (plain_ns := whole(text, most=LONGEST_NS)) is not None:
            if 0 < plain_ns < LEAST_PLAIN_NS:
                raise self.file.fail(self.place(word), f"missing unit in {text!r}", f"write {text}s or {text}ms")
            return plain_ns
        return self._checked(word, parse_go_duration, text) if text else 0

    def choice(self, word: str, words: Mapping[str, str], default: str) -> str:
        """One of WORDS, in any case and with _ for -."""
        text = self.text(word, default)
        key = text.lower().replace("_", "-")
        if key not in words:
            raise self.file.fail(self.place(word), f"invalid value {text!r}: valid are {', '.join(words)}")
        return words[key]

    def encoding(self, word: str = "encoding") -> str | None:
        """An encoding by its name or its number; None if it is not given."""
        text = self.text(word)
        if not text:
            return None
        name = text.upper().replace("-", "_")
        if (number := whole(text, most=len(ENCODINGS) - 1)) is not None:
            name = ENCODINGS[number]
        if name not in ENCODINGS:
            hint = f"there are {', '.join(map(str.lower, ENCODINGS))}"
            raise self.file.fail(self.place(word), f"unsupported encoding {text!r}", hint)
        return name

    def path(self, word: str) -> PathName | None:
        """A path; None if it is not given."""
        text = self.text(word)
        return self._checked(word, parse, text) if text else None

    def paths(self, *words: str) -> list[PathName]:
        """The paths under all WORDS."""
        return [self._checked(words[0], parse, text) for word in words for text in self.texts(word)]

    def mapping(self, word: str) -> dict[str, Any]:
        """A mapping; empty if it is not given."""
        return mapping(self.file, self.given.get(word), self.place(word))

    def name_of_file(self, word: str) -> str:
        """The name of a file, relative to the configuration; '' if it is not given."""
        name = self.text(word)
        return str(self.file.folder / Path(name).expanduser()) if name else ""

    def _checked(self, word: str, read: Callable[[str], Any], text: str) -> Any:
        try:
            return read(text)
        except UsageError as error:
            raise self.file.fail(self.place(word), str(error), error.hint) from None


def plain(file: File, value: Any, where: str) -> str:
    """A scalar as text. Raises UsageError for a list or a mapping."""
    if isinstance(value, list | dict):
        raise file.fail(where, "must be one value")
    return "" if value is None else str(value)


def mapping(file: File, value: Any, where: str) -> dict[str, Any]:
    """VALUE as a mapping of texts to values; {} for nothing. Raises UsageError."""
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise file.fail(where, "must be a mapping of names to values")
    return value


def known(
    file: File,
    value: Any,
    where: str,
    used: Collection[str],
    unused: Mapping[str, str],
    is_unused: Callable[[str], bool] | None = None,
) -> GnmicPart:
    """Returns the part of the file with the content VALUE, with the keys that are USED; their case does not matter, as
    in gnmic. A key that gnmic has and mburst does not use is noted; any other one is a UsageError."""
    given = {}
    section = re.split(r"[.\[]", where, maxsplit=1)[0] + ": "
    for key, below in mapping(file, value, where).items():
        word = key if key in used else key.lower()
        if word in used:
            given[word] = below
        elif (is_unused or unused.__contains__)(word):
            file.unused(section, word, unused.get(word, ""))
        else:
            raise file.fail(where, f"unknown key {key!r}", suggestion(word, used))
    return GnmicPart(file, where, given)


def suggestion(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant, or otherwise all existing words."""
    words = list(words)
    near = get_close_matches(word.replace("_", "-"), words, n=1, cutoff=0.75)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(words)}"
