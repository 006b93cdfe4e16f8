"""[[deliver]] of mburst.toml: the destinations of reports. Errors contain no value that may be secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..checked import naming, only
from ..environment import Environment, check_literal
from ..secrets import Secrets
from .kind import Delivery, Kind, SettingKey, read_keys
from .kinds import KINDS
from .values import choice, duration, site, whole

COMMON = (
    SettingKey(
        "when",
        "`bursts`: nothing is sent of a period in which all racks were recorded as before and none burst",
        choice("always", "bursts"),
        "always",
        literal=True,
    ),
    SettingKey("site", "where the reports are published, for links", site, "", literal=True),
    SettingKey("attempts", "how often it is tried at once", whole(100), 3, literal=True),
    SettingKey("wait", "after the first attempt; doubled after each", duration, "5s", literal=True),
    SettingKey("timeout", "of a connection", duration, "20s", literal=True),
)


def delivery_of(path: Path, where: str, table: Mapping[str, Any], environment: Environment) -> Delivery:
    """Returns one [[deliver]]. Raises UsageError, and MburstError if the kind needs something that is not installed."""
    kind = _kind(path, where, table)
    only(path, where, table, ["name", "kind", *(key.name for key in (*COMMON, *kind.keys))])
    if missing := next((key.name for key in kind.keys if key.needed and key.name not in table), None):
        raise UsageError(f"{path}: {where} needs {missing}")
    for key in (*COMMON, *kind.keys):
        if key.literal or key.folder:
            check_literal(path, where, key.name, table.get(key.name), but_named=not key.literal)
    literal = [key for key in kind.keys if key.literal]
    with naming(path, where):
        common = read_keys(COMMON, table)
        read_keys(literal, table)  # before ${NAME} is replaced, because these errors quote the value
    values = {
        key.name: table[key.name] if key.literal else environment.filled(table[key.name], path, where, key.name)
        for key in kind.keys
        if key.name in table
    }
    return Delivery(
        table["name"],
        kind.name,
        max(1, common["attempts"]),
        common["wait"],
        common["timeout"],
        common["site"],
        common["when"],
        _settings(path, where, kind, values, environment.fill),
        Secrets(environment.used | set(_secrets(kind, values))),
    )


def folders_of(to: Delivery) -> list[Path]:
    """Returns the folders that a delivery writes to."""
    return [Path(to.settings[key.name]) for key in KINDS[to.kind].keys if key.folder]


def _kind(path: Path, where: str, table: Mapping[str, Any]) -> Kind:
    name = table.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise UsageError(f"{path}: {where}: invalid kind {name!r}", f"valid are {', '.join(KINDS)}")
    return KINDS[name]


def _settings(path: Path, where: str, kind: Kind, values: Mapping[str, Any], fill: bool) -> dict[str, Any]:
    if not fill and "${" in str(values):  # nothing is delivered, and the value is not known
        return {key.name: values.get(key.name, key.default) for key in kind.keys}
    with naming(path, where):
        return kind.settings(values)


def _secrets(kind: Kind, values: Mapping[str, Any]) -> list[str]:
    """Returns the values of secret keys; items of a list separately."""
    found = [values[key.name] for key in kind.keys if key.secret and key.name in values]
    return [str(one) for value in found for one in (value if isinstance(value, list) else [value])]
