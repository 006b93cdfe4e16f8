"""The picture of a digest as PNG, for mail programs, which cannot draw SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dashboards.common.heatmap import OPACITY
from ...dashboards.common.palette import LIGHT
from ...dashboards.rack.pictures import STEPS
from ...names import short

if TYPE_CHECKING:
    from PIL import ImageDraw

LABELS, CELLS, ROW, TOP = 150, 640, 16, 20  # pixels


def png(names: Sequence[str], shares: Sequence[Sequence[float | None]], labels: Sequence[str]) -> bytes:
    """Draw rows of cells. The darker a cell, the larger the share of time in bursts; a white cell with a line was not
    recorded."""
    from PIL import Image, ImageColor, ImageDraw

    image = Image.new("RGB", (LABELS + CELLS + 10, TOP + ROW * max(len(names), 1) + 6), LIGHT["paper"])
    draw = ImageDraw.Draw(image)
    hot, paper = (ImageColor.getrgb(LIGHT[name]) for name in ("second", "paper"))
    slots = max((len(row) for row in shares), default=1)
    width = CELLS / max(slots, 1)
    _axis(draw, labels, width)
    for i, (name, row) in enumerate(zip(names, shares, strict=True)):
        top = TOP + i * ROW
        draw.text((LABELS - 8, top + 2), short(name, 24), fill=LIGHT["ink"], anchor="ra")
        for j, share in enumerate(row):
            box = (LABELS + j * width, top + 1, LABELS + (j + 1) * width - 1, top + ROW - 2)
            if share is None:
                draw.line((box[0], top + ROW / 2, box[2], top + ROW / 2), fill=LIGHT["rule"])
            elif share == 0:
                draw.rectangle(box, fill=LIGHT["wash"])
            else:
                opacity = OPACITY[next(k for k, (least, _) in enumerate(STEPS) if share >= least)]
                mixed = [round(opacity * h + (1 - opacity) * p) for h, p in zip(hot[:3], paper[:3], strict=True)]
                draw.rectangle(box, fill=(mixed[0], mixed[1], mixed[2]))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _axis(draw: ImageDraw.ImageDraw, labels: Sequence[str], width: float) -> None:
    every = max(1, -(-len(labels) // 8))
    for i in range(0, len(labels), every):
        draw.text((LABELS + i * width, 4), labels[i], fill=LIGHT["muted"])
