"""`mburst sql` reads only the store, and no other connection that mburst makes can do more."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from racklib import fill

from mburst import machine
from mburst.__main__ import main
from mburst.errors import UsageError
from mburst.machine import available_memory
from mburst.sql import StoreFolder, in_memory, lockdown, names
from mburst.sql.lockdown import check

# Statements that are not allowed. SECRET is a file beside the store, OUT one that must not be created.
STATEMENTS = [
    "COPY (SELECT 42) TO 'OUT'",
    "COPY bins FROM 'SECRET'",
    "EXPLAIN ANALYZE COPY (SELECT 42 AS x) TO 'OUT'",
    "EXPLAIN (FORMAT json) COPY (SELECT 42) TO 'OUT'",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 42) TO 'OUT'",
    "/* SELECT 1 */ explain /* SELECT */ analyze copy (SELECT 42) to 'OUT'",
    "EXPLAIN SELECT 1; EXPLAIN ANALYZE COPY (SELECT 1) TO 'OUT'",
    "PREPARE p AS COPY (SELECT 42 AS x) TO 'OUT'; EXECUTE p",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "PRAGMA enable_profiling='json'",
    "PRAGMA database_list",
    "SET profiling_output='OUT'",
    "SET log_query_path='OUT'",
    "SET variable_name='OUT'",
    "SET autoinstall_known_extensions=true",
    "SET enable_external_access=true",
    "SET allowed_paths=['SECRET']",
    "SET GLOBAL temp_directory='OUT'",
    "RESET lock_configuration",
    "USE main",
    "CALL enable_logging(storage='file', storage_config={'path': 'OUT'})",
    "CALL pragma_version()",
    "CHECKPOINT",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE MACRO m() AS 1",
    "INSERT INTO quality VALUES (1, 'a', 'b')",
    "UPDATE quality SET name = 'x'",
    "DELETE FROM quality",
    "DROP VIEW bins",
    "ALTER VIEW bins RENAME TO b",
    "COMMENT ON VIEW bins IS 'x'",
    "ATTACH 'OUT'",
    "ATTACH 'OUT' AS o (TYPE duckdb)",
    "DETACH memory",
    "EXPORT DATABASE 'OUT'",
    "IMPORT DATABASE 'SECRET'",
    "INSTALL httpfs",
    "LOAD 'SECRET'",
    "UPDATE EXTENSIONS",
    "VACUUM",
    "ANALYZE",
    "BEGIN",
    "SELECT 1; COPY (SELECT 42) TO 'OUT'",
]

# SELECTs that would read or write something else: the database refuses them, independently of the check of statements.
LEADS_OUT = [
    "SELECT * FROM read_text('SECRET')",
    "SELECT * FROM read_blob('SECRET')",
    "SELECT * FROM read_csv('SECRET')",
    "SELECT * FROM read_csv_auto('SECRET')",
    "SELECT * FROM read_json('SECRET')",
    "SELECT * FROM read_json_objects('SECRET')",
    "SELECT * FROM read_ndjson('SECRET')",
    "SELECT * FROM read_parquet('SECRET')",
    "SELECT * FROM parquet_metadata('SECRET')",
    "SELECT * FROM parquet_schema('SECRET')",
    "SELECT * FROM parquet_file_metadata('SECRET')",
    "SELECT * FROM sniff_csv('SECRET')",
    "SELECT * FROM read_duckdb('SECRET')",
    "FROM 'SECRET'",
    "FROM 'SECRET.csv'",
    "FROM 'https://127.0.0.1:PORT/x.csv'",
    "SELECT * FROM read_text('http://127.0.0.1:PORT/x')",
    "FROM glob('/*')",
    "FROM glob('FOLDER/*')",
    "FROM query('COPY (SELECT 42) TO ''OUT''')",
    "FROM query_table('SECRET')",
    "EXPLAIN ANALYZE SELECT * FROM read_text('SECRET')",
    "SET VARIABLE x = (SELECT content FROM read_text('SECRET'))",
    "FROM enable_logging(storage='file', storage_config={'path': 'OUT'})",
    "FROM enable_profiling(save_location='OUT')",
    "FROM profile_output_of_python",
    "FROM query(concat('SELECT * FROM read_te', 'xt(''SECRET'')'))",
    "FROM query_table('SECRET.csv')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT content FROM read_text(''SECRET'')'))",
    "SELECT (SELECT content FROM read_text('SECRET'))",
    "/* x */ FROM\u00a0read_text('SECRET')",
    "FROM U&\"read\\005Ftext\"('SECRET')",
    "FROM read_single_csv_file('SECRET')",
    "FROM read_single_json_file('SECRET')",
    "FROM read_single_parquet_file('SECRET')",
    "FROM parquet_full_metadata('SECRET')",
    "FROM parquet_kv_metadata('SECRET')",
    "FROM parquet_bloom_probe('SECRET', 'a', 1)",
    "FROM read_text('file://SECRET')",
    "FROM read_text('.tmp/secret')",
    "FROM read_text('/proc/self/environ')",
    "FROM read_text(['SECRET'])",
    "FROM read_blob('SEC*')",
    "SELECT getenv('PATH')",
    "FROM duckdb_secrets()",
    "FROM which_secret('SECRET', 'file')",
    "FROM duckdb_extensions()",
    "SELECT load_aws_credentials()",
    "FROM arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)",
    "FROM python_arrow_scan(1, 2, 3)",
    "FROM create_external_resource('a')",
    "FROM register_external_resource('a', 'SECRET', MAP {}, 'a', 'a', 'a')",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> StoreFolder:
    made = StoreFolder.create(tmp_path_factory.mktemp("lockdown") / "store")
    fill(made, {"a": [(50, 10)]})
    return made


@pytest.fixture(scope="module")
def connected(store):
    """A connection for tests that change nothing in it."""
    with store.connect() as con:
        yield con


def sealed(store: StoreFolder) -> Path:
    return next(path for path in store.path.rglob("*.parquet") if "bins" in path.parts)


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """The values of the placeholders in the statements. A socket listens on the port."""
    secret = tmp_path / "secret"
    secret.write_text("a,b\nprecious,1\n")
    (tmp_path / "secret.csv").write_text("a,b\nprecious,1\n")
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "secret").write_text("a,b\nprecious,1\n")
    return {"SECRET": str(secret), "OUT": str(tmp_path / "out"), "FOLDER": str(tmp_path)}


def filled(query: str, outside: dict[str, str]) -> str:
    for name, value in outside.items():
        query = query.replace(name, value)
    return query


@pytest.mark.parametrize("query", STATEMENTS)
def test_statements_that_do_not_read_are_refused(connected, outside, tmp_path, query):
    before = sorted(tmp_path.iterdir())
    try:
        check(connected, filled(query, outside))
    except UsageError as error:
        assert "is not allowed: a query only reads" in str(error)
    except duckdb.ParserException:
        pass  # a statement that this version of DuckDB does not know
    else:
        pytest.fail("allowed")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("query", STATEMENTS)
def test_the_database_itself_refuses_other_statements(store, outside, tmp_path, monkeypatch, query):
    with store.connect() as con:
        leads_nowhere(con, query, outside, tmp_path, monkeypatch)


@pytest.mark.parametrize("query", LEADS_OUT)
def test_the_database_itself_reads_nothing_else(connected, outside, tmp_path, monkeypatch, query):
    with connected.cursor() as con:
        leads_nowhere(con, query, outside, tmp_path, monkeypatch)
        assert con.execute("SELECT count(*) > 0 FROM bins").fetchone() == (True,)


def leads_nowhere(con, query, outside, tmp_path, monkeypatch):
    """Executes a statement unchecked: if it is not refused, it changes no file, reveals none, and connects to
    nothing."""
    monkeypatch.chdir(tmp_path)
    profile_output_of_python = __import__("pyarrow").table({"precious": [1]})  # not found by its name
    before = contents(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        query = filled(query, {**outside, "PORT": str(server.getsockname()[1])})
        try:
            rows = con.execute(query).fetchall()
        except duckdb.Error:
            rows = []
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "precious" not in str(rows) and str(tmp_path) not in str(rows)
    assert contents(tmp_path) == before
    assert profile_output_of_python.num_rows == 1


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ask(store: StoreFolder, query: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mburst", "sql", str(store.path), query]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("query", [LEADS_OUT[0], LEADS_OUT[15], LEADS_OUT[-1], STATEMENTS[2], STATEMENTS[8]])
def test_the_verb_refuses_them_in_one_line(store, outside, query):
    done = ask(store, filled(query, {**outside, "PORT": "9"}))
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and done.stderr.startswith("mburst: ")
    assert "precious" not in done.stdout + done.stderr


def test_an_output_that_cannot_encode_a_letter_is_refused(store):
    done = subprocess.run(
        [sys.executable, "-m", "mburst", "sql", str(store.path), "SELECT 'é'"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "mburst: an output in ascii cannot have '\\xe9' (set PYTHONIOENCODING=utf-8)\n"


def test_a_segment_is_never_written(store):
    path, before = sealed(store), sealed(store).read_bytes()
    for how in ("(FORMAT parquet, USE_TMP_FILE false)", ""):
        done = ask(store, f"COPY (SELECT 42) TO '{path}' {how}")
        assert done.returncode == 2 and "COPY is not allowed" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("query", [
    "SELECT count(*) FROM bins",
    "FROM bins LIMIT 1",
    "WITH b AS (FROM bins) SELECT count(*) FROM b",
    "DESCRIBE bins",
    "SHOW TABLES",
    "SUMMARIZE bins",
    "VALUES (1)",
    "PIVOT (SELECT host, packets FROM bins) ON host USING sum(packets)",
    "EXPLAIN SELECT count(*) FROM bins",
    "EXPLAIN ANALYZE SELECT count(*) FROM bins",
    "EXPLAIN (FORMAT json) SELECT count(*) FROM bins",
    "SET VARIABLE wanted = 'a'; SELECT count(*) FROM bins WHERE host = getvariable('wanted')",
    "-- a comment\nset  variable x = 1; select getvariable('x')",
])  # fmt: skip
def test_questions_are_answered(connected, query):
    for statement in check(connected, query):
        rows = connected.execute(statement).fetchall()
    assert rows


@pytest.mark.parametrize("name", names())
def test_named_queries_are_answered(store, name):
    done = ask(store, name)
    assert done.returncode == 0, done.stderr


def test_a_store_is_read_by_a_link_a_relative_path_and_an_odd_name(store, tmp_path, monkeypatch):
    (tmp_path / 'it\'s a "link", [*]').symlink_to(store.path)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / 'it\'s a "link", [*]', Path('it\'s a "link", [*]'), Path(os.path.relpath(store.path))):
        with StoreFolder.open(path).connect() as con:
            assert con.execute("SELECT count(*) FROM bins").fetchone()[0] > 0


def test_large_sorts_use_the_disk_if_memory_is_short(store, tmp_path, monkeypatch):
    """A query may use temporary files of the database in addition to the store."""
    monkeypatch.chdir(tmp_path)
    with store.connect() as con:
        rows = con.execute("SELECT count(*) FROM (SELECT DISTINCT i * 7 % 1000003 FROM range(1000000) t(i))").fetchone()
    assert rows == (1000000,)


def test_the_memory_of_a_query_is_limited(store, tmp_path, monkeypatch, capsys):
    """The test lowers the limit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lockdown, "limits", lambda: {"memory_limit": "60MB"})
    assert main(["sql", str(store.path), "SELECT len(list(md5(i::VARCHAR))) FROM range(2000000) t(i)"]) == 1
    assert_refused(tmp_path, capsys)


