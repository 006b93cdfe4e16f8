"""The thread that stores in the background: order, bound, failure, and that each item is either stored or refused."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.services.background import BackgroundWriter


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 100), st.sampled_from([0.0, 0.001]))
def test_what_fits_is_stored_in_order_and_the_rest_refused(weights, most, gather_s):
    """With a store that is stalled from its first item on until all was handed over."""
    stored: list[tuple[int, int]] = []
    begun, go = threading.Event(), threading.Event()

    def store(items: list[tuple[int, int]]) -> None:
        assert items
        begun.set()
        go.wait()
        stored.extend(items)

    writer: BackgroundWriter[tuple[int, int]] = BackgroundWriter("test", store, most, gather_s=gather_s)
    expected, waiting = [], 0
    for item in enumerate(weights):
        fits = not waiting or waiting + item[1] <= most
        assert writer.hand(item, item[1]) == fits
        if fits:
            waiting += item[1]
            expected.append(item)
        assert writer.waiting == waiting
    go.set()
    writer.close()
    assert stored == expected and writer.waiting == 0


def test_a_mandatory_item_always_fits():
    go, stored = threading.Event(), []
    writer: BackgroundWriter[int] = BackgroundWriter("test", lambda items: (go.wait(), stored.extend(items)), 1)
    assert [writer.hand(1, 5), writer.hand(2, 5), writer.hand(3, 5, always=True)] == [True, False, True]
    go.set()
    writer.close()
    assert stored == [1, 3]


def test_a_failure_is_reported_once_and_raised_at_the_end():
    calls, failed, begun = [], [], threading.Event()

    def store(items: list[int]) -> None:
        calls.append(items)
        begun.wait()
        raise OSError("no room")

    writer: BackgroundWriter[int] = BackgroundWriter("test", store, 100, lambda: failed.append(writer.failure))
    for item in range(20):
        writer.hand(item, 1)
    begun.set()
    with pytest.raises(OSError, match="no room"):
        writer.close()
    assert len(calls) == 1 and len(failed) == 1 and isinstance(failed[0], OSError) and writer.waiting == 0
