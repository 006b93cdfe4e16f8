"""`mburst schedule`: write and deliver reports when they are due, by systemd, cron, Kubernetes or a loop."""

from __future__ import annotations

import argparse
import os
import ssl
import sys
import threading
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .. import files
from ..errors import MburstError, UsageError
from ..messages import print_lines, print_message, report_lines
from ..process import privileges
from ..process.stopping import exit_code, stopping

if TYPE_CHECKING:
    from ..agent.config import RunConfig, ScheduledReport

LOOK_S = 1.0  # interval of checking whether a folder was created
DESCRIPTION = """Write and deliver the reports of a file when they are due: install systemd timers for them, or print
the configuration of cron or Kubernetes. All of these call `mburst schedule --once NAME`, which writes the reports of
the last whole period if they are missing, delivers reports that were not delivered, and can be called any number of
times."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("schedule", help="write and deliver reports regularly", description=DESCRIPTION)
    parser.add_argument(
        "config",
        metavar="FILE",
        nargs="?",
        default="mburst.toml",
        help="configuration with [[report]] and [[deliver]] (default: %(default)s)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--print", dest="form", choices=["systemd", "cron", "kubernetes"], help="print it instead of installing timers"
    )
    what.add_argument("--remove", action="store_true", help="remove the timers")
    what.add_argument(
        "--once", metavar="NAME", help="write and deliver this report now, if it is due; all: every report"
    )
    what.add_argument("--loop", action="store_true", help="keep the schedule until a signal")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--user", dest="system", action="store_false", help="timers of the calling user (default, except for root)"
    )
    where.add_argument("--system", dest="system", action="store_true", help="timers of the system (default for root)")
    parser.set_defaults(run=run, system=None)


def run(arguments: argparse.Namespace) -> int:
    """Install, print or remove timers, or do what is due."""
    from ..agent.config import load, load_to_remove
    from ..agent.schedule import timers

    delivers = bool(arguments.once or arguments.loop)
    file = Path(arguments.config)
    config = load_to_remove(file) if arguments.remove else load(file, fill=delivers)
    unwritten = [] if delivers or arguments.remove else _unwritten(config, arguments.form)
    for warning in [*config.environment.warnings, *unwritten]:
        print_message(warning)
    if not config.reports:
        raise UsageError(f"{config.path}: no [[report]]", "`mburst run --init` writes an example")
    system = os.geteuid() == 0 if arguments.system is None else arguments.system
    if delivers:
        os.environ.update(config.environment.merged())  # credentials for the bucket with a fleet's results
        folders = settle(config)
    if arguments.once:
        return once(config, arguments.once)
    if arguments.loop:
        return keep(config, folders)
    if arguments.form == "systemd":
        for name, text in timers.units(config, system).items():
            print(f"# {name}\n{text}")
        for folder, user in timers.missing(config).items() if system else ():
            print(f"# {_lacking(folder, user)}")
    elif arguments.form:
        sys.stdout.write({"cron": timers.cron, "kubernetes": timers.kubernetes}[arguments.form](config))
    elif arguments.remove:
        removed = timers.remove(config, system)
        print("\n".join(f"removed: {path}" for path in removed) or "there was nothing to remove")
    else:
        units = timers.units(config, system)
        for folder, user in timers.make_folders(config).items() if system else ():
            print_message(_lacking(folder, user))
        for path in timers.install(units, system):
            print(f"installed: {path}")
    return 0


def _lacking(folder: Path, user: str) -> str:
    return f"{folder}: create this folder for user {user}: the service cannot, and writes no report without it"


def _unwritten(config: RunConfig, form: str | None) -> list[str]:
    """Returns a warning about variables that the configuration refers to and that later calls will not find in its .env
    file."""
    names = ", ".join(config.environment.lacking())
    place = "the Secret mburst" if form == "kubernetes" else str(config.environment.path.resolve())
    return [f"{names}: write to {place}, since a timer does not have the environment of this shell"] if names else []


def settle(config: RunConfig) -> list[Path]:
    """Work as the owner of the stores, with the right to write only to them, to reports and to folders of deliveries.
    If root runs this and the stores have several owners, stay root, with access only to these folders. Returns the
    folders; the restriction applies to those that exist now."""
    from ..agent.delivery import folders_of

    stores = {report.place: privileges.owner_of(report.place).uid for report in config.reports}
    is_one = len(set(stores.values())) == 1
    if is_one:
        privileges.lower(next(iter(stores)))
    delivered = [path for to in config.deliveries.values() for path in folders_of(to)]
    folders = dict.fromkeys([*delivered, *(report.output for report in config.reports)])
    private = {files.real(report.output) for report in config.reports}
    # A missing folder could not be allowed. The public ones are made first, so that all can pass what is above them.
    for folder in sorted(folders, key=lambda folder: files.real(folder) in private):
        with suppress(OSError):  # reported when the folder is written
            files.make_folder(folder, files.GROUP if files.real(folder) in private else files.PUBLIC)
    trusted = [path for path in ssl.get_default_verify_paths()[:2] if path]
    for inventory in filter(None, (report.source.inventory for report in config.reports)):
        trusted += [str(inventory), *(str(privileges.lasting(path)) for path in (inventory, files.real(inventory)))]
    privileges.confine(trusted, [*stores, *folders])
    privileges.drop(keep=[] if is_one else [privileges.DAC_OVERRIDE, privileges.DAC_READ_SEARCH])
    return [*stores, *folders]


def once(config: RunConfig, name: str) -> int:
    """Write and deliver one report, or all. Returns 1 if a delivery failed."""
    from ..agent.schedule.due import carry_out

    failed = sum(carry_out(config, report, time.time_ns(), print_lines) for report in chosen(config, name))
    return 1 if failed else 0


def chosen(config: RunConfig, name: str) -> list[ScheduledReport]:
    """Returns the report with that name, or all. Raises UsageError."""
    found = [report for report in config.reports if name in (report.name, "all")]
    if not found:
        raise UsageError(
            f"{config.path}: unknown [[report]] {name!r}",
            f"there are {', '.join(report.name for report in config.reports)}",
        )
    return found


def keep(config: RunConfig, folders: Collection[Path]) -> int:
    """Write and deliver reports when they are due, until a signal; a delivery in flight is finished first. FOLDERS is
    the result of `settle`. Raises MburstError if one of them was replaced or created after the start."""
    from ..agent.schedule.due import loop
    from ..sql.place import StorePlace

    stop = threading.Event()
    absent = [folder for folder in folders if not os.path.lexists(folder)]
    with stopping(stop.set) as ended_by, ExitStack() as watched:
        for place in filter(os.path.isdir, dict.fromkeys(folders)):
            watched.enter_context(StorePlace(place).watched(stop.set))
        loop(config, lambda seconds: wait(stop, absent, seconds), report_lines, stop.wait)
    return exit_code(ended_by)


def wait(stop: threading.Event, absent: Collection[Path], seconds: float) -> bool:
    """Wait for STOP, and return whether it was set. Raises MburstError if a folder in ABSENT was created."""
    until = time.monotonic() + seconds
    while not stop.wait(min(LOOK_S, max(0.0, until - time.monotonic()))) and time.monotonic() < until:
        for folder in filter(os.path.exists, absent):
            raise MburstError(f"{folder}: made since this process began, which may not use it", "start it again")
    return stop.is_set()
