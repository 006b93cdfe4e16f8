"""The ring in which a recording from an interface keeps its last packets (--keep-packets): its folder, and its
reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...packets import ring
from ...units import format_bytes, format_count
from .reserve import default_reserve

if TYPE_CHECKING:
    from ...capture import Facts
    from .recording import RecordSettings

AHEAD = 1.5  # multiple of the reserve below which no packets are kept, so that senders and bins can continue


class PacketKeeper:
    """Keeps the packets of one recording into STORE. SAY is called when packets are not kept, and when they are kept
    again."""

    def __init__(self, store: Path, recording: RecordSettings, say: Callable[[MburstError], None]) -> None:
        self._say = say
        self._opened = ExitStack()
        self._trouble = ""
        self._lost = 0
        self._options: dict[str, Any] = {}
        self.folder: Path | None = None
        live = recording.live
        if live.keep_bytes:
            name = recording.interface or recording.targets[0]
            file, self.folder = self._opened.enter_context(ring.taken(store, recording.host, name))
            least = default_reserve(store) if live.reserve_bytes is None else live.reserve_bytes
            self._options = {
                "keep_folder": file,
                "keep_bytes": live.keep_bytes,
                "keep_reserve_bytes": int(AHEAD * least),
            }

    def options(self) -> dict[str, Any]:
        """Returns the options for Capture."""
        return self._options

    def look(self, facts: Facts) -> None:
        """Report changes."""
        kept = facts["kept"]
        if kept is None:
            return
        if kept["trouble"] != self._trouble:
            self._trouble = kept["trouble"]
            self._say(
                MburstError(f"{self.folder}: packets are not kept: {self._trouble}; bins go on")
                if self._trouble
                else MburstError(f"{self.folder}: packets are kept again")
            )
        elif not self._trouble and kept["lost"] > self._lost:
            self._say(MburstError(f"{self.folder}: packets come faster than the disk takes them: not all are kept"))
        self._lost = kept["lost"]

    def notes(self, facts: Facts) -> list[str]:
        """Returns how many packets were kept, for the notes of the recording."""
        kept = facts["kept"]
        if kept is None:
            return []
        size = format_bytes(kept["bytes"])
        text = (
            f"{format_count(kept['packets'], f'packet ({size}) was', f'packets ({size}) were')} kept in {self.folder}"
        )
        lost = f", {format_count(kept['lost'], 'packet was', 'packets were')} not" if kept["lost"] else ""
        return [text + lost]

    def close(self) -> None:
        """Release the folder. Called after the capture is closed."""
        self._opened.close()
