"""Every odd, broken and hostile capture through the engine: it is read or refused in one line, and each byte is
accounted for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mburst.capture import Capture
from mburst.errors import MburstError


def total(tables: list[pa.Table], column: str) -> int:
    return sum(pc.sum(table.column(column)).as_py() or 0 for table in tables)


def test_every_byte_of_every_capture_is_accounted_for(odd_captures):
    refused, packets = [], 0
    for path in odd_captures:
        bins, senders = [], []
        try:
            capture = Capture([str(path)])
        except MburstError as error:
            refused.append(str(error))
            continue
        try:
            while (rows := capture.read()) is not None:
                bins.append(pa.table(rows[0]))
                senders.append(pa.table(rows[1]))
        except MburstError as error:
            refused.append(str(error))
        lanes, facts = capture.lanes, capture.facts
        late = sum(lane["late"] for lane in lanes)
        assert total(bins, "packets") + late == facts["frames"], path
        assert total(bins, "packets") == sum(lane["packets"] for lane in lanes), path
        assert total(bins, "bytes") == sum(lane["bytes"] for lane in lanes), path
        unattributed = sum(lane["unattributed_bytes"] for lane in lanes)
        assert total(bins, "bytes") == total(senders, "bytes") + unattributed, path
        # A frame check sequence is in the bytes of the file and not in those of the bins.
        with_fcs = facts["bytes"] - total(bins, "bytes") - sum(lane["late_bytes"] for lane in lanes)
        assert 0 <= with_fcs <= 4 * facts["frames"], path
        packets += facts["frames"]
    assert all("\n" not in line and "wild/" in line for line in refused)
    assert packets > 10_000 and len(refused) < 20
