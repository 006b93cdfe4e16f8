"""`mburst record` at a terminal that is stopped (Ctrl-S): it records on, and ends as at any other."""

from __future__ import annotations

import json
import signal

import pytest
from liverecording import begin_recording, send, store
from unread import unread
from waiting import wait_for

from mburst.sql import StoreFolder

__all__ = ["store"]
ROUND = 1000


@pytest.mark.parametrize(
    ("arguments", "number", "code"),
    [
        (["--backend", "afpacket"], signal.SIGTERM, 0),
        (["--backend", "afpacket"], signal.SIGINT, 130),
        (["--backend", "ebpf"], signal.SIGTERM, 0),
        (["lo", "--backend", "afpacket"], signal.SIGHUP, 0),  # several interfaces
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_stopped_terminal_stops_no_recording(lab, sender, store, arguments, number, code):
    """The status line, which is written twice a second, cannot be written. No packet is dropped."""

    def stored() -> int:
        question = "SELECT coalesce(sum(packets), 0) FROM bins WHERE interface = ? AND direction = 'in'"
        [(packets,)] = folder.connect().execute(question, [lab.b]).fetchall()
        return packets

    def send_until_stored() -> None:
        before = stored()
        send(lab, sender, ROUND, rate=10_000)
        wait_for(lambda: stored() >= before + ROUND or process.poll() is not None, "a stored round", 30)

    folder = StoreFolder.create(store)
    with unread("terminal") as terminal:
        process = begin_recording(lab, store, lab.b, *arguments, "--json", "--link", "1G", errors=terminal.descriptor)
        try:
            wait_for(lambda: stored() or send(lab, sender, 10) or process.poll() is not None, "the first packet")
            for _ in range(4):
                send_until_stored()
            process.send_signal(number)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == code
    rows = [json.loads(line) for line in output.splitlines()]
    [row] = [row for row in rows if row["interface"] == lab.b and row["direction"] == "in"]
    assert (row["ended"], row["dropped"]) == ("stopped", 0) and row["packets"] >= 4 * ROUND
    assert f"ended by {number.name}" in row["notes"].splitlines() and stored() == row["packets"]