def test_the_temporary_files_of_a_query_are_limited(store, tmp_path, monkeypatch, capsys):
    """The same query is answered with a higher limit."""
    rows = "(SELECT md5(i::VARCHAR) || md5((i + 1)::VARCHAR) m FROM range(600000) t(i))"
    question = f"SELECT m FROM {rows} ORDER BY m LIMIT 1 OFFSET 550000"
    monkeypatch.chdir(tmp_path)
    for disk, code in (("1GB", 0), ("100KB", 1)):
        bounds = {"memory_limit": "30MB", "max_temp_directory_size": disk}
        monkeypatch.setattr(lockdown, "limits", lambda bounds=bounds: bounds)
        assert main(["sql", str(store.path), question]) == code
    assert_refused(tmp_path, capsys)


def assert_refused(folder: Path, capsys) -> None:
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Out of Memory" in error and "(query less at a time)" in error
    gc.collect()  # on Python 3.13 the failure holds the connection, which a process of its own closes as it ends
    assert list(folder.iterdir()) == []


def test_limits_are_shares_of_free_memory_and_disk(store):
    memory, disk = available_memory(), shutil.disk_usage(".").free
    with store.connect() as con:
        names = ("memory_limit", "max_temp_directory_size")
        found = [con.execute(f"SELECT current_setting('{name}')").fetchone()[0].split() for name in names]
    most_memory, most_disk = (float(number) * 2 ** (10 * " KMGT".index(unit[0])) for number, unit in found)
    assert 0.3 * memory < most_memory < 0.8 * memory and 0.3 * disk < most_disk < 0.7 * disk


