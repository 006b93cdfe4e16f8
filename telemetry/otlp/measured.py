"""Steps of series → rows of `queues` and `ports`: values of one queue or port with the same window become one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..line_rate import FASTEST_BPS, most_bytes
from ..tables import FREQUENT, QUALITY_GAP, QUALITY_IMPOSSIBLE, SOURCE_COLUMNS, text_column
from .meaning import CARRIED, COLUMNS
from .points import Ints
from .series import MetricSeries
from .speeds import Speeds
from .steps import LONGEST_NS, SeriesSteps

GAP = 3  # times as long as the previous window of the same series: then samples are missing in it


class MeasuredTable:
    """The rows of one table."""

    def __init__(self, name: str, batch: str, speeds: Speeds) -> None:
        self.name, self._batch, self._speeds = name, batch, speeds
        self._schema, self._columns = FREQUENT[name], COLUMNS[name]
        self._texts: dict[str, list[str]] = {column: [] for column in SOURCE_COLUMNS[name]}
        self._entities: dict[tuple[str, ...], int] = {}
        self._entity_of: dict[int, int] = {}  # by series
        self._column_of: dict[int, int] = {}
        self._last_ns = np.zeros(0, np.int64)  # by entity; 0: none yet
        self._width_ns = np.zeros(0, np.int64)  # of its last window, by series; 0: none yet

    def know(self, series: MetricSeries) -> None:
        """Add a series of this table."""
        meaning = series.meaning
        assert meaning is not None
        texts = {
            "batch": self._batch, "device": series.device, "port": series.port, "queue": series.queue,
            "semantics": meaning.semantics,
        }  # fmt: skip
        key = tuple(texts[column] for column in self._texts)
        if key not in self._entities:
            for column, listed in self._texts.items():
                listed.append(texts[column])
        self._entity_of[series.number] = self._entities.setdefault(key, len(self._entities))
        self._column_of[series.number] = self._columns.index(meaning.column)

    def rows(self, steps: SeriesSteps) -> pa.RecordBatch:
        """The rows of steps of series that were added."""
        present, inverse = np.unique(steps.series, return_inverse=True)
        entity = np.array([self._entity_of[number] for number in present.tolist()], np.int64)[inverse]
        column = np.array([self._column_of[number] for number in present.tolist()], np.int8)[inverse]
        begins = _begins(entity, steps.ts_ns, steps.begin_ns)
        order = np.lexsort((begins, steps.ts_ns, entity))
        at = _changes(entity[order], steps.ts_ns[order], begins[order])
        row = np.repeat(np.arange(len(at)), np.diff(at, append=len(order)))
        entities, ts_ns, begin_ns = (of[order][at] for of in (entity, steps.ts_ns, begins))
        quality = np.bitwise_or.reduceat(steps.quality[order], at)
        is_alone = (quality & QUALITY_GAP != 0) & (begin_ns < ts_ns)  # the time before it is not known
        begin_ns = self._windows(entities, begin_ns, ts_ns, is_alone)
        is_long = np.logical_or.reduceat(self._are_long(steps)[order], at)
        known = steps.quality[order] & QUALITY_IMPOSSIBLE == 0
        values, filled = self._values(steps.amount[order], column[order], row, len(at), known)
        quality |= np.where(is_long | (quality & QUALITY_IMPOSSIBLE != 0), QUALITY_GAP, 0).astype(np.uint16)
        quality |= self._implausible(entities, begin_ns, ts_ns, values)
        columns = {
            "window_start_ns": pa.array(begin_ns),
            "ts_ns": pa.array(ts_ns),
            "receive_ns": pa.array(steps.receive_ns[order][at]),
            "quality": pa.array(quality),
            **{
                name: pa.array(values[k], mask=~filled[k]) if k in values else pa.nulls(len(at), pa.int64())
                for k, name in enumerate(self._columns)
            },
            **self._names(entities),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], self._schema.names)

    def _values(
        self, amount: Ints, column: Any, row: Ints, rows: int, known: Any
    ) -> tuple[dict[int, Ints], dict[int, Any]]:
        """By column: the values, and which rows have one."""
        values, filled = {}, {}
        for k in np.unique(column).tolist():
            chosen = (column == k) & known
            values[k], filled[k] = np.zeros(rows, np.int64), np.zeros(rows, bool)
            values[k][row[chosen]] = amount[chosen]
            filled[k][row[chosen]] = True
        return values, filled

    def _windows(self, entities: Ints, begin_ns: Ints, ts_ns: Ints, is_alone: Any) -> Ints:
        """Returns the begin of each row's window: the previous row, unless the values of the row go back further or the
        row is alone."""
        missing = np.zeros(len(self._entities) - len(self._last_ns), np.int64)
        self._last_ns = np.concatenate([self._last_ns, missing])
        first = np.ones(len(entities), bool)
        first[1:] = entities[1:] != entities[:-1]
        last = np.roll(first, -1)
        before = np.where(first, self._last_ns[entities], np.roll(ts_ns, 1))
        near = ~is_alone & (before > 0) & (before < begin_ns) & (begin_ns - before <= LONGEST_NS)
        newest = entities[last]
        self._last_ns[newest] = np.maximum(self._last_ns[newest], ts_ns[last])
        return np.where(near, before, begin_ns)

    def _are_long(self, steps: SeriesSteps) -> Any:
        """Returns which steps are much longer than the previous one of their series: samples are missing in them."""
        missing = max(0, int(steps.series.max(initial=-1)) + 1 - len(self._width_ns))
        self._width_ns = np.concatenate([self._width_ns, np.zeros(missing, np.int64)])
        width = steps.ts_ns - steps.begin_ns
        order = np.lexsort((steps.ts_ns, steps.series))
        order = order[width[order] > 0]
        series, widths = steps.series[order], width[order]
        first = np.ones(len(order), bool)
        first[1:] = series[1:] != series[:-1]
        usual = np.where(first, self._width_ns[series], np.roll(widths, 1))
        self._width_ns[series[np.roll(first, -1)]] = widths[np.roll(first, -1)]
        found = np.zeros(len(width), bool)
        found[order] = (usual > 0) & (widths > GAP * usual)
        return found

    def _implausible(self, entities: Ints, begin_ns: Ints, ts_ns: Ints, values: dict[int, Ints]) -> Any:
        """`impossible` for rows with more bytes than the link can carry."""
        devices, ports = self._texts["device"], self._texts["port"]
        present, inverse = np.unique(entities, return_inverse=True)
        speeds = np.array([self._speeds.of(devices[k], ports[k]) or FASTEST_BPS for k in present.tolist()])[inverse]
        most = most_bytes(speeds, ts_ns - begin_ns)
        beyond = np.zeros(len(entities), bool)
        for name in CARRIED[self.name]:
            beyond |= values.get(self._columns.index(name), np.zeros(1)) > most
        return np.where(beyond, QUALITY_IMPOSSIBLE, 0).astype(np.uint16)

    def _names(self, entities: Ints) -> dict[str, pa.Array]:
        present, places = np.unique(entities, return_inverse=True)
        return {
            column: text_column([texts[k] for k in present.tolist()], places) for column, texts in self._texts.items()
        }


def _changes(*columns: Ints) -> Ints:
    """Where the rows of sorted columns differ from the row before them, the first row included."""
    first = np.zeros(len(columns[0]), bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(first)


def _begins(entity: Ints, ts_ns: Ints, begin_ns: Ints) -> Ints:
    """The begin of each step's window. The first value of a series begins at its own time: it belongs to the latest
    begin of the other steps of its entity and time."""
    order = np.lexsort((ts_ns, entity))
    at = _changes(entity[order], ts_ns[order])
    known = begin_ns < ts_ns
    latest = np.empty_like(ts_ns)
    latest[order] = np.repeat(
        np.maximum.reduceat(np.where(known, begin_ns, -1)[order], at), np.diff(at, append=len(order))
    )
    return np.where(known, begin_ns, np.where(latest >= 0, latest, ts_ns))
