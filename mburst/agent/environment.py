"""mburst.env: the secrets next to mburst.toml. mburst reads the file itself, so that it works the same under systemd,
cron and a shell.

A line is NAME=value, or a comment that begins with # or ;. A value may be quoted with " or ', as for EnvironmentFile=
in systemd.exec(5); a backslash escapes only in double quotes. Variables of the process's environment take precedence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import files
from ..errors import MburstError, UsageError

_LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
_NAME = re.compile(r"\$\$\{|\$\{(\w+)\}")  # $${ is ${
# What a shell would replace, and mburst does not. A $ or ~ elsewhere may be of a name, such as Azure's container $web.
_LITERAL = re.compile(r"\$\{\w+\}|^\$[A-Za-z_]\w*(?=/)|^~[^/]*(?=/)|^~$")
_MALFORMED = re.compile(r"(?<!\$)\$\{(?!\w+\})")


@dataclass
class Environment:
    """The variables that a configuration can refer to. Messages never contain their values."""

    path: Path
    values: Mapping[str, str] = field(default_factory=dict, repr=False)  # values in the file
    warnings: list[str] = field(default_factory=list)
    unread: str = ""  # why the file exists but could not be read
    fill: bool = True  # false: ${NAME} is not replaced, for callers that only ask what would be run
    wanted: dict[str, None] = field(default_factory=dict)  # names that the configuration refers to
    used: set[str] = field(default_factory=set, repr=False)  # inserted values, and the texts that contain them

    def merged(self) -> dict[str, str]:
        """Returns the environment of a child process."""
        return {**self.values, **os.environ}

    def filled(self, value: Any, path: Path, where: str, key: str) -> Any:
        """Returns a value of the configuration with each ${NAME} replaced, also in lists. Raises UsageError."""
        if isinstance(value, list):
            return [self.filled(item, path, where, key) for item in value]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            if match[1] is None:
                return "${" if self.fill else match[0]
            self.wanted[match[1]] = None
            found = os.environ.get(match[1], self.values.get(match[1]))
            if not self.fill:
                return match[0]
            if found is None:
                raise UsageError(
                    f"{path}: {where}: {key} refers to ${match[1]}, which is not set in the environment",
                    f"{self.path} {self.unread}" if self.unread else f"write {match[1]}=… to {self.path}",
                )
            self.used.add(found)
            return found

        if _MALFORMED.search(value):
            raise UsageError(f"{path}: {where}: {key} has ${{ without a name and }}", "write $${ for ${ itself")
        filled = _NAME.sub(variable, value)
        if filled != value:
            self.used.add(filled)
        return filled

    def lacking(self) -> list[str]:
        """Returns the names that the configuration refers to and the file does not have."""
        return [name for name in self.wanted if name not in self.values]


def check_literal(path: Path, where: str, key: str, value: Any, but_named: bool = False) -> None:
    """Raise UsageError if a value, or an item of it, has a reference to a variable or a home folder: it would be taken
    literally. BUT_NAMED: ${NAME} is replaced in it."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and (found := _LITERAL.search(_NAME.sub("/", item) if but_named else item)):
            raise UsageError(
                f"{path}: {where}: {key} has {found[0]}, which is not replaced there",
                "write the whole path; ./~ is a file of that name"
                if found[0][0] == "~"
                else "write the value: only ${NAME} is replaced, and only in [[deliver]]",
            )


def refuse_references(path: Path, where: str, table: Mapping[str, Any]) -> None:
    """Raise UsageError if a value of a table has a reference to a variable or a home folder. The error quotes it: only
    for tables whose keys were checked, since a secret may be at a wrong place."""
    for key, given in table.items():
        check_literal(path, where, key, given)


def read(configuration: Path, fill: bool = True) -> Environment:
    """Read the variables of a configuration from the file with the same name and the ending .env, if it exists. A file
    that this user cannot read (systemd may read it instead) counts as absent. Raises MburstError if others may write
    it, and UsageError for an invalid line."""
    path = configuration.with_suffix(".env")
    try:
        text, facts = files.read_text(path)
    except FileNotFoundError:
        return Environment(path, fill=fill)
    except PermissionError as error:
        return Environment(path, unread=f"cannot be read: {error.strerror}", fill=fill)
    except (OSError, UnicodeDecodeError) as error:
        raise MburstError(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'not text'}") from None
    mode = facts.st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MburstError(f"{path}: writable by others than its owner", f"chmod 600 {path}")
    warnings = [f"{path}: readable by everybody (chmod 600 {path})"] if mode & stat.S_IROTH else []
    return Environment(path, parse(text, path), warnings, fill=fill)


def parse(text: str, path: Path) -> dict[str, str]:
    """Returns a map of NAME to value. Raises UsageError, which contains no value."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise UsageError(f"{path} line {number}: not NAME=value")
        value = match[2]
        if value[:1] in ("'", '"'):
            quoted = _QUOTED.fullmatch(value)
            if not quoted:
                raise UsageError(f"{path} line {number}: {match[1]}: unterminated quote")
            value = quoted[1] if quoted[1] is not None else re.sub(r"\\(.)", r"\1", quoted[2])
        found[match[1]] = value
    return found
