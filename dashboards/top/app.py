"""The terminal of `mburst top`: draws a live store, and handles keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from ...analysis.live.lane import LiveLane
from ...analysis.live.look import LiveLook
from ...analysis.live.rows import LATEST_NS, STALE_NS, newest_ns, read_row
from ...analysis.live.snapshot import History, read_bursts
from ...analysis.model import coverage
from ...analysis.model.losses import CaptureLoss
from ...errors import MburstError
from .screen import LEAST_HEIGHT, LEAST_WIDTH, TopView, columns, rows_shown, screen, suffixes
from .terminal import TerminalDriver, is_closed

LOOK_S = 0.5
WIDTHS_NS = [100_000, 10**6, 10**7, 10**8, 10**9]  # of a block
FIRST_WIDTH = 3
STEP = 4  # one key press goes back by a fourth of the shown time


class TopApp(App[None]):
    """The screen of `mburst top`."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen, Static { background: ansi_default; color: ansi_default; }
    Static { width: 100%; height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("space", "pause", "pause"),
        ("left", "move(-1)", "go back"),
        ("right", "move(1)", "go forward"),
        ("plus,equals_sign", "zoom(-1)", "zoom in"),
        ("minus", "zoom(1)", "zoom out"),
        ("up", "choose(-1)", "link above"),
        ("down", "choose(1)", "link below"),
        ("f", "follow", "follow"),
        ("q,ctrl+c", "quit", "quit"),
    ]

    def __init__(self, look: LiveLook, title: str) -> None:
        super().__init__(ansi_color=True, driver_class=TerminalDriver)
        self.look = look
        self.history = History(look.live, look.bursts.definition)
        self.lines: list[str] = []  # on the screen
        self._shown_of = title
        self._chosen = 0
        self._zoom = FIRST_WIDTH
        self._end_ns: int | None = None  # of the shown time; None: the newest
        self._drawing = asyncio.Lock()
        self._terminal_loop: asyncio.AbstractEventLoop | None = None
        self._over = False  # whether it should end

    def compose(self) -> ComposeResult:
        """Yields one text that fills the screen."""
        yield Static(markup=False)

    async def on_mount(self) -> None:
        """Draw, and check the store repeatedly."""
        self._terminal_loop = asyncio.get_running_loop()
        if self._over:
            self.exit()
        await self.draw()
        self.set_interval(LOOK_S, self.follow)

    async def on_resize(self) -> None:
        """Draw for the new size."""
        await self.draw()

    def end(self) -> None:
        """End the application, from another thread."""
        self._over = True
        if self._terminal_loop:
            with suppress(RuntimeError):  # the loop has ended
                self._terminal_loop.call_soon_threadsafe(self.exit)
        if terminal := self._terminal:
            terminal.output.end()  # the event loop may wait for a terminal that has stalled

    def exit(self, *given: Any, **named: Any) -> None:
        """End the application, even if the terminal has stalled."""
        if terminal := self._terminal:
            terminal.output.end()
        super().exit(*given, **named)

    @property
    def _terminal(self) -> TerminalDriver | None:
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    async def on_unmount(self) -> None:
        """Stop all queries."""
        self.history.interrupt()

    async def follow(self) -> None:
        """Take new rows, and draw them. Without a terminal, end."""
        if (terminal := self._terminal) and is_closed(terminal.fileno):
            self.exit()
        if await asyncio.to_thread(self.look) or self._is_behind():
            await self.draw()

    def _is_behind(self) -> bool:
        """Whether the newest is shown and is old, so that its age is on the screen and goes on."""
        lanes = self.lanes() if self._end_ns is None else []
        return bool(lanes) and time.time_ns() - newest_ns(lanes) > STALE_NS

    async def draw(self) -> None:
        """Show the state. Queries of older times are slow and run in a thread."""
        async with self._drawing:
            width, height = self.size.width, self.size.height
            found = await asyncio.to_thread(self._lines, width, height)
            lines = [line.plain for line in found]
            if self.is_running and lines != self.lines:
                self.lines = lines
                self.query_one(Static).update(Text("\n").join(found))

    def _lines(self, width: int, height: int) -> list[Text]:
        try:
            return screen(self._view(max(width, LEAST_WIDTH), max(height, LEAST_HEIGHT)), width, height)
        except MburstError as error:
            nothing = TopView(self._shown_of, [], 0, 0, 0, self._end_ns is None, 1.0, troubles=[str(error)])
            return screen(nothing, width, height)

    def lanes(self) -> list[LiveLane]:
        """Returns all lanes, by rack, host, interface and direction."""
        with self.look.live.lock:
            return sorted(self.look.live.lanes.values(), key=lambda lane: lane.id)

    def _view(self, width: int, height: int) -> TopView:
        lanes = self.lanes()
        shown = rows_shown(len(lanes), height)
        first = min(max(self._chosen - shown // 2, 0), max(len(lanes) - shown, 0))
        end = newest_ns(lanes) if self._end_ns is None else self._end_ns
        rows = [
            read_row(self.history, lane, end, WIDTHS_NS[self._zoom], columns(width))
            for lane in lanes[first : first + shown]
        ]
        bursts: Sequence[dict[str, Any]] = ()
        loss, losing, recording, is_port = CaptureLoss(), 0, False, False
        if lanes:
            lane, row = lanes[self._chosen], rows[self._chosen - first]
            begin = lane.complete_from_ns if self._end_ns is None else end - row.width_ns * len(row.fullest)
            bursts = read_bursts(self.history, lane, begin, LATEST_NS if self._end_ns is None else end)
            with self.look.live.lock:
                loss, recording, is_port = self.look.live.loss_of(lane), lane.recording, lane.is_port
                losing = coverage.length(lane.losing(lane.complete_from_ns, LATEST_NS))
        return TopView(
            self._shown_of,
            rows,
            self._chosen,
            len(lanes),
            first,
            self._end_ns is None,
            self.look.bursts.definition.threshold,
            bursts,
            loss,
            losing,
            is_port,
            recording,
            time.time_ns() - end,
            suffixes(lanes),
            self.look.lines,
        )

    def _span_ns(self) -> int:
        return WIDTHS_NS[self._zoom] * columns(max(self.size.width, LEAST_WIDTH))

    def _stop_at(self, end_ns: int | None) -> None:
        """Show the time up to END_NS: whole blocks, so that none changes any more."""
        self._end_ns = None if end_ns is None else end_ns // WIDTHS_NS[self._zoom] * WIDTHS_NS[self._zoom]

    async def action_pause(self) -> None:
        """Stop at the shown time, or follow the newest again."""
        self._stop_at(newest_ns(self.lanes()) if self._end_ns is None else None)
        await self.draw()

    async def action_follow(self) -> None:
        """Show the newest."""
        self._end_ns = None
        await self.draw()

    async def action_move(self, direction: int) -> None:
        """Go back or forward; beyond the newest, follow."""
        newest = newest_ns(self.lanes())
        end = (newest if self._end_ns is None else self._end_ns) + direction * self._span_ns() // STEP
        self._stop_at(None if end + WIDTHS_NS[self._zoom] > newest else max(end, self._span_ns()))
        await self.draw()

    async def action_zoom(self, direction: int) -> None:
        """Show less or more time in a block."""
        self._zoom = min(max(self._zoom + direction, 0), len(WIDTHS_NS) - 1)
        self._stop_at(self._end_ns)
        await self.draw()

    async def action_choose(self, direction: int) -> None:
        """Choose another lane for the list of bursts."""
        self._chosen = min(max(self._chosen + direction, 0), max(len(self.lanes()) - 1, 0))
        await self.draw()
