"""`mburst metrics`: what a store gains, for Prometheus."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path

from ..errors import UsageError
from ..stopping import stopping
from . import definition

DESCRIPTION = """Answer Prometheus at /metrics, in its format or OpenMetrics, with what comes into a store: bursts,
their durations and fan-in, peak utilization by width, losses, stamps, probes, switch queues and gNMI targets, until
Ctrl-C. Counters begin at zero when it starts, or with what was stored since a time. Needs the extra `metrics`."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("metrics", help="export a store's bursts to Prometheus", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder of the store; made where there is none")
    parser.add_argument("--listen", default="127.0.0.1:9620", metavar="ADDRESS:PORT",
                        help="where to answer; anyone who gets there can read (default: %(default)s)")
    parser.add_argument("--since", metavar="TIME",
                        help="count from then on: 24h (before the newest data) or 2026-11-20T14:03 (default: now)")
    definition.add_burst_options(parser)
    parser.set_defaults(run=run, until=None, rack=None)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to end."""
    from ..agent.exporter import require, server
    from ..agent.meter import Meter
    from ..sql import Store

    require()
    address = parse_address(arguments.listen)
    if not Path(arguments.store).exists():
        print(f"mburst: {arguments.store}: there was no store: it is made, and empty until something is recorded there",
              file=sys.stderr)
    store = Store.create(arguments.store)
    since, _ = definition.span_of(store, arguments)
    meter = Meter(store, definition.definition_of(arguments), since)
    answering = server(meter, address)
    host, port = answering.server_address[:2]
    shown = f"[{host!s}]" if ":" in str(host) else str(host)
    stop = threading.Thread(target=answering.shutdown)  # which waits for serve_forever, and that runs in this one
    with closing(meter), answering, stopping(stop.start) as ended_by:
        print(f"metrics of {arguments.store}: http://{shown}:{port}/metrics", flush=True)
        answering.serve_forever(poll_interval=0.2)
    sys.stdout.flush()
    return 130 if signal.SIGINT in ended_by else 0


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:9620", "[::1]:9620" or ":9620" (all addresses). Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise UsageError(f"{text!r} is no address and port", "write it like 127.0.0.1:9620 or [::1]:9620")
    return host.strip("[]") or "0.0.0.0", int(port)
