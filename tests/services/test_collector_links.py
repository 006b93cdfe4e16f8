"""The configured links are written repeatedly, so that each part of a store with windows also has their links."""

from __future__ import annotations

import pytest
from gnmilib import collect, query

from mburst.services import collector

TEXT = """
targets: {a: {address: "127.0.0.1:9", insecure: true}}
subscriptions: {all: {paths: [/qos], mode: stream, stream-mode: on-change}}
mburst: {links: [{device: a, port: p1, host: h, rack: r1}, {device: a, port: p2, host: g, rack: r2}]}
"""


def test_configured_links_are_repeated(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Each link is written each time, and a repeated link names the same batch as before."""
    monkeypatch.setattr(collector, "LINKS_S", 0.2)

    def until(found: collector.Collector) -> bool:
        return found.writing.written >= 4

    collect(tmp_path, TEXT, until)
    found = query(
        tmp_path, "SELECT port, count(DISTINCT ts_ns) > 1, count(DISTINCT batch) FROM links GROUP BY port ORDER BY 1"
    )
    assert found == [("p1", True, 1), ("p2", True, 1)]
