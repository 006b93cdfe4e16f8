"""`mburst live`: a page that shows, as it happens, what is stored or what an interface carries."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import temporary
from ..api import recording
from ..errors import MburstError, UsageError
from ..names import shown
from ..process import privileges
from ..process.stopping import exit_code, stopping
from . import definition, inputs, record, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..analysis.bursts.find import BurstDefinition
    from ..services.live import LiveService
    from ..services.record.recorder import RecordResult
    from ..services.record.recording import RecordProgress, RecordSettings
    from ..sql import StoreFolder
    from ..web.address import ListenAddress

BIN_OF_EITHER = f"{record.DEFAULT_BIN}, of a store as recorded"  # the default of --bin


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "live",
        help="show a store or an interface in the browser, as it is recorded",
        description="Serve a page that shows utilization by the bin beside the 1 s metric, bursts as they end "
        "with their senders, probes and switch queues, while they are recorded. The page shows a "
        "store that others write to, or an interface, which is recorded at the same time into "
        "--store or into a temporary store that is removed at the end. No request is sent to "
        "another host. Needs the extra `live`.",
    )
    parser.add_argument(
        "inputs", nargs="*", metavar="STORE|INTERFACE|FILTER", help="a store, or interfaces and an optional pcap filter"
    )
    web = parser.add_argument_group("the page")
    web.add_argument(
        "--listen",
        default="127.0.0.1:8470",
        metavar="ADDRESS:PORT",
        help="address to listen on (default: %(default)s, for this machine only)",
    )
    serving.add_options(web, "instead of a random one at each start, which is part of the printed address")
    definition.add_threshold_options(parser.add_argument_group("definition of a burst"))
    recorded = parser.add_argument_group(
        "recording (for a store: --rack selects the shown rack, --link is taken as line rate, and "
        "bursts are detected in bins of --bin)"
    )
    recorded.add_argument(
        "-o",
        "--store",
        metavar="STORE",
        help="keep the recording of an interface in this store; without an interface, show what others record into it; "
        "made if it does not exist",
    )
    record.add_recording_options(recorded, BIN_OF_EITHER)
    record.add_live_options(parser)
    record.add_user_option(parser)
    parser.set_defaults(run=run, bin=None, rack=None, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    if not arguments.token_file and not arguments.open:
        raise UsageError(
            "no token-file: what a part prints is logged, and a token must not be in a log",
            'write token-file = "FILE", or open = true to disable the token',
        )
    check(arguments)
    where_of(arguments)


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that are invalid together, or for what is shown."""
    if is_of_interface(arguments):
        recorded_definition(arguments)
        recording.check(**record.given(recorded_options(arguments)))
        return
    if arguments.inputs:
        check_store_options(arguments, Path(arguments.inputs[0]))
    elif not arguments.store:
        raise UsageError("live: no input", "name a store, or an interface to record")
    elif arguments.duration:
        raise UsageError("--duration is for an interface, and none is named")
    definition.definition_of(arguments)


def is_of_interface(arguments: argparse.Namespace) -> bool:
    """Whether an interface is shown, and not a store."""
    return bool(arguments.inputs) and not Path(arguments.inputs[0]).is_dir()


def where_of(arguments: argparse.Namespace) -> ListenAddress:
    """Returns the address to listen on. Raises MburstError."""
    from ..services.live import PORT

    return serving.where_of(arguments, PORT)


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    where = where_of(arguments)
    return _record(arguments, where) if is_of_interface(arguments) else _serve(arguments, where)


def _say(service: LiveService, what: str) -> None:
    print(f"{shown(what)}: {service.url}", flush=True)
    print("Ctrl-C ends it.", file=sys.stderr)


def check_store_options(arguments: argparse.Namespace, folder: Path) -> None:
    """Raise UsageError for options that apply only to an interface."""
    if arguments.store or len(arguments.inputs) > 1 or arguments.duration:
        raise UsageError(f"{folder} is a store: --store, --duration and a filter are for an interface")


def _serve(arguments: argparse.Namespace, where: ListenAddress) -> int:
    """Show a store until a signal. Returns the exit code."""
    from ..services.live import LiveService

    with _opened(arguments) as store:
        service = LiveService(store, arguments.rack, definition.definition_of(arguments), where, str(store.path))
        privileges.confine(where.reads, [store.path], made_in=store.made_in)
        privileges.drop()
        with stopping(service.stop) as ended_by, store.place.watched(service.stop):
            _say(service, f"live view of {store.path}")
            service.run()
    return exit_code(ended_by)


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[StoreFolder]:
    """Yields the store to show: an existing one, or that of --store, which is created if necessary. The process works
    as its owner from now on. Raises MburstError."""
    from ..sql import StoreFolder

    if arguments.inputs:
        folder = Path(arguments.inputs[0])
        privileges.lower(folder, arguments.user)
        yield StoreFolder.open(folder)
        return
    privileges.lower(arguments.store, arguments.user)
    serving.name_new_store(arguments.store)
    with StoreFolder.created(arguments.store) as store:
        yield store


