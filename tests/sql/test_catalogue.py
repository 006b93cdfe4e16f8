"""A database that was copied from a kept catalogue equals one that was made from SQL."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mburst.sql import catalogue, views
from mburst.sql.catalogue import Catalogue

BOTH = pytest.mark.parametrize("of", [catalogue.bare, catalogue.of_store], ids=["bare", "store"])
CONTENTS = (  # of views and macros only the words: DuckDB prints what follows REPLACE in any order
    "SELECT schema_name, view_name, list_sort(regexp_extract_all(sql, '\\w+')) FROM duckdb_views() WHERE NOT internal",
    "SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
    "WHERE NOT internal",
    "SELECT function_name, parameters::VARCHAR, list_sort(regexp_extract_all(macro_definition, '\\w+')) "
    "FROM duckdb_functions() WHERE NOT internal",
    "FROM quality",
    "SELECT count(*) FROM defined.bins",
    "SELECT database_name FROM duckdb_databases()",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the test keeps catalogues."""
    kept = tmp_path / "it's kept"
    monkeypatch.setattr(importlib.util, "cache_from_source", lambda _: str(kept / "catalogue.pyc"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    catalogue.bare.cache_clear()
    catalogue.of_store.cache_clear()
    yield kept
    catalogue.bare.cache_clear()
    catalogue.of_store.cache_clear()


def contents(of: Catalogue) -> list[Any]:
    with duckdb.connect() as con:
        of.put(con)
        return [sorted(con.execute(question).fetchall(), key=repr) for question in CONTENTS]


def made(of: Catalogue) -> list[Any]:
    """Returns the same contents of a database that was made from SQL."""
    with duckdb.connect() as con:
        of._make(con)
        return [sorted(con.execute(question).fetchall(), key=repr) for question in CONTENTS]


@BOTH
def test_a_copied_database_equals_one_made_from_sql(of: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = made(of())
    assert all(expected[1:]), "a question of this test finds nothing"
    assert bool(expected[0]) == (of is catalogue.of_store)
    assert contents(of()) == expected
    assert [path.name for path in folder.iterdir()] == [of().kept.path.name]
    monkeypatch.setattr(Catalogue, "_make", None)  # from here on it is copied
    assert contents(of()) == expected


def test_a_damaged_catalogue_is_made_again(folder: Path) -> None:
    of = catalogue.bare()
    expected = contents(of)
    whole = of.kept.path.read_bytes()
    damaged = [whole[:size] for size in (0, 1, 4096, len(whole) // 2, len(whole) - 1)]
    damaged += [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :] for at in range(9, len(whole), 40_009)]
    damaged.append(os.urandom(len(whole)))
    for content in damaged:
        of.kept.path.write_bytes(content)
        assert contents(of) == expected
    assert contents(of) == expected
    assert len(list(folder.iterdir())) == 1


@BOTH
def test_nothing_is_kept_if_bytecode_is_not_kept(of: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert contents(of()) == made(of())
    assert not folder.exists()


@pytest.mark.parametrize("hindrance", ["no folder can be made", "a folder is in its place", "no disk is left"])
def test_nothing_is_kept_if_it_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch, hindrance: str) -> None:
    of = catalogue.bare()
    if hindrance == "no folder can be made":
        folder.write_text("a file")
    elif hindrance == "a folder is in its place":
        of.kept.path.mkdir(parents=True)
    else:

        def full(*_: object) -> None:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(Path, "replace", full)
    assert contents(of) == made(of)
    assert not [path for path in folder.glob("*") if path != of.kept.path]


FEW = """
import os, resource, sys
from mburst.sql import catalogue
import duckdb
duckdb.connect().close()
made = catalogue.bare()
for spare in range(24):
    child = os.fork()
    if not child:
        least = os.open(os.devnull, os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NOFILE, (least + spare, least + spare))
        made.keep()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), made.kept.path.exists())
"""


def test_nothing_is_kept_if_few_files_may_be_opened(tmp_path: Path) -> None:
    """DuckDB ends a process that cannot open all files of a database that it creates."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPYCACHEPREFIX": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FEW], env=environment, capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    assert {code for code, _ in found} == {"0"}, done.stderr
    assert found[0][1] == "False" and found[-1][1] == "True"


def test_another_version_replaces_the_kept_catalogue(folder: Path) -> None:
    """The name of a catalogue depends on its SQL, so that no database has outdated SQL. Catalogues of older SQL are
    removed."""
    old = Catalogue("bare", [*catalogue.bare().texts, "CREATE MACRO of_an_older_version() AS 1"])
    contents(old)
    foreign = folder / "bare.duckdb-0.1.0.0123456789abcdef"
    foreign.write_bytes(b"of another DuckDB, whose environment may share this package")
    assert contents(catalogue.bare()) == made(catalogue.bare())
    assert sorted(folder.iterdir()) == sorted([catalogue.bare().kept.path, foreign])
    assert old.kept.path.name != catalogue.bare().kept.path.name


def test_processes_that_keep_a_catalogue_at_once(tmp_path: Path) -> None:
    """Each process has a database, and one file is left."""
    package = Path(views.__file__).parents[1]
    text = (
        "import sys; from mburst.sql import in_memory\n"
        "for _ in range(3): print(in_memory().execute('SELECT count(*) FROM recordings').fetchall())"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(package.parent)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", text]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in started] == ["[(0,)]\n" * 3] * 4
    assert len(list(tmp_path.rglob("*.duckdb-*"))) == 1
    shutil.rmtree(tmp_path)
