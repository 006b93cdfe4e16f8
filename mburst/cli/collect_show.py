"""`mburst collect --show`: the metrics that come by OTLP, and what each is stored as. Also --check of a receiver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..messages import print_message
from ..process import privileges
from ..process.stopping import stopping
from ..units import format_count, parse_duration
from . import output

if TYPE_CHECKING:
    from ..errors import UnresolvedName
    from ..otlp_receiver.receiver import OtlpReceiver
    from ..services.otlp_collection import OtlpCollection
    from ..telemetry.gnmi.config import CollectConfig
    from ..telemetry.otlp.config import OtlpConfig
    from ..telemetry.otlp.series import MetricSeries

MOST_ROWS = 1000
COLUMNS = ["device", "metric", "kind", "attributes", "series", "means"]
NOT_STORED = "(not stored)"


@dataclass
class _ShownMetric:
    """A metric of a device: the attributes of its first series, and the number of series."""

    attributes: str
    means: str
    series: int = 0


def show(config: CollectConfig, duration: str, form: str, user: str | None) -> int:
    """Receive for DURATION as USER, and print each metric. Returns 1 if there were none."""
    import asyncio

    from ..services.otlp_collection import OtlpCollection

    if config.otlp is None:
        raise UsageError("collect: --show is of OTLP, and the file has no `otlp:`", "docs/otlp.md")
    seconds, shown = parse_duration(duration) / 1e9, dict[tuple[str, str, str], _ShownMetric]()

    def seen(device: str, metric: str, attributes: dict[str, str], kind: str, series: MetricSeries) -> None:
        key = (device, metric, kind)
        if key not in shown and len(shown) >= MOST_ROWS:
            return
        listed = ", ".join(f"{name}={value}" for name, value in attributes.items())
        shown.setdefault(key, _ShownMetric(listed, _meaning(series))).series += 1

    collection = OtlpCollection(config, "show", seen)
    receiver = collection.receiver(lambda: False, print_message)
    privileges.settle_listening(receiver.socket_folders, user)
    asyncio.run(_receive(collection, receiver, seconds))
    rows = [(*key, one.attributes, str(one.series), one.means) for key, one in sorted(shown.items())]
    output.write(form, COLUMNS, rows)
    lines = collection.not_stored()
    if not rows and not lines:
        print_message("OTLP: no point received")
    for line in lines:
        print_message(f"OTLP: {line}")
    return 0 if rows else 1


async def _receive(collection: OtlpCollection, receiver: OtlpReceiver, seconds: float) -> None:
    import asyncio

    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    try:
        await receiver.start()
        with stopping(lambda: loop.call_soon_threadsafe(stopped.set)):
            end = loop.time() + seconds
            while not stopped.is_set() and loop.time() < end:
                await asyncio.sleep(min(0.2, max(0.0, end - loop.time())))
                collection.intake.take()
    finally:
        await receiver.stop()
        collection.intake.take(everything=True)
        for _ in collection.events():  # the generator counts them
            pass


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
    """Print how the configuration of a receiver was understood. Raises MburstError if the receiver could not start,
    except for a name without an address, which may have one later."""
    from ..listening import tls
    from ..otlp_receiver.entries import certificates, entries
    from ..telemetry.otlp.meanings import meanings

    unresolved: list[UnresolvedName] = []
    places = [f"{entry.name} on {entry.address}" for entry in entries(config, unresolved.append)]
    if files := certificates(config):
        tls.context(files)
    metrics = len(meanings(config.tables))
    for error in unresolved:
        print_message(str(error))
    trust = "without TLS"
    if config.tls_cert:
        trust = "TLS" + (", clients with a certificate" if config.tls_client_ca else "")
    token = ", with a bearer token" if config.token else ""
    print(
        f"otlp: {' and '.join(places)}, {trust}{token}; {format_count(metrics, 'metric has', 'metrics have')} a meaning"
    )
