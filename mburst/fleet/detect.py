"""Detection of the bursts of a day of a fleet: partition by partition, on this machine or on a cluster.

A partition that fails does not affect the others, and finished partitions are not detected again. So after an
interruption of any kind a second run continues."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import temporary
from ..errors import MburstError
from ..process import interrupting
from ..process.python import without_pandas
from .plan import PartitionPlan, differences
from .results import PartitionName, recorded
from .target import FleetTarget
from .task import PartitionOutcome, carry_out

MADE_OF_MORE = (
    "was made of files that no receipt states now, and there are others: nothing was replaced "
    "(remove {}, and it is detected in what is there)"
)

Progress = Callable[[PartitionOutcome], None]
# Runs the tasks (target, results, plan keys in their order, progress), and returns the outcome of each task that ended.
Engine = Callable[[str, str, list[str], Progress], list[PartitionOutcome]]


class DayDetected(NamedTuple):
    """The outcome of a day. `done` are partitions that were finished before; `incomplete` also counts these. `kept` are
    those of `done` that were made of more than there is now."""

    outcomes: list[PartitionOutcome]
    done: list[PartitionName]
    incomplete: list[PartitionName]
    kept: list[PartitionName]

    def to_dict(self, date: str) -> dict[str, Any]:
        """The object that `mburst fleet detect --json` prints about the day DATE."""
        return {
            "date": date,
            "detected": [outcome._asdict() for outcome in self.outcomes],
            "done_before": [name._asdict() for name in self.done],
            "incomplete": [name._asdict() for name in self.incomplete],
            "kept": [name._asdict() for name in self.kept],
            "failed": sum(bool(outcome.error) for outcome in self.outcomes),
        }


def detect_day(
    target: FleetTarget,
    results: FleetTarget,
    plans: Iterator[PartitionPlan],
    engine: Engine,
    progress: Progress = lambda _: None,
) -> DayDetected:
    """Detect the partitions of PLANS that are not done. What was detected is not replaced by less, whether something is
    missing now, or receipts were removed since, as a bucket does after some time. Raises MburstError if the results
    cannot be read or written, or if ENGINE is not available."""
    sizes: dict[PartitionName, int] = {}
    outcomes, done, incomplete, kept = list[PartitionOutcome](), [], [], []
    for plan in plans:
        if plan.behind or plan.missing:
            incomplete.append(plan.name)
        record, damaged = recorded(results, plan.name)
        if record is not None and plan.is_done(record):
            done.append(plan.name)
            continue
        gone, more = differences(results, plan, record) if record or damaged else ([], [])
        if gone and record is not None and not more:
            done.append(plan.name)
            kept.append(plan.name)
        elif gone:
            why = MADE_OF_MORE.format(plan.name.record_key)
            outcomes.append(_refused(plan, f"{damaged}; it {why}" if damaged else why))
            progress(outcomes[-1])
        else:
            results.replace(plan.name.plan_key, plan.to_json())
            sizes[plan.name] = plan.size
    order = sorted(sizes, key=lambda name: -sizes[name])  # largest first: none of them runs alone at the end
    keys = [name.plan_key for name in order]
    outcomes += engine(target.name, results.name, keys, progress) if keys else []
    return DayDetected(outcomes, done, incomplete, kept)


def _refused(plan: PartitionPlan, error: str) -> PartitionOutcome:
    """Returns the outcome of a partition that is not detected."""
    name = plan.name
    cost = (len(plan.fetched), plan.size, 0.0, 0.0)
    return PartitionOutcome(name.date, name.rack, name.host or "", error, False, 0, *cost, 0, 0, 0)


def local(jobs: int | None = None, scratch: str | None = None) -> Engine:
    """Returns an engine that uses processes of this machine: JOBS, or one for each processor. Copies of files are below
    SCRATCH (None: the folder of temporary files), and are removed at the end in any case."""

    def run(target: str, results: str, keys: list[str], progress: Progress) -> list[PartitionOutcome]:
        processes = min(jobs or len(os.sched_getaffinity(0)), len(keys))
        with _folder(scratch) as folder, _pool(processes) as pool:
            tasks = [pool.submit(carry_out, target, results, key, folder) for key in keys]
            return [_noted(task, progress) for task in interrupting.completed(tasks)]

    return run


@contextmanager
def _folder(scratch: str | None) -> Iterator[str]:
    """Yields a new folder below SCRATCH. Raises MburstError."""
    try:
        with temporary.folder("mburst-fleet-", scratch) as folder:
            yield folder
    except OSError as error:
        raise MburstError(
            f"{error.filename or 'temporary files'}: {error.strerror}", "--scratch names another folder"
        ) from error


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Yields processes that end with the context, however it ends."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin)
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Initialize a process."""
    interrupting.leave_to_parent()
    without_pandas()


def _noted(task: Future[PartitionOutcome], progress: Progress) -> PartitionOutcome:
    try:
        outcome = task.result()
    except BrokenProcessPool:
        raise MburstError(
            "a process that detects bursts was killed", "what is done is kept: the same call goes on"
        ) from None
    progress(outcome)
    return outcome
