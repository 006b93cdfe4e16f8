"""`mburst collect`: store what switches report about their queues."""

from __future__ import annotations

import argparse
import os
import ssl
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import extras
from ..errors import MburstError, UsageError
from ..listening.tls import folders_of
from ..messages import clear_progress, print_message, print_progress
from ..names import shown
from ..process import privileges
from ..process.interrupting import INTERRUPTED
from ..units import format_count, format_duration, parse_duration
from . import output, record, values

if TYPE_CHECKING:
    from ..services.collector import CollectProgress
    from ..services.otlp_collection import OtlpCollection
    from ..sql import StoreFolder
    from ..telemetry.gnmi.config import CollectConfig, GnmiTarget, Item, Subscription
    from ..telemetry.gnmi.session import DeviceSession

DESCRIPTION = """Subscribe to switches by gNMI, receive the metrics that others send by OTLP, and store what they
report about queues, ports, buffers and neighbours, until Ctrl-C. The file has the format of gnmic: targets,
subscriptions, globals and environment variables; docs/gnmi.md and docs/otlp.md list what mburst adds. Paths without a
column of mburst are kept as rows of `gnmi_values`."""
LEAST_FILES = 64  # least number of open files: gRPC ends the process if it cannot open a file


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "collect", help="collect queue depths and counters from switches by gNMI and OTLP", description=DESCRIPTION
    )
    parser.add_argument("config", metavar="FILE", help="configuration in the format of gnmic, in YAML, JSON or TOML")
    parser.add_argument("-o", "--store", metavar="STORE", help="folder of the store; made if it does not exist")
    parser.add_argument(
        "--duration", type=values.duration, metavar="TIME", help="duration, such as 60s (default: until Ctrl-C)"
    )
    look = parser.add_mutually_exclusive_group()
    look.add_argument("--once", action="store_true", help="read each target once, print the values, and store nothing")
    look.add_argument(
        "--show",
        action="store_true",
        help="receive OTLP for --duration (10s), print each received metric, mapped or not, and store nothing",
    )
    look.add_argument(
        "--check",
        action="store_true",
        help="read the file, print what each path is stored as, and connect to no target",
    )
    output.add_format(parser)
    record.add_user_option(parser, "the store's owner; with --show nobody")
    parser.set_defaults(run=run, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    if not arguments.store:
        raise UsageError("collect: no output", "use -o STORE, or --once or --show to print")
    if arguments.format != "table":
        raise UsageError("--json and --csv go with --once and --show")


def run(arguments: argparse.Namespace) -> int:
    """Read the configuration, and check, show or collect."""
    require()
    from ..telemetry.gnmi.gnmic_file import load

    config = load(arguments.config)
    for warning in config.warnings:
        print_message(warning)
    if arguments.check:
        return check(config)
    if arguments.once:
        if not config.targets:
            raise UsageError(f"{arguments.config}: --once reads gNMI targets, and there are none", "--show is of OTLP")
        return once(config, arguments.format)
    if arguments.show:
        from . import collect_show

        return collect_show.show(config, arguments.duration or "10s", arguments.format, arguments.user)
    as_part(arguments)
    privileges.lower(arguments.store, arguments.user)
    return collect(config, arguments.store, arguments.duration)


def require() -> None:
    """Raise MburstError if the libraries for gNMI are missing. Also suppress gRPC's own log lines; mburst reports the
    same events."""
    import importlib.util
    import os
    import resource

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

    needed = ("grpc", "google.protobuf", "yaml")
    lacking = [name for name in needed if not _found(importlib.util.find_spec, name)]
    if lacking:
        raise extras.lacking("gNMI needs", lacking[0], "gnmi")
    if (files := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < LEAST_FILES:
        raise MburstError(
            f"this process may open {files} files, and gNMI needs {LEAST_FILES}", "allow more open files (ulimit -n)"
        )


def _found(find: Any, name: str) -> bool:
    try:
        return find(name) is not None
    except ModuleNotFoundError:
        return False


# --- collect --------------------------------------------------------------------------------------------------------


def collect(config: CollectConfig, store: str, duration: str | None) -> int:
    """Collect until a signal, then print what was collected. Returns 1 if no value came from any target."""
    import asyncio

    from ..services.collector import Collector
    from ..sql import StoreFolder

    seconds = parse_duration(duration) / 1e9 if duration else None
    with StoreFolder.created(store) as folder:
        collector = Collector(config, folder, print_message, _show if sys.stderr.isatty() else None)
        try:
            settle(config, folder, collector.receiver.socket_folders if collector.receiver else ())
        except BaseException:
            collector.close()
            raise
        asyncio.run(collector.run(seconds))
    clear_progress()
    for session in collector.sessions:
        device = session.device
        if not session.received:
            print_message(f"{device.name}: no value received: {session.why_nothing()}")
            continue
        print(
            f"{device.name}: {format_count(device.values, 'value')} in {format_count(device.messages, 'message')}"
            + (f", {device.resets:,} counter resets" if device.resets else "")
        )
        for line in _lacking(session, config):
            print_message(f"{device.name}: {line}")
    has_values = any(session.received for session in collector.sessions)
    if collector.otlp:
        has_values |= _print_otlp(collector.otlp)
    dropped = collector.writing.dropped.total()
    print(
        f"{format_count(collector.writing.written, 'row')} collected into {store}"
        + (f"; {dropped:,} were dropped, because the store was too slow" if dropped else "")
    )
    if collector.interrupted:
        return INTERRUPTED
    return 0 if has_values else 1


def _lacking(session: DeviceSession, config: CollectConfig) -> Iterator[str]:
    """Yields a line for each subscription of a target that gave no value, and for each port in the inventory that is
    none of those that it reported."""
    for name in session.without_values():
        yield f"{name}: no value received (`mburst collect FILE --check` lists its paths)"
    named = {link.port for link in config.links if link.device == session.device.name}
    ports = session.ports() if named else set()
    if ports and (unknown := sorted(named - ports)):
        yield f"the inventory has a link of port {', '.join(unknown)}, of which no value came"


def _print_otlp(otlp: OtlpCollection) -> bool:
    """Print what came by OTLP, and return whether anything did."""
    intake, lines = otlp.intake, otlp.not_stored()
    if intake.points:
        print(
            f"OTLP: {format_count(intake.values, 'point')} in {format_count(intake.messages, 'message')}, "
            f"{len(intake.ports.lanes):,} port directions"
        )
    elif not lines:
        print_message("OTLP: no point received")
    for line in lines:
        print(f"OTLP: {shown(line)}")
    return bool(intake.points)


def settle(config: CollectConfig, store: StoreFolder, sockets: Sequence[str] = ()) -> None:
    """Before data of any target is read, give up all rights except: to write the store and the pinned certificates, to
    read the folders of certificates, which are read for each connection, and to remove the Unix sockets in the folders
    SOCKETS. Raises MburstError."""
    encrypted = [target for target in config.targets if not target.insecure]
    named = {path for target in encrypted for path in (target.tls_ca, target.tls_cert, target.tls_key) if path}
    if otlp := config.otlp:  # its certificates may be renewed
        named |= {path for path in (otlp.tls_cert, otlp.tls_key, otlp.tls_client_ca) if path}
    trusted = [path for path in ssl.get_default_verify_paths()[:2] if path]
    pins = [_pins_folder()] if any(target.skip_verify for target in encrypted) else []
    privileges.confine([*folders_of(named), *trusted], [store.path, *pins], sockets, store.made_in)
    privileges.drop()


def _pins_folder() -> Path:
    """Returns the folder of pinned certificates. It exists and can be written. Raises MburstError."""
    from ..telemetry.gnmi.credentials import pins_folder

    folder = pins_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK, effective_ids=True) else "permission denied"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise MburstError(
            f"{folder}: cannot keep certificates there as user {os.geteuid()}: {reason}",
            "move the folder to where that user can write, and name its parent's parent by "
            "XDG_STATE_HOME; or keep to root with --user root",
        )
    return folder


def _show(progress: CollectProgress) -> None:
    parts = [f"{progress.values_per_s:,.0f} values/s", f"{progress.up} of {progress.targets} targets up"]
    if progress.lag_ns is not None:
        parts.append(f"lag {format_duration(progress.lag_ns)}")
    parts.append(format_count(progress.written, "row"))
    if progress.refused:
        parts.append(f"{format_count(progress.refused, 'message')} refused")
    if progress.dropped:
        parts.append(f"{progress.dropped:,} dropped")
    print_progress(", ".join(parts))


# --- once -----------------------------------------------------------------------------------------------------------


def once(config: CollectConfig, form: str) -> int:
    """Query every target once, and print the answers."""
    import asyncio

    from ..services.collector import device_of, vendors_of
    from ..telemetry.gnmi.limits import LimitExceeded
    from ..telemetry.gnmi.rows import CollectedRows
    from ..telemetry.gnmi.session import DeviceSession
    from ..telemetry.gnmi.session import once as ask

    vendors = vendors_of(config)
    rows: list[tuple[str, str, str, str]] = []

    async def of(target: GnmiTarget) -> list[str]:
        device = device_of(target, config, CollectedRows(), "once", vendors)
        session = DeviceSession(target, device, vendors, print_message)
        had = 0

        def take(notification: Any) -> None:
            nonlocal had
            had += len(notification.update)
            if had > target.most_paths:
                raise LimitExceeded(session.device.full)
            rows.extend(_listed(session, notification))

        try:
            wrong = await ask(session, take)
        except Exception as error:  # no failure may prevent queries of the other targets
            wrong = [f"internal error: {type(error).__name__}"]
        return [f"{target.name}: {line}" for line in wrong]

    async def everyone() -> list[list[str]]:
        return await asyncio.gather(*(of(target) for target in config.targets))

    failures = [line for lines in asyncio.run(everyone()) for line in lines]
    for line in failures:
        print_message(line)
    output.write(form, ["device", "path", "value", "means"], rows)
    return 1 if failures else 0


def _listed(session: Any, notification: Any) -> list[tuple[str, str, str, str]]:
    """Returns (device, path, value, meaning) of each leaf in a notification."""
    from ..telemetry.gnmi import values
    from ..telemetry.gnmi.path import Steps, as_text, steps_in

    found, tables = [], session.device.tables
    steps: Steps = ()
    for update in notification.update:
        try:
            steps = steps_in(notification.prefix)
            steps += steps_in(update.path)
            kind, value = values.read(update)
            parts = list(values.leaves(value, steps, tables.list_keys)) if kind == "json" else [(steps, value)]
        except ValueError as error:  # NotUnderstood, NoPath, LimitExceeded
            parts = [(steps, f"({error})")]
        found += [
            (session.target.name, as_text(path), values.as_text(part), _meaning(tables, path)) for path, part in parts
        ]
    return found


def _meaning(tables: Any, steps: Any) -> str:
    if (fact := tables.fact(steps)) is not None:
        return f"fact: {fact[0]}"
    found = tables.rule(steps)
    meaning = found.meaning if found else None
    if meaning is not None and meaning.kind == "ignore":
        return "(repeats a key)"
    if meaning is None or not meaning.column:
        return "gnmi_values"
    return f"{found.rule.table}.{meaning.column}"


# --- check ----------------------------------------------------------------------------------------------------------


def check(config: CollectConfig) -> int:
    """Print the requests in the file, and how their results are stored."""
    from ..services.collector import vendors_of
    from ..telemetry.gnmi.vendors import Tables

    vendors = vendors_of(config)
    for target in config.targets:
        print(
            f"{target.name}: {' or '.join((target.address, *target.other_addresses))}, {_trust(target)}"
            + (f", user {target.username}" if target.username else "")
        )
        tables = Tables(vendors, target.vendor)
        for subscription in target.subscriptions:
            print(f"  {subscription.name}: {_asked(subscription, target)}")
            for item in subscription.items:
                _print_item(item, subscription, tables)
    if config.otlp:
        from . import collect_show

        collect_show.check(config.otlp)
    if config.links:
        print(f"{format_count(len(config.links), 'link')} in the inventory")
    return 0


def _trust(target: GnmiTarget) -> str:
    if target.insecure:
        return "without TLS"
    own = ", with our certificate" if target.tls_cert else ""
    if target.skip_verify:
        return f"TLS, trust on first use{own}"
    return f"TLS, {f'CA {target.tls_ca}' if target.tls_ca else 'the CAs of grpc'}{own}"


def _asked(subscription: Subscription, target: GnmiTarget) -> str:
    encoding = subscription.encoding or target.encoding or "PROTO, else JSON_IETF"
    mode = subscription.mode
    if mode == "POLL":
        mode += f" every {format_duration(subscription.interval_ns)}"
    return f"{mode}, {encoding}" + (f", target {subscription.target}" if subscription.target else "")


def _print_item(item: Item, subscription: Subscription, tables: Any) -> None:
    from ..telemetry.gnmi.path import as_text
    from ..telemetry.gnmi.vendors import VendorRule

    timing = item.stream_mode if subscription.mode == "STREAM" else ""
    if timing and item.sample_ns:
        timing += f" every {format_duration(item.sample_ns)}"
    print(f"    {as_text(item.path.steps, item.path.origin)}  {timing}".rstrip())
    steps = (*(subscription.prefix.steps if subscription.prefix else ()), *item.path.steps)
    origin = (subscription.prefix.origin if subscription.prefix else "") or item.path.origin
    shown: set[str] = set()
    for entry in tables.meanings(steps):
        if isinstance(entry, VendorRule):
            columns = ", ".join(
                dict.fromkeys(
                    meaning.column
                    for leaf, meaning in entry.leaves.items()
                    if meaning.column and _asked_for(leaf, entry, steps)
                )
            )
            if not columns:
                continue
            line = f"{entry.table}: {columns}" + (f" ({entry.semantics})" if entry.semantics else "")
            line += f" by {entry.vendor}{_checked(entry.model)}" + (f"; {entry.note}" if entry.note else "")
            if entry.origin not in ("", origin):
                line += f"; subscribe with its origin: {entry.origin}:/…"
        else:
            line = f"fact: {entry.fact}{_checked(entry.model)}" + (f"; {entry.note}" if entry.note else "")
        if line not in shown:
            shown.add(line)
            print(f"      {line}")
    if not shown:
        print("      leaves: names and values only, since no table has this path")


def _checked(model: str) -> str:
    """Returns the model against which the table was checked."""
    return f" ({model.partition(':')[0]})" if model else ""


def _asked_for(leaf: str, rule: Any, steps: Any) -> bool:
    """Whether a subscription that reaches down to a leaf includes this one."""
    from ..telemetry.gnmi.path import without_module

    depth = len(rule.pattern.steps)
    return len(steps) <= depth or without_module(steps[depth][0]) in (leaf, "*", "...")
