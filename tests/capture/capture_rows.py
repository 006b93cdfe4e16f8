"""Reads the rows of a capture, for tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mburst.capture import Capture

pa.table({})  # Arrow imports pandas with its first table: half a second in which no packets would be read


def read_rows(capture: Capture) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns all rows of bins and of senders."""
    bins, senders = [], []
    while (rows := capture.read()) is not None:
        bins += pa.table(rows[0]).to_pylist()
        senders += pa.table(rows[1]).to_pylist()
    return bins, senders
