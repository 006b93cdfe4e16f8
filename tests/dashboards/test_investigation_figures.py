"""Figures of an investigation: the worst time that is shown, and every path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mburst.dashboards.investigation import figures
from mburst.dashboards.investigation.timeline import SLICE_NS, worst_slice

S = 10**9
MET = st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 50)), min_size=1, max_size=30)


def evidence_of(latency: Any) -> Any:
    tail = SimpleNamespace(median_ns=0.0)
    return SimpleNamespace(delays=SimpleNamespace(total=np.asarray(latency, float)), tail=tail)


@given(MET)
def test_no_slice_has_more_lateness_than_the_worst(rows):
    met = np.array([ms * 1e6 for ms, _ in rows])
    late = np.array([float(late) for _, late in rows])
    begin, end = worst_slice(evidence_of(late), met)
    assert end - begin == SLICE_NS and begin >= met.min()
    shown = late[(met >= begin) & (met < end)].sum()
    assert shown == max(late[(met >= at) & (met < at + SLICE_NS)].sum() for at in met)


def test_lateness_across_a_multiple_of_two_seconds_is_shown_whole():
    met = np.array([0, 1.9, 2.1, 5.0]) * S
    begin, end = worst_slice(evidence_of([0, 30, 30, 40]), met)
    assert begin < 1.9 * S and end > 2.1 * S


def answer_of(paths: int, controls: int = 0) -> Any:
    latency = np.arange(1, 101) * 1e4
    found = [SimpleNamespace(evidence=SimpleNamespace(path=f"h{i} → cache", delays=SimpleNamespace(total=latency)))
             for i in range(paths)]  # fmt: skip
    others = [SimpleNamespace(path=f"c{i} → cache", total=latency) for i in range(controls)]
    return SimpleNamespace(findings=found, others=others)


@pytest.mark.parametrize(("paths", "controls"), [(1, 0), (5, 0), (5, 3), (18, 2)])
def test_every_path_has_its_distribution(paths, controls):
    figure = figures.distribution(answer_of(paths, controls))
    traces = figure.drawing["data"]
    assert len({trace["name"] for trace in traces}) == len(traces) == paths + controls
    looks = {(trace["line"]["color"], trace["line"]["dash"]) for trace in traces}
    assert len(looks) == len(traces), "each is distinct in the legend"
    assert " of " not in figure.title
    assert [name for *_, name in figure.legend] == [trace["name"] for trace in traces]


def test_paths_without_a_distribution_are_counted():
    figure = figures.distribution(answer_of(20, 4))
    assert len(figure.drawing["data"]) == figures.MOST_PATHS == 20
    assert figure.title.endswith(": 20 of 24 paths")
