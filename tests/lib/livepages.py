"""Pages of the live view over a store, recorded or growing, and what a page draws in a time."""

from __future__ import annotations

import time

import pytest
from livereader import LiveReader, day_of
from livestore import SECOND, Growing, Server, filled


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A server over a store without a current recording: the store of the report's tests."""
    store = filled(tmp_path_factory.mktemp("live") / "store")
    server = Server(store.path)
    yield server
    server.stop()


@pytest.fixture
def growing(tmp_path):
    """A store to which the test appends, beginning now, and its server."""
    store = Growing(tmp_path / "store", time.time_ns() // SECOND * SECOND)
    store.append([84] * 100)
    server = Server(tmp_path / "store")
    yield store, server
    server.stop()
    store.close()


@pytest.fixture
def open_page(browser):
    opened = []

    def opener(url, **context):
        opened.append(LiveReader(browser, url, **context))
        return opened[-1]

    yield opener
    for reader in opened:
        reader.context.close()


def steps_between(trace, begin: float, end: float):
    """The values of a step line anywhere in [begin, end) seconds."""
    x, y = trace
    return [v for a, b, v in zip(x, [*x[1:], x[-1]], y, strict=True) if v is not None and a < end and b > begin]


def seconds(ns: int) -> float:
    return (ns - day_of(ns)) / 1e9


def view_range(reader):
    return [ns / 1e9 for ns in reader.page.evaluate("view.current()")]
