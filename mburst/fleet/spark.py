"""Partitions as tasks of Spark, which only schedules them: no data passes through it. This is the only file that
imports pyspark. It uses only DataFrames, so that Spark Connect works, too."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .. import extras
from ..errors import MburstError, UsageError
from ..process.python import interpreter, with_pandas
from .detect import Engine, Progress
from .task import PartitionOutcome, carry_out
from .watching import watched

if TYPE_CHECKING:
    import pyarrow as pa

# Corrections of Spark's defaults: DuckDB's memory is not in the JVM but additional (task.py uses up to 1 GB).
SETTINGS = {
    "spark.app.name": "mburst fleet detect",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "2g",
    "spark.executor.cores": "1",
    "spark.task.cpus": "1",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
CONNECT_PORT, CONNECT_S = 15002, 10.0  # port of Spark Connect if a URL has none, and how long to wait for it
MASTERS = ("local[*]", "spark://HOST:PORT", "yarn", "k8s://HOST:PORT", "sc://HOST:PORT")
_MASTER = re.compile(r"local($|\[|-cluster\[)|yarn$|(spark|k8s|sc)://.")
SCHEMA = (
    "date string, rack string, host string, error string, complete boolean, bursts bigint, files bigint, size bigint, "
    "cpu_s double, seconds double, port_bursts bigint, switch_ports bigint, unfit_ports bigint"
)


def on_spark(master: str, settings: Mapping[str, str], scratch: str | None = None) -> Engine:
    """Returns the engine of MASTER: local[*], spark://HOST:PORT, yarn, k8s://…, or sc://HOST:PORT of Spark Connect. The
    parameter SETTINGS takes precedence over SETTINGS of this file. Executors need mburst and the same Python as here.
    Raises UsageError for an invalid MASTER, and MburstError if pyspark is missing."""
    if not _MASTER.match(master):
        raise UsageError(f"unknown Spark master {master!r}", f"write one of {', '.join(MASTERS)}")
    with_pandas()
    try:
        import pandas  # noqa: F401
        import pyspark  # noqa: F401
    except ModuleNotFoundError:
        raise MburstError(
            "Spark needs the extra `fleet`: pyspark is not installed",
            f"{extras.how_to_get('fleet')}, and a Java of 17 or newer",
        ) from None

    def run(target: str, results: str, keys: list[str], progress: Progress) -> list[PartitionOutcome]:
        session = _session(master, settings)
        try:
            with watched(results, keys, progress) as seen:
                rows = _run(session, target, results, keys, scratch)
        finally:
            session.stop()
        outcomes = [PartitionOutcome(**row.asDict()) for row in rows]
        for outcome in outcomes:
            if outcome.name not in seen:
                progress(outcome)
        return outcomes

    return run


def _session(master: str, settings: Mapping[str, str]) -> Any:
    """Returns a session. Raises UsageError, and MburstError."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master.startswith("local"):  # remote executors have their own Python
        os.environ["PYSPARK_PYTHON"] = interpreter()
    connects = master.startswith("sc://")
    if connects:
        _reach(master)
    builder = SparkSession.builder.remote(master) if connects else SparkSession.builder.master(master)
    for name, value in {**({} if connects else SETTINGS), **settings}.items():  # a Connect server has its own settings
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        needed = "pip install 'pyspark[connect]' is needed" if connects else "a Java of 17 or newer is needed"
        raise MburstError(f"Spark at {master}: {_first_line(error)}", needed) from error
    except Exception as error:  # from the JVM, through py4j
        raise UsageError(f"Spark at {master}: {_first_line(error)}") from error


def _reach(master: str) -> None:
    """Connect to a Spark Connect server and disconnect, because its client retries an absent server for ten minutes.
    Raises MburstError."""
    address = urlsplit(master)
    try:
        with socket.create_connection((address.hostname or "", address.port or CONNECT_PORT), CONNECT_S):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MburstError(f"Spark at {master}: {reason}", "write sc://HOST:PORT of a running Connect server") from error


def _run(session: Any, target: str, results: str, keys: list[str], scratch: str | None) -> list[Any]:
    """Run a task for each of KEYS. Raises MburstError."""

    def tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            outcomes = [carry_out(target, results, keys[number], scratch) for number in batch.column(0).to_pylist()]
            if outcomes:
                yield pa.RecordBatch.from_pylist([outcome._asdict() for outcome in outcomes])

    try:
        rows: list[Any] = session.range(0, len(keys), 1, len(keys)).mapInArrow(tasks, SCHEMA).collect()
        return rows
    except Exception as error:  # any exception from the JVM, through py4j or gRPC
        raise MburstError(
            f"Spark ended the job: {_first_line(error)}", "what is done is kept: the same call goes on"
        ) from error


def _first_line(error: Exception) -> str:
    """Returns the cause of an error. For an exception of the JVM, it follows the line that names the call."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    cause = next((line.partition(": ")[2] for line in lines if line.startswith(": ")), lines[0])
    return cause[:300]
