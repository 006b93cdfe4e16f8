"""Progress of tasks that run elsewhere. It is taken from the records that appear in the results, independent of the
engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import MburstError
from .plan import PartitionPlan, read_plan
from .results import PartitionName, PartitionRecord, list_records, sound_record
from .target import FleetTarget, open_target
from .task import PartitionOutcome

POLL_S = 5.0


@contextmanager
def watched(
    results: str, keys: list[str], progress: Callable[[PartitionOutcome], None]
) -> Iterator[set[PartitionName]]:
    """While the context lasts, call PROGRESS for each partition of the plans KEYS when its record appears in RESULTS.
    Yields the set of these partitions. A partition that fails has no record. If the results cannot be read, it tries
    again."""
    seen: set[PartitionName] = set()
    over = threading.Event()

    def watch() -> None:
        left: dict[PartitionName, PartitionPlan] | None = None
        while not over.wait(POLL_S):
            with suppress(MburstError):
                place = open_target(results)
                left = _plans(place, keys) if left is None else left
                for record in _new(place, left):
                    del left[record.name]
                    seen.add(record.name)
                    progress(_outcome(record))

    thread = threading.Thread(target=watch, name="mburst-progress", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _plans(results: FleetTarget, keys: list[str]) -> dict[PartitionName, PartitionPlan]:
    plans = (read_plan(results, key) for key in keys)
    return {plan.name: plan for plan in plans}


def _new(results: FleetTarget, left: dict[PartitionName, PartitionPlan]) -> list[PartitionRecord]:
    """Returns the records of partitions in LEFT that are done by the present plan, not by an older one."""
    there = {name for date in {name.date for name in left} for name in list_records(results, date)} & left.keys()
    records = (sound_record(results, name) for name in sorted(there, key=str))
    return [record for record in records if record is not None and left[record.name].is_done(record)]


def _outcome(record: PartitionRecord) -> PartitionOutcome:
    bursts, host = record.rows["bursts"], record.host or ""
    cost = (record.files, record.size, record.cpu_s, 0.0)
    ports = (record.rows.get("port_bursts", 0), record.switch_ports, record.unfit_ports)
    return PartitionOutcome(record.date, record.rack, host, "", record.complete, bursts, *cost, *ports)
