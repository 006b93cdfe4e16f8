"""An investigation holds each bin and probe of its time in memory, and is refused if memory is too small for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from latency_cases import Setting, build
from latency_store import store_case

from mburst.__main__ import main
from mburst.analysis.answers import memory
from mburst.analysis.answers.memory import BIN_BYTES, PROBE_BYTES, hold_to_memory
from mburst.errors import MburstError

DAY_NS = 86_400 * 10**9


def test_a_year_of_the_finest_bins_is_refused() -> None:
    run = {"first_ns": 0, "end_ns": 365 * DAY_NS, "bin_ns": 10_000}
    with pytest.raises(MburstError, match=r"^3,153,600,000,000 bins and 0 probes take 37\.8 TB of memory"):
        hold_to_memory([[run]], 0, (0, 365 * DAY_NS))


@pytest.mark.parametrize(("bins", "probes"), [(0, 0), (1000, 0), (0, 1000), (1000, 1000)])
def test_an_investigation_that_just_fits_is_allowed(bins: int, probes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(free: float) -> None:
        monkeypatch.setattr(memory, "available_memory", lambda: free)
        stretches = [{"first_ns": 5, "end_ns": 5 + half * 10_000, "bin_ns": 10_000} for half in (bins // 2, bins // 2)]
        hold_to_memory([stretches[:1], stretches[1:]], probes, (0, DAY_NS))

    needed = (bins * BIN_BYTES + probes * PROBE_BYTES) / memory.SHARE
    hold(needed + 2)
    if needed:
        with pytest.raises(MburstError):
            hold(needed - 2)


def test_the_time_that_the_error_suggests_is_investigated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_case(tmp_path / "store", build("incast", 4, Setting(seconds=8))).path
    monkeypatch.setattr(memory, "available_memory", lambda: 2_000_000)
    assert main(["investigate", str(store)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "bins" in said
    [since] = re.findall(r"--since (\d+s)", said)
    for _ in range(8):
        if main(["investigate", str(store), "--since", since]) == 0:
            break
        [since] = re.findall(r"--since (\d+s)", capsys.readouterr().err)
    assert "cause" in capsys.readouterr().out.lower()
