"""Notes on what answers leave out because a store keeps less of older days (sql/compaction)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_heard: ContextVar[Callable[[str], None] | None] = ContextVar("heard", default=None)


@contextmanager
def noting(hear: Callable[[str], None]) -> Iterator[None]:
    """In this context, each different sentence of `note` is passed to HEAR once."""
    sentences: set[str] = set()

    def once(sentence: str) -> None:
        if sentence not in sentences:
            sentences.add(sentence)
            hear(sentence)

    token = _heard.set(once)
    try:
        yield
    finally:
        _heard.reset(token)


def note(sentence: str) -> None:
    """Note, in SENTENCE, that an answer leaves something out."""
    if hear := _heard.get():
        hear(sentence)


def midnight(ns: int) -> str:
    """The beginning of a day, as notes state it."""
    from ..units import format_time

    return f"{format_time(ns)[:19]} UTC"


def answered_since(connection: duckdb.DuckDBPyConnection, since_ns: int | None) -> int | None:
    """For use after bursts.sql with SINCE_NS: the time from which on it answered; None: from the first row."""
    [(answerable_ns,)] = connection.execute("SELECT getvariable('answerable_ns')").fetchall()
    return answerable_ns if since_ns is None else since_ns


def note_answerable(connection: duckdb.DuckDBPyConnection) -> None:
    """For use after bursts.sql: note the time from which on it answered, if it did not answer for all that is
    stored."""
    since_ns = answered_since(connection, None)
    if since_ns is not None:
        note(
            f"bursts before {midnight(since_ns)} are left out: the store was compacted, and not every burst of "
            "this definition is kept"
        )