def in_a_removed_folder(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "gone").mkdir()
    goes = f'cd {tmp_path}/gone; rmdir {tmp_path}/gone; exec "$@"'
    command = ["sh", "-c", goes, "sh", sys.executable, "-m", "mburst", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (["sql", "STORE", "SELECT 42"], 0, "42"),
        (["bursts", "STORE"], 0, "1 burst in 1 d"),
        (["check", "STORE"], 0, "sound"),
        (["compact", "STORE"], 0, "the store takes"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_commands_work_in_a_folder_that_was_removed(store, tmp_path, words, code, output):
    """Only data that does not fit into memory has no place then."""
    done = in_a_removed_folder(tmp_path, *(str(store.path) if word == "STORE" else word for word in words))
    assert done.returncode == code and output in done.stdout, done


def test_a_path_in_a_folder_that_was_removed_is_named(store, tmp_path):
    done = in_a_removed_folder(tmp_path, "ship", str(store.path), "target")
    assert done.returncode == 1 and done.stderr.startswith("mburst: the current folder was removed (")


def test_a_database_prints_nothing(store):
    """DuckDB draws a progress bar on standard output if Python runs no script: in notebooks, and with -c."""
    ask = "execute(\"SELECT current_setting('enable_progress_bar')\").fetchall()"
    opened = f"from mburst.sql import StoreFolder; opened = StoreFolder.open({str(store.path)!r})"
    program = f"import duckdb; {opened}; print(duckdb.connect().{ask}, opened.connect().{ask})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[(True,)] [(False,)]\n", done


def test_a_machine_that_hides_its_memory_gets_a_default(monkeypatch):
    monkeypatch.setattr(machine, "MEMORY", Path("/nonexistent"))
    assert available_memory() > 100_000_000


# Runs a command line with little free memory.
SHORT_OF_MEMORY = """
import sys
from mburst import machine
free = int(sys.argv.pop(1))
machine.available_memory = lambda: free
from mburst.__main__ import command
sys.exit(command())
"""


@pytest.mark.parametrize(("query", "option", "error"), [
    ("SELECT length(repeat('x', 2000000000))", "--csv", "takes more than 640 MB of memory (query less at a time)"),
    ("SELECT len(range(200000000))", "--csv", "takes more than 640 MB of memory"),
    ("SELECT count(*) FROM range(1000000000000) t(i)", "--timeout=100ms", "took longer than 100 ms (query less at"),
    ("FROM range(1000000000000) t(i)", "--timeout=2s", "took longer than 2 s (query less at a time, or give"),
])  # fmt: skip
def test_a_query_ends_at_its_limits(store, tmp_path, query, option, error):
    """The limits are of memory, even if a single function allocates all of it, and of time. No file of the query is
    left."""
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, "800000000", "sql", option, str(store.path), query],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and f"mburst: the query {error}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_a_store_opens_nothing(outside):
    con = in_memory()
    with pytest.raises(duckdb.Error):
        con.execute(f"FROM read_text('{outside['SECRET']}')")
    with pytest.raises(duckdb.Error, match="lock"):
        con.execute("SET enable_external_access = true")
