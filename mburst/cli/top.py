"""`mburst top`: the live view in a terminal."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import extras
from ..errors import MburstError
from ..process import privileges
from ..process.stopping import exit_code, stopping, stopping_by, wait_for_signals
from . import definition, live, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..analysis.bursts.find import BurstDefinition
    from ..services.record.recorder import RecordResult
    from ..services.record.recording import RecordProgress, RecordSettings
    from ..sql import StoreFolder

DESCRIPTION = """Show utilization in the terminal, for example over ssh: a row of blocks for each link and direction,
each as high as the fullest bin in it; beside it the last whole second, as monitoring shows it; bursts as they end,
with their senders; and losses. It shows a store that others write to, or an interface, which is recorded at the same
time into --store or into a temporary store that is removed at the end. Keys: space pauses, the arrows go back, forward
and to another link, + and - zoom, f follows the newest data, q ends it. Needs the extra `top`, and 80 × 24
characters."""


def add_parser(verbs: Any) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "top", help="show a store or an interface in the terminal, as it is recorded", description=DESCRIPTION
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="STORE|INTERFACE|FILTER", help="a store, or interfaces and an optional pcap filter"
    )
    definition.add_threshold_options(parser.add_argument_group("definition of a burst"))
    recording = parser.add_argument_group(
        "recording (for a store: --rack selects the shown rack, --link is taken as line rate, and "
        "bursts are detected in bins of --bin)"
    )
    recording.add_argument("-o", "--store", metavar="STORE", help="keep the recording of an interface in this store")
    record.add_recording_options(recording, live.BIN_OF_EITHER)
    record.add_live_options(parser)
    record.add_user_option(parser)
    parser.set_defaults(run=run, bin=None, rack=None)


def run(arguments: argparse.Namespace) -> int:
    """Show the view until it is ended."""
    check_terminal()
    target = Path(arguments.inputs[0])
    if target.is_dir():
        live.check_store_options(arguments, target)
        return _follow(arguments, target)
    return _record(arguments)


def check_terminal() -> None:
    """Raise MburstError if the terminal cannot show the view, or the extra is missing."""
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError as error:
        raise extras.lacking("the view needs", error.name, "top") from error
    hint = "`mburst live` shows the same in a browser, `mburst bursts` as text"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise MburstError("the view needs a terminal", hint)
    if os.environ.get("TERM", "dumb") == "dumb":
        raise MburstError("the view cannot be drawn here: TERM is dumb or not set", hint)
    if "utf" not in (sys.stdout.encoding or "").lower():
        raise MburstError(f"an output in {sys.stdout.encoding} has no blocks", "set PYTHONIOENCODING=utf-8")


def _follow(arguments: argparse.Namespace, folder: Path) -> int:
    """Show a store."""
    from ..sql import StoreFolder

    privileges.lower(folder, arguments.user)
    store = StoreFolder.open(folder)
    privileges.confine([], [folder])
    privileges.drop()
    lost = threading.Event()
    with store.place.watched(lost.set):
        return _show(definition.definition_of(arguments), store, arguments.rack, str(folder), ended=lost)


def _show(
    what: BurstDefinition,
    store: StoreFolder,
    rack: str | None,
    title: str,
    dropped: Callable[[], Mapping[str, int]] = dict,
    ended: threading.Event | None = None,
) -> int:
    """Draw until a key or a signal ends it, or ENDED is set."""
    from ..analysis.live.bursts import LiveBursts
    from ..analysis.live.look import LiveLook
    from ..analysis.live.store import LiveStore
    from ..dashboards.top.app import TopApp

    following = LiveStore(store, rack, dropped)
    try:
        app = TopApp(LiveLook(following, LiveBursts(following, what)), title)
        with stopping(app.end) as ended_by, stopping_by(ended, app.end):
            app.run()
        return exit_code(ended_by)
    finally:
        following.close()


class _BesideRecording:
    """A recording in a thread, because the terminal needs the main thread."""

    def __init__(self, store: StoreFolder, recordings: list[RecordSettings]) -> None:
        self.recorded: RecordResult | None = None
        self.dropped = live.DroppedPackets()
        self.ended = threading.Event()
        self._begun = threading.Event()
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(store, recordings), name="mburst-record")

    def _work(self, store: StoreFolder, recordings: list[RecordSettings]) -> None:
        from ..api.recording import into

        try:
            self.recorded = into(store, recordings, self._progress, lambda stop: stopping_by(self._stop, stop))
        except BaseException as error:
            self._failed = error
        finally:
            self._begun.set()
            self.ended.set()

    def _progress(self, now: RecordProgress) -> None:
        self.dropped.look(now)
        self._begun.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the recording; the context begins with its first packets. Raises what the recording raised."""
        self._thread.start()
        try:
            wait_for_signals(self._begun.wait)
            if self._failed is None:
                yield
        finally:
            self._stop.set()
            self._thread.join()
        if self._failed is not None:
            raise self._failed


def _record(arguments: argparse.Namespace) -> int:
    """Show an interface while it is recorded as in `mburst record`."""
    recordings, what = live.interface_recordings(arguments), live.recorded_definition(arguments)
    with live.recorded_store(arguments) as store:
        live.confine(arguments, recordings, store)
        beside = _BesideRecording(store, recordings)
        with beside.running():
            code = _show(what, store, None, live.interface_names(recordings), beside.dropped.by_recording, beside.ended)
        return (live.describe_end(arguments, beside.recorded) if beside.recorded else 0) or code
