"""Names of addresses: read from a source and kept in a store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .. import temporary
from ..errors import MburstError

if TYPE_CHECKING:
    import duckdb

    from ..sql import StoreFolder
    from ..telemetry.naming.rows import NamedPrefix, NameList

HOSTS_FILE = Path("/etc/hosts")
MOST_BYTES = 256 << 20  # of a file with names


class NamesImported(NamedTuple):
    """The result of an import. `names` is the number of names in it. If `is_new`, they differ from those of the
    previous import and were added to the store. `unanswered` is the number of addresses without an answer of DNS; those
    keep their names."""

    origin: str
    kind: str
    names: int
    is_new: bool
    unanswered: int = 0


class DnsLimits(NamedTuple):
    """The senders that DNS is asked about, and the time limit."""

    server: str = ""
    most: int = 1000
    timeout_s: float = 10.0
    since_ns: int | None = None
    until_ns: int | None = None


def import_names(store: StoreFolder, source: str, limits: DnsLimits) -> NamesImported:
    """Import the names of SOURCE: hosts, dns, recorded, or a file. Raises MburstError."""
    if source == "dns":
        return import_dns(store, limits)
    if source == "recorded":
        return import_recorded(store)
    return import_hosts(store) if source == "hosts" else import_file(store, Path(source))


def import_hosts(store: StoreFolder) -> NamesImported:
    """Import the names in /etc/hosts. Raises MburstError."""
    from ..telemetry.naming.files import of_hosts
    from ..telemetry.naming.rows import NameList

    return keep(store, "hosts", NameList("hosts", of_hosts(_text(HOSTS_FILE), str(HOSTS_FILE))))


def import_file(store: StoreFolder, path: Path) -> NamesImported:
    """Import the names in a file. Raises MburstError."""
    return import_text(store, _text(path), str(path.absolute()))


def import_text(store: StoreFolder, text: str, origin: str) -> NamesImported:
    """Import the names in TEXT, which has one of the formats of files and comes from ORIGIN. Raises MburstError."""
    from ..telemetry.naming.files import names_in

    return keep(store, origin, names_in(text, origin))


def import_recorded(store: StoreFolder) -> NamesImported:
    """Import the names and racks of the hosts with recordings in the store. Raises MburstError."""
    from ..analysis.read.names import recorded
    from ..sql.damage import readable
    from ..telemetry.naming.rows import NamedPrefix, NameList, merged

    with store.connect() as con, readable(con):
        hosts = [NamedPrefix(address, host, "", rack) for address, host, rack in recorded(con)]
    return keep(store, "recorded", NameList("recorded", merged(hosts)))


def import_dns(store: StoreFolder, limits: DnsLimits) -> NamesImported:
    """Import the names that DNS has for senders in the store. Senders that were not asked about, or got no answer, keep
    their names. Raises MburstError."""
    from ..analysis.read.names import newest_import, senders
    from ..sql.damage import readable
    from ..telemetry.naming.reverse_dns import ask
    from ..telemetry.naming.rows import NamedPrefix, NameList, merged

    with store.connect(None, limits.since_ns, limits.until_ns) as con, readable(con):
        asked = senders(con, limits.most, limits.since_ns, limits.until_ns)
        before = [NamedPrefix(*row[:-1]) for row in newest_import(con, "dns")]
    if not asked:
        raise MburstError(f"{store.path}: no senders to ask DNS about", "record senders first, or give another time")
    answers = ask(asked, limits.server, limits.timeout_s)
    if len(answers.unanswered) == len(asked):
        raise MburstError("DNS did not answer", "name another server with --server, or give a longer --timeout")
    answered = {*answers.nameless, *(one.prefix for one in answers.names)}
    kept = [one for one in before if one.prefix and one.prefix not in answered]
    imported = keep(store, "dns", NameList("dns", merged([*answers.names, *kept])))
    return imported._replace(unanswered=len(answers.unanswered))


def remove(store: StoreFolder, origin: str) -> NamesImported:
    """End the names of ORIGIN: those of a CSV file for all times, others from now on. Raises MburstError if it has
    none."""
    from ..analysis.read.names import newest_import
    from ..sql.damage import readable
    from ..telemetry.naming.rows import NameList

    with store.connect() as con, readable(con):
        before = newest_import(con, origin)
    if not any(row[0] for row in before):
        raise MburstError(f"{store.path}: no names from {origin!r}", f"`mburst names {store.path}` lists them")
    return keep(store, origin, NameList(before[0][-1], []))


def keep(store: StoreFolder, origin: str, found: NameList) -> NamesImported:
    """Add the names of a source to STORE, unless they equal those of its previous import. Raises MburstError."""
    import pyarrow as pa

    from ..analysis.read.names import newest_import
    from ..sql.damage import readable
    from ..sql.tables import arrow_schema

    with store.connect() as con, readable(con):
        before = newest_import(con, origin)
    new = sorted((*one, found.kind) for one in _or_none(found.names))
    if sorted(map(repr, new)) == sorted(map(repr, before)):
        return NamesImported(origin, found.kind, len(found.names), False)
    schema, now_ns = arrow_schema("names"), time.time_ns()
    same = {"batch": uuid.uuid4().hex[:12], "origin": origin, "kind": found.kind, "imported_ns": now_ns}
    rows = [{**one._asdict(), **same} for one in _or_none(found.names)]
    with store.writer("names") as writer:
        writer.append(pa.RecordBatch.from_pylist(rows, schema=schema))
    return NamesImported(origin, found.kind, len(found.names), True)


def _or_none(names: Sequence[NamedPrefix]) -> Sequence[NamedPrefix]:
    """Returns NAMES, or one row without a name if NAMES is empty: an empty import needs a row to end the previous
    one."""
    from ..telemetry.naming.rows import NamedPrefix

    return names or [NamedPrefix("")]


def _text(path: Path) -> str:
    from .. import files

    try:
        return files.read_text(path, MOST_BYTES)[0]
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise MburstError(f"{path}: not text in UTF-8", "save it as UTF-8") from error


@contextmanager
def known_names(place: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a database with the names of PLACE: a store, or a file that import_file accepts. Raises MburstError."""
    from ..sql import StoreFolder

    with ExitStack() as opened:
        if place.is_dir():
            store = StoreFolder.open(place)
        else:
            folder = opened.enter_context(temporary.folder("mburst-names-"))
            store = StoreFolder.create(Path(folder) / "store")
            import_file(store, place)
        yield opened.enter_context(store.connect(since_ns=time.time_ns()))  # names apply at all times
