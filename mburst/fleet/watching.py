"""Progress of tasks that run elsewhere: their records appear in the results, whatever the engine says of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import MburstError
from .plan import PartitionPlan, read_plan
from .results import PartitionName, PartitionRecord, list_records, read_record
from .target import FleetTarget, open_target
from .task import PartitionOutcome

POLL_S = 5.0


@contextmanager
def watched(
    results: str, keys: list[str], progress: Callable[[PartitionOutcome], None]
) -> Iterator[set[PartitionName]]:
    """While this lasts, PROGRESS hears of each partition of the plans KEYS whose record appears in RESULTS; they are
    added to what is yielded. One that fails leaves none. A place that cannot be read is looked at again."""
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
    """The records of partitions that are LEFT and done: of an older plan, they are not."""
    there = {name for date in {name.date for name in left} for name in list_records(results, date)} & left.keys()
    records = (read_record(results, name) for name in sorted(there, key=str))
    return [record for record in records if record is not None and left[record.name].is_done(record)]


def _outcome(record: PartitionRecord) -> PartitionOutcome:
    bursts, host = record.rows["bursts"], record.host or ""
    cost = (record.files, record.size, record.cpu_s, 0.0)
    ports = (record.rows.get("port_bursts", 0), record.switch_ports, record.unfit_ports)
    return PartitionOutcome(record.date, record.rack, host, "", record.complete, bursts, *cost, *ports)
