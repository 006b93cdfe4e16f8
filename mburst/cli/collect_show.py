"""`mburst collect --show`: which metrics come by OTLP, and what each is stored as; and --check of a receiver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..names import say
from ..units import parse_duration
from . import output

if TYPE_CHECKING:
    from ..telemetry.gnmi.config import CollectConfig
    from ..telemetry.otlp.config import OtlpConfig
    from ..telemetry.otlp.series import MetricSeries

MOST_ROWS = 1000
COLUMNS = ["device", "metric", "kind", "attributes", "series", "means"]
NOT_STORED = "(not stored)"


@dataclass
class _ShownMetric:
    """A metric of a device: the attributes of its first series, and how many there are."""

    attributes: str
    means: str
    series: int = 0


def show(config: CollectConfig, duration: str, form: str) -> int:
    """Receive for a while, and print each metric. 1 where nothing came."""
    import asyncio

    if config.otlp is None:
        raise UsageError("collect: --show is of OTLP, and the file has no `otlp:`", "docs/otlp.md")
    seconds, shown = parse_duration(duration) / 1e9, dict[tuple[str, str, str], _ShownMetric]()

    def seen(device: str, metric: str, attributes: dict[str, str], kind: str, series: MetricSeries) -> None:
        key = (device, metric, kind)
        if key not in shown and len(shown) >= MOST_ROWS:
            return
        listed = ", ".join(f"{name}={value}" for name, value in attributes.items())
        shown.setdefault(key, _ShownMetric(listed, _meaning(series))).series += 1

    asyncio.run(_receive(config, seconds, seen))
    rows = [(*key, one.attributes, str(one.series), one.means) for key, one in sorted(shown.items())]
    output.write(form, COLUMNS, rows)
    if not rows:
        say("OTLP: no point received")
    return 0 if rows else 1


async def _receive(config: CollectConfig, seconds: float, seen: Any) -> None:
    import asyncio

    from ..services.otlp_collection import OtlpCollection
    from ..stopping import stopping

    collection = OtlpCollection(config, "show", seen)
    receiver = collection.receiver(lambda: False, say)
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    await receiver.start()
    try:
        with stopping(lambda: loop.call_soon_threadsafe(stopped.set)):
            end = loop.time() + seconds
            while not stopped.is_set() and loop.time() < end:
                await asyncio.sleep(min(0.2, max(0.0, end - loop.time())))
                collection.intake.take()
    finally:
        await receiver.stop()


def _meaning(series: MetricSeries) -> str:
    meaning = series.meaning
    if meaning is None:
        return NOT_STORED
    place = f"{series.port} {series.queue}".strip()
    if meaning.table == "ports" and series.is_total and meaning.column in ("in_bytes", "out_bytes"):
        return f"bins of {place}, {meaning.column.removesuffix('_bytes')} by {meaning.sender}"
    semantics = f" ({meaning.semantics})" if meaning.semantics else ""
    return f"{meaning.table}.{meaning.column} of {place}{semantics} by {meaning.sender}"


def check(config: OtlpConfig) -> None:
    """Print how a receiver was understood."""
    from ..telemetry.otlp.meanings import meanings

    places = [f"{what} on {address}" for what, address in (("gRPC", config.listen), ("HTTP", config.http)) if address]
    trust = "without TLS"
    if config.tls_cert:
        trust = "TLS" + (", clients with a certificate" if config.tls_client_ca else "")
    token = ", with a bearer token" if config.token else ""
    print(f"otlp: {' and '.join(places)}, {trust}{token}; {len(meanings(config.tables))} metrics have a meaning")
