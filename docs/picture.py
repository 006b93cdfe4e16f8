"""Draws docs/cache-server.svg from the store that `mburst demo --simulate` leaves: python docs/picture.py demo/store

Three seconds of the demo's incast: what a monitoring system shows (the average of each second), what mburst shows (each
millisecond), and the round trips of probes through the same port. Every point is a stored row; nothing is smoothed.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

from mburst.sql import StoreFolder

PICTURE = Path(__file__).parent / "cache-server.svg"
SECONDS = 3
LEFT, WIDTH = 64, 720  # pixels; the vertical axes are percent of line rate, and milliseconds
LOAD_TOP, LOAD_PX = 66, 1.4  # a pixel of each percent
DELAY_TOP, DELAY_PX, DELAY_MS = 262, 3.5, 40

LOAD = """
SELECT (ts_ns - first_ns) // $width AS slot, sum(wire_bytes) * 8e9 / $width / any_value(link_bps) AS utilization
FROM bins JOIN (SELECT recording_id, link_bps, start_ns // 1000000000 * 1000000000 AS first_ns FROM recordings
    WHERE direction = 'in')
USING (recording_id) WHERE ts_ns >= first_ns AND ts_ns < first_ns + $span GROUP BY slot ORDER BY slot
"""
DELAY = """
SELECT (tx_ns - first_ns) // 1000000 AS slot, max(rx_ns - tx_ns) / 1e6 AS delay
FROM probes, (SELECT start_ns // 1000000000 * 1000000000 AS first_ns FROM recordings WHERE direction = 'in')
WHERE NOT lost AND tx_ns >= first_ns AND tx_ns < first_ns + $span GROUP BY slot ORDER BY slot
"""
Points = list[tuple[int, float]]


def read(store: str) -> tuple[Points, Points, Points]:
    """Utilization per second and per millisecond (both in the bins' order), and the largest delay per millisecond."""
    with StoreFolder.open(store).connect() as connection:
        span = SECONDS * 10**9
        seconds, load = (
            connection.execute(LOAD, {"width": width, "span": span}).fetchall() for width in (10**9, 10**6)
        )
        return seconds, load, connection.execute(DELAY, {"span": span}).fetchall()


def steps(points: Points) -> str:
    """A path of one step a millisecond, in units of 1 ms and 1 %; milliseconds without a row are zero."""
    level = dict.fromkeys(range(SECONDS * 1000), 0) | {at: round(100 * value) for at, value in points}
    turns = [0, *(at for at in range(1, len(level)) if level[at] != level[at - 1]), len(level)]
    return f"M0 0V{-level[0]}" + "".join(
        f"h{end - start}" + (f"V{-level[end]}" if end in level else "V0") for start, end in pairwise(turns)
    )


def line(points: Points) -> str:
    """A path from point to point, in units of 1 ms and 0.1 ms. Points on a level line are left out."""
    tenths = [(at, round(10 * value)) for at, value in points]
    kept = [
        here
        for before, here, after in zip([(-1, -1), *tenths], tenths, [*tenths[1:], (-1, -1)], strict=False)
        if not before[1] == here[1] == after[1]
    ]
    return "M" + "L".join(f"{at} {-value}" for at, value in kept)


def axis(top: float, scale: float, marks: list[int], unit: str) -> str:
    """Level lines with their numbers."""
    bottom = top + scale * marks[-1]
    return "".join(
        f'<path class="grid" d="M{LEFT} {bottom - scale * mark:g}h{WIDTH}"/>'
        f'<text class="end" x="{LEFT - 8}" y="{bottom - scale * mark + 4:g}">{mark} {unit}</text>\n'
        for mark in marks
    )


def draw(seconds: Points, load: Points, delay: Points) -> str:
    """The picture as SVG."""
    per_ms = WIDTH / SECONDS / 1000
    load_bottom, delay_bottom = LOAD_TOP + 100 * LOAD_PX, DELAY_TOP + DELAY_MS * DELAY_PX
    averages = "".join(
        f'<path class="second" d="M{LEFT + 1000 * per_ms * at:g} {load_bottom - 100 * LOAD_PX * value:.1f}'
        f'h{1000 * per_ms:g}"/><text class="label" x="{LEFT + 1000 * per_ms * (at + 0.5):g}" '
        f'y="{load_bottom - 100 * LOAD_PX * value - 6:.1f}">{100 * value:.1f} %</text>\n'
        for at, value in seconds
    )
    times = "".join(
        f'<text class="middle" x="{LEFT + 1000 * per_ms * at:g}" y="{delay_bottom + 18:g}">{at} s</text>'
        for at in range(SECONDS + 1)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 440" role="img"
 aria-label="Utilization of a 1 Gb/s port and probe latency: calm by the second, full by the millisecond">
<style>
text {{ font: 12px sans-serif; fill: #333 }} .end {{ text-anchor: end }} .middle {{ text-anchor: middle }}
.title {{ font-weight: bold; font-size: 13px }} .grid {{ stroke: #ddd }}
.load {{ fill: #8fb7dd; stroke: #8fb7dd }} .delay {{ fill: none; stroke: #b5362c; stroke-width: 1.5 }}
.load, .delay {{ vector-effect: non-scaling-stroke }} .second {{ stroke: #111; stroke-width: 2.5 }}
.label {{ text-anchor: middle; font-weight: bold; paint-order: stroke; stroke: #fff; stroke-width: 4px }}
</style>
<rect width="800" height="440" fill="#fff"/>
<text class="title" x="{LEFT}" y="24">Utilization of a 1 Gb/s port</text>
<text x="{LEFT}" y="44">black: average of each second, as a monitoring system shows it; blue: each millisecond</text>
{axis(LOAD_TOP, LOAD_PX, [0, 50, 100], "%")}<path class="load"
 transform="translate({LEFT} {load_bottom:g}) scale({per_ms:g} {LOAD_PX})" d="{steps(load)}"/>
{averages}<text class="title" x="{LEFT}" y="244">Round trip of probes through that port</text>
{axis(DELAY_TOP, DELAY_PX, [0, 20, 40], "ms")}<path class="delay"
 transform="translate({LEFT} {delay_bottom:g}) scale({per_ms:g} {DELAY_PX / 10:g})" d="{line(delay)}"/>
{times}
</svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(draw(*read(sys.argv[1])), encoding="utf-8")