def recorded_options(arguments: argparse.Namespace) -> argparse.Namespace:
    """Returns the options with the defaults of a recording."""
    return argparse.Namespace(
        **{**vars(arguments), "bin": arguments.bin or record.DEFAULT_BIN, "rack": arguments.rack or "unknown"}
    )


def interface_recordings(arguments: argparse.Namespace) -> list[RecordSettings]:
    """Returns the recordings of one or several interfaces. Raises MburstError if the input is not an interface."""
    from ..services.record.recording import is_live

    name = arguments.inputs[0]
    neither = MburstError(
        f"{name}: neither a store nor an interface of this machine",
        "`mburst record` makes a store of a capture, `mburst doctor` lists interfaces",
    )
    if arguments.backend == "auto" and not inputs.is_interface(name):
        raise neither
    recordings = record.recordings_of(recorded_options(arguments))
    if not is_live(recordings[0]):
        raise neither
    return recordings


@contextmanager
def recorded_store(arguments: argparse.Namespace) -> Iterator[StoreFolder]:
    """Yields the store for the recording: the one that --store names, or a temporary one."""
    from ..sql import StoreFolder

    with ExitStack() as stack:
        privileges.lower(arguments.store or temporary.place(), arguments.user)
        folder = arguments.store or stack.enter_context(temporary.folder("mburst-live-"))
        yield stack.enter_context(StoreFolder.created(folder))


def recorded_definition(arguments: argparse.Namespace) -> BurstDefinition:
    """Returns the definition of a burst for the recording, which uses --link itself. Raises UsageError."""
    return definition.definition_of(argparse.Namespace(**{**vars(arguments), "link": None}))


def interface_names(recordings: list[RecordSettings]) -> str:
    """Returns the names of the interfaces, for a title."""
    return ", ".join(one.targets[0] for one in recordings)


def confine(
    arguments: argparse.Namespace, recordings: list[RecordSettings], store: StoreFolder, reads: Sequence[str] = ()
) -> None:
    """Allow this process to write only to the store, and to read READS beside the inputs, from now on."""
    from ..services.record import pins
    from ..services.record.recording import opens_files

    if not opens_files(recordings[0]):
        writes = [store.path, *pins.folders(recordings)]
        removes = [] if arguments.store else [temporary.place()]
        privileges.confine([*recordings[0].targets, *reads], writes, removes, store.made_in)


class DroppedPackets:
    """The number of packets that the captures of this process have dropped so far. `have_begun`: whether any of them
    has reported."""

    def __init__(self) -> None:
        self.have_begun = False
        self._by_recording: dict[str, int] = {}

    def look(self, now: RecordProgress) -> None:
        """Take the report of one interface."""
        self.have_begun = True
        self._by_recording |= {row["recording_id"]: now.facts["dropped"] for row in now.recordings}

    def by_recording(self) -> dict[str, int]:
        """Returns the number of each recording's capture, by the recording's id."""
        return dict(self._by_recording)


def describe_end(arguments: argparse.Namespace, recorded: RecordResult) -> int:
    """Print what was recorded, and return the exit code."""
    kept = arguments.store or "a temporary store, removed now: use --store to keep one"
    print(record.describe_recordings(recorded.rows, [f"recorded into {kept}"]))
    return record.exit_code(recorded)


def _record(arguments: argparse.Namespace, where: ListenAddress) -> int:
    """Show an interface while it is recorded as in `mburst record`."""
    from ..api.recording import into
    from ..services.live import LiveService

    recordings = interface_recordings(arguments)
    names, dropped = interface_names(recordings), DroppedPackets()

    def progress(now: RecordProgress) -> None:
        if not dropped.have_begun:
            _say(service, f"live view of {names}")
        dropped.look(now)

    with recorded_store(arguments) as store:
        service = LiveService(store, None, recorded_definition(arguments), where, names, dropped.by_recording)
        confine(arguments, recordings, store, where.reads)
        with service.beside():
            recorded = into(store, recordings, progress)
        return describe_end(arguments, recorded)
