"""A database over the results of a fleet, for the questions of sql/queries/fleet/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import lockdown, openable, views
from .catalogue import bare
from .named import set_variables
from .tables import ATTACHED, NEAR_TABLES, columns, partition_sql

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


_READING_BY_NAME = ("query", "query_table")  # functions that read tables whose names are text
_PORT_TABLES = "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND starts_with(view_name, 'port_')"

# The tables that contention.sql reads, for racks that are divided by host; switch ports are separate for each date,
# with the hosts that links named then. A burst of a port goes on in what was recorded the next day.
_OF_RACKS = "WHERE rack IN (SELECT rack FROM divided.days)"
_HOST_ID = "('', rack, host, recording_id)"
_PORT_ID = "(date, rack, host, recording_id)"
_ANY_DAY = "(rack, host, recording_id) AS recording_id"
_DIVIDED = (
    f"""CREATE VIEW divided.recorded_times AS
        SELECT {_HOST_ID} AS recording_id, clock_epoch, start_ns, end_ns FROM main.coverage {_OF_RACKS} UNION ALL
        SELECT {_PORT_ID}, clock_epoch, start_ns, end_ns FROM main.port_coverage {_OF_RACKS}""",
    f"""CREATE VIEW divided.lanes AS
        SELECT *, recording_id AS lane,
               named_receiver_of(host, interface, direction, backend, attached_host) AS receiver FROM (
            SELECT DISTINCT {_HOST_ID} AS recording_id, rack, host, interface, direction, '' AS backend,
                   NULL AS attached_host, NULL AS attached_interface FROM main.coverage {_OF_RACKS} UNION
            SELECT {_PORT_ID}, rack, host, interface, direction, 'otlp', attached_host, attached_interface
            FROM main.port_coverage {_OF_RACKS})""",
    f"""CREATE TABLE divided.found AS
        SELECT CAST(row_number() OVER () AS BIGINT) AS burst, * FROM (
            SELECT {_HOST_ID} AS lane, {_ANY_DAY}, clock_epoch, start_ns, end_ns FROM main.bursts {_OF_RACKS}
            UNION ALL
            SELECT {_PORT_ID}, {_ANY_DAY}, clock_epoch, start_ns, end_ns FROM main.port_bursts {_OF_RACKS})""",
    f"""CREATE VIEW divided.counted AS
        SELECT {_ANY_DAY}, clock_epoch, start_ns, end_ns FROM main.coverage {_OF_RACKS} UNION ALL
        SELECT {_ANY_DAY}, clock_epoch, start_ns, end_ns FROM main.port_coverage {_OF_RACKS}""",
    "CREATE TABLE divided.own_times AS FROM own_times_of('divided.lanes', 'divided.recorded_times')",
    """CREATE TABLE divided.received AS
        SELECT burst, found.recording_id, clock_epoch, rack, start_ns, end_ns,
               CASE WHEN burst NOT IN (FROM counted_by_hosts('divided.found', 'divided.counted', 'divided.own_times'))
                   THEN receiver END AS receiver
        FROM divided.found AS found JOIN divided.lanes USING (lane)""",
    "CREATE VIEW divided.recorded_bursts AS FROM received_parts('divided.received', 'divided.counted')",
)


class ResultFile(NamedTuple):
    """A file of a table; its rows have neither its date nor its rack."""

    path: Path
    date: str
    rack: str


def connect(
    files: Mapping[str, Sequence[ResultFile]],
    asked: tuple[int, int],
    inventory: pa.Table,
    divided: Iterable[tuple[str, str]] = (),
) -> duckdb.DuckDBPyConnection:
    """Returns a database with the tables FILES, each of one or more files (those of switch ports, `port_…`, and those
    near bursts, also of none); ASKED, the requested span of time (Unix ns); and INVENTORY (rack, host, service,
    address: VARCHAR; added_ns, removed_ns: BIGINT; each host once). For DIVIDED dates and racks, the files of
    `contention` have no row: it is computed from `bursts`, `coverage` and the tables of switch ports. The database
    reads FILES and nothing else."""
    connection = views.unlocked(bare(), {})
    connection.execute("CREATE TABLE defined.result_files (name VARCHAR, file VARCHAR, date VARCHAR, rack VARCHAR)")
    views.note_paths(connection, [str(file.path) for found in files.values() for file in found])
    named = {table: openable.names(connection, (str(file.path) for file in found)) for table, found in files.items()}
    listed = [
        (table, name, file.date, file.rack)
        for table, found in files.items()
        for name, file in zip(named[table], found, strict=True)
    ]
    connection.execute(
        "INSERT INTO defined.result_files SELECT unnest($1), unnest($2), unnest($3), unnest($4)",
        [list(column) for column in zip(*listed, strict=True)],
    )
    for table, found in files.items():
        view = "defined.contention" if table == "contention" else table
        rows = _rows_of(named[table]) if found else _no_near(table) if table in NEAR_TABLES else _no_port(table)
        connection.execute(f"CREATE VIEW {view} AS {rows}")
    _create_contention(connection, sorted(divided))
    connection.execute("CREATE TABLE asked (since_ns BIGINT, until_ns BIGINT)")
    connection.execute("INSERT INTO asked VALUES ($1, $2)", list(asked))
    connection.register("listed_hosts", inventory)
    connection.execute(
        "CREATE TABLE inventory AS SELECT rack, host, service, address, added_ns, removed_ns FROM listed_hosts"
    )
    connection.unregister("listed_hosts")
    lockdown.lock(connection)
    return connection


def near_tables(query: str) -> list[str]:
    """Returns those of NEAR_TABLES that QUERY, in SQL, reads. If QUERY cannot be parsed as one
    SELECT, such as PIVOT, they are those whose names are words of QUERY."""
    import duckdb

    with views.unlocked(bare(), {}) as connection:
        lockdown.lock(connection)
        try:
            found = connection.get_table_names(query)
        except duckdb.Error:  # also what needs the columns, such as JOIN USING
            found = _parsed_names(connection, query)
    read = {name.lower() for name in found}
    return [table for table in NEAR_TABLES if table in read]


def _parsed_names(connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
    """Returns the names of tables, and of WITH, that the parsed QUERY reads, or else all its words."""
    [(text,)] = connection.execute("SELECT CAST(json_serialize_sql($1) AS VARCHAR)", [query]).fetchall()
    parsed = json.loads(text)
    nodes, found = [parsed], set[str]()
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if node.get("error") is True or node.get("function_name") in _READING_BY_NAME:
                return set(re.findall(r"\w+", query))
            if node.get("type") == "BASE_TABLE":
                found.add(node["table_name"])
        nodes += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return found


@contextmanager
def of_rack(connection: duckdb.DuckDBPyConnection, rack: str) -> Iterator[None]:
    """Inside, the tables of a database of `connect` have only the rows of RACK, so that a question is answered as if
    there were no other rack. RACK has files, and `inventory` stays complete."""
    set_variables(connection, only_rack=rack)
    connection.execute("CREATE SCHEMA narrowed")
    try:
        listed = connection.execute(
            "SELECT name, list(file) FROM defined.result_files WHERE rack = getvariable('only_rack') GROUP BY name"
        ).fetchall()
        for table, names in listed:
            rows = _rows_of(names)
            if table == "contention":
                rows = f"FROM ({_contention(f'({rows})')}) WHERE rack = getvariable('only_rack')"
            connection.execute(f"CREATE TABLE narrowed.{table} AS {rows}")
        for (table,) in connection.execute(_PORT_TABLES).fetchall():
            connection.execute(f"CREATE TABLE IF NOT EXISTS narrowed.{table} AS FROM main.{table} WHERE false")
        connection.execute("USE narrowed")
        yield
    finally:
        connection.execute("USE main")
        connection.execute("DROP SCHEMA narrowed CASCADE")


def _no_port(table: str) -> str:
    """A SELECT without rows, with the columns that TABLE has for switch ports."""
    more = ", ".join(f"CAST(NULL AS VARCHAR) AS {column}" for column in ATTACHED)
    return f"SELECT *, {more} FROM {table.removeprefix('port_')} WHERE false"


def _no_near(table: str) -> str:
    """A SELECT without rows, with the columns of TABLE, the rows near bursts. Integers are signed, as in files."""
    wider = {"UINTEGER": "BIGINT", "USMALLINT": "INTEGER"}
    typed = {column.name: wider.get(column.type, column.type) for column in columns(table.removeprefix("port_"))}
    typed = {"date": "VARCHAR", "rack": "VARCHAR", **typed}
    return f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind in typed.items())} WHERE false"


def _rows_of(names: Iterable[str]) -> str:
    """A SELECT of the rows of files with NAMES (openable.py), with date and rack. These come from the table
    result_files and not from the path, since parent folders may have names of the same form."""
    files = openable.listed(names)
    return (
        "SELECT date, rack, rows.* EXCLUDE (filename) "
        f"FROM read_parquet({files}, hive_partitioning = false, filename = true, union_by_name = true) AS rows "
        "JOIN defined.result_files ON file = filename"
    )


def _contention(of_files: str) -> str:
    """A SELECT of the rows of contention in OF_FILES, and those of racks that are divided by host."""
    return (
        f"FROM {of_files} UNION ALL BY NAME "
        "SELECT strftime(make_timestamp_ns(hour_ns), '%Y-%m-%d') AS date, of.* FROM defined.divided_contention AS of "
        "SEMI JOIN divided.days ON of.rack = days.rack AND strftime(make_timestamp_ns(hour_ns), '%Y-%m-%d') = days.date"
    )


def _create_contention(connection: duckdb.DuckDBPyConnection, divided: list[tuple[str, str]]) -> None:
    """Create the view `contention`: the rows of the files, and those of the DIVIDED dates and racks."""
    connection.execute(
        "CREATE SCHEMA divided; CREATE TABLE divided.days (date VARCHAR, rack VARCHAR); CREATE TABLE "
        "defined.divided_contention (rack VARCHAR, hour_ns BIGINT, hosts INTEGER, bursting INTEGER, ns BIGINT)"
    )
    if divided:
        connection.executemany("INSERT INTO divided.days VALUES ($1, $2)", [list(of) for of in divided])
        for statement in _DIVIDED:
            connection.execute(statement)
        set_variables(connection, span_since_ns=0, span_until_ns=2**63 - 1)
        connection.execute("USE divided")
        connection.execute(f"INSERT INTO defined.divided_contention {partition_sql('contention')}")
        connection.execute("USE main")
    connection.execute(f"CREATE VIEW contention AS {_contention('defined.contention')}")
