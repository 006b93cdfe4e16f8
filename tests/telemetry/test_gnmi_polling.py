"""Subscriptions that are not streams: those that gnmic polls are repeated, those that are `once` end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from gnmilib import SYNC, Target, collect, heard, notification, query, updated

OCTETS = "/interfaces/interface[name=e1]/state/counters/in-octets"
NEIGHBOUR = "/lldp/interfaces/interface[name=e1]/neighbors/neighbor[id={}]/state/system-name"


def configured(target: Target, mode: str, more: str = "") -> str:
    return (f'targets: {{a: {{address: "127.0.0.1:{target.port}", insecure: true, timeout: 60s}}}}\n'
            f"subscriptions: {{p: {{paths: [/interfaces, /lldp], mode: {mode}{more}}}}}\n")  # fmt: skip


def asked(target: Target) -> int:
    return len(target.requests)


class Answers:
    """A device that counts 1000 bytes between two requests, and loses a neighbour after the second."""

    def __init__(self, ends: bool) -> None:
        self.ends, self.times = ends, 0

    async def __call__(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.times += 1
        near = {NEIGHBOUR.format(name): name for name in ("cache-1", "cache-2")[: 2 if self.times <= 2 else 1]}
        yield updated(notification(time.time_ns(), {OCTETS: 1000 * self.times, **near}))
        yield SYNC
        if not self.ends:
            await asyncio.Event().wait()


@pytest.mark.parametrize("ends", [True, False], ids=["ends the call", "leaves the call open"])
def test_a_poll_is_repeated_without_gaps(tmp_path, ends):
    with Target(Answers(ends)) as target:
        printed = collect(tmp_path, configured(target, "poll", ", sample-interval: 50ms"), lambda _: asked(target) >= 6)
        modes = {request.subscribe.mode for request in target.requests}
    assert printed == [] and modes == {1}  # ONCE
    rows = query(tmp_path, "SELECT in_bytes, quality FROM ports WHERE in_bytes IS NOT NULL")
    assert len(rows) >= 4 and set(rows) == {(1000, 0)}
    kinds = dict(query(tmp_path, "SELECT event, count(*) FROM gnmi_events GROUP BY event"))
    assert kinds["connect"] == kinds["disconnect"] == 1 and "gap" not in kinds
    links = query(tmp_path, "SELECT host, arg_max(present, ts_ns) FROM links GROUP BY host ORDER BY host")
    assert links == [("cache-1", True), ("cache-2", False)]


def test_an_unanswered_poll_is_a_gap(tmp_path):
    answers = Answers(ends=True)

    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        if answers.times == 2 and not state.get("refused"):
            state["refused"] = True
            import grpc

            await context.abort(grpc.StatusCode.INTERNAL, "busy")
        async for made in answers(request, context):
            yield made

    state: dict[str, bool] = {}
    with Target(script) as target:
        printed = collect(tmp_path, configured(target, "poll", ", sample-interval: 50ms"),
                       lambda collector: heard(collector, "a") >= 8)  # fmt: skip
    assert printed == ["a: p: busy", "a: p: receives again"]
    assert query(tmp_path, "SELECT count(*) FROM gnmi_events WHERE event = 'gap'") == [(1,)]
    assert query(tmp_path, "SELECT sum(in_bytes) % 1000 FROM ports") == [(0,)]


@pytest.mark.parametrize("ends", [True, False], ids=["ends the call", "leaves the call open"])
def test_a_collection_with_mode_once_ends_by_itself(tmp_path, ends):
    with Target(Answers(ends)) as target:
        assert collect(tmp_path, configured(target, "once"), lambda _: False) == []
        assert asked(target) == 1
    assert query(tmp_path, "SELECT count(*) FROM links") == [(2,)]
