"""Names from a file whose format is recognized by its content: CSV, the format of /etc/hosts, or JSON of kubectl or
Consul."""

from __future__ import annotations

import json

from ...errors import MburstError, UsageError
from . import consul, csv_names, kubernetes
from .rows import LONGEST, NamedPrefix, NameList, canonical, merged

KNOWN = "CSV, the format of /etc/hosts, `kubectl get pods,services -A -o json`, or /v1/catalog of Consul"


def names_in(text: str, file: str) -> NameList:
    """Returns the names in TEXT, the content of FILE. Raises UsageError."""
    text = text.removeprefix("\ufeff")
    if not text.strip():  # such as the output of a command that failed: it would end the names read before
        raise UsageError(f"{file} is empty", "`mburst names STORE --remove ORIGIN` ends the names of a source")
    first = next((line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    if first[:1] in ("{", "["):
        return _of_json(text, file)
    if "," in first or first == "address":
        return NameList("csv", csv_names.names_of(text, file))
    return NameList("hosts", of_hosts(text, file))


def of_hosts(text: str, file: str) -> list[NamedPrefix]:
    """Reads the format of /etc/hosts: an address, its name, and other names, which are left out. If an address has
    several lines, the first one counts, as for the resolver. Raises UsageError."""
    names = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words or words[0].partition("%")[0] != words[0]:  # fe80::1%lo0 is an address of one host's interface
            continue
        try:
            prefix = canonical(words[0])
        except UsageError as error:
            raise UsageError(f"{file}:{number}: {error}", f"the file must be {KNOWN}") from None
        if len(words) < 2:
            raise UsageError(f"{file}:{number}: {prefix} has no name", "remove the line")
        names.append(NamedPrefix(prefix, words[1][:LONGEST]))
    return merged(names)


def _of_json(text: str, file: str) -> NameList:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: invalid JSON: {error}") from None
    try:
        if isinstance(content, dict) and isinstance(content.get("items"), list):
            return NameList("kubernetes", merged(kubernetes.names_of(content["items"])))
        if isinstance(content, list) and all(isinstance(one, dict) and "Address" in one for one in content):
            return NameList("consul", merged(consul.names_of(content)))
    except (AttributeError, KeyError, TypeError) as error:
        raise MburstError(f"{file}: not as kubectl or Consul write it: {error!r}", f"it must be {KNOWN}") from None
    raise UsageError(f"{file}: unknown kind of JSON", f"it must be {KNOWN}")
