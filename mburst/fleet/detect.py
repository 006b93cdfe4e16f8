"""The bursts of a day of a fleet: partition by partition, on this machine or on a cluster.

A partition that fails costs itself alone, and what is done is not done again: so that a second run is the way to go on
after whatever ended the first."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import NamedTuple

from .. import interrupting
from ..errors import MburstError
from ..python import without_pandas
from .plan import PartitionPlan
from .results import PartitionName, read_record
from .target import FleetTarget
from .task import PartitionOutcome, carry_out

Progress = Callable[[PartitionOutcome], None]
# Runs the tasks (target, results, plan keys in their order, progress), and gives the outcome of each that ended.
Engine = Callable[[str, str, list[str], Progress], list[PartitionOutcome]]


class DayDetected(NamedTuple):
    """What became of a day. done: partitions that were not detected again; `incomplete` is of all, these included."""

    outcomes: list[PartitionOutcome]
    done: list[PartitionName]
    incomplete: list[PartitionName]


def detect_day(
    target: FleetTarget,
    results: FleetTarget,
    plans: Iterator[PartitionPlan],
    engine: Engine,
    progress: Progress = lambda _: None,
) -> DayDetected:
    """Detect the partitions of PLANS that are not done. Raises MburstError where the results cannot be read or written,
    or ENGINE cannot be had."""
    sizes: dict[PartitionName, int] = {}
    done, incomplete = [], []
    for plan in plans:
        if plan.behind or plan.missing:
            incomplete.append(plan.name)
        record = read_record(results, plan.name)
        if record is not None and plan.is_done(record):
            done.append(plan.name)
        else:
            results.replace(plan.name.plan_key, plan.to_json())
            sizes[plan.name] = plan.size
    order = sorted(sizes, key=lambda name: -sizes[name])  # the largest first: none of them runs on alone at the end
    keys = [name.plan_key for name in order]
    outcomes = engine(target.name, results.name, keys, progress) if keys else []
    return DayDetected(outcomes, done, incomplete)


def local(jobs: int | None = None, scratch: str | None = None) -> Engine:
    """Processes of this machine: JOBS, or as many as it has processors. Copies of files are below SCRATCH (None: the
    folder of temporary files), and are gone at the end, whatever ends it."""

    def run(target: str, results: str, keys: list[str], progress: Progress) -> list[PartitionOutcome]:
        processes = min(jobs or len(os.sched_getaffinity(0)), len(keys))
        with _folder(scratch) as folder, _pool(processes) as pool:
            tasks = [pool.submit(carry_out, target, results, key, folder) for key in keys]
            return [_noted(task, progress) for task in as_completed(tasks)]

    return run


@contextmanager
def _folder(scratch: str | None) -> Iterator[str]:
    """A new folder below SCRATCH. Raises MburstError."""
    try:
        with tempfile.TemporaryDirectory(prefix="mburst-fleet-", dir=scratch, ignore_cleanup_errors=True) as folder:
            yield folder
    except OSError as error:
        raise MburstError(f"{error.filename}: {error.strerror}", "--scratch names another folder") from error


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with what is done inside, however it ends."""
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
    """At the start of a process."""
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
