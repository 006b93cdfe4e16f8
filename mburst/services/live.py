"""Serves the live view of a store, alone or during a recording into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import extras
from ..web.address import ListenAddress, listening

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

PORT = 8470
READY_S = 30.0
THREADS, WAITING = 4, 64  # threads that query the store for browsers, and queries that may wait for them
HINT = "open the address that `mburst live` printed"


class LiveService:
    """The web server of one live view. Raises MburstError if the extra `live` is not installed."""

    def __init__(
        self,
        store: StoreFolder,
        rack: str | None,
        definition: BurstDefinition,
        where: ListenAddress,
        title: str,
        dropped: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        try:
            import uvicorn  # noqa: F401
            import websockets  # noqa: F401  what uvicorn speaks WebSocket with

            from ..dashboards.live.server import application
            from ..web.gate import Gate
            from ..web.server import WebServer
        except ModuleNotFoundError as error:
            raise extras.lacking("the live view needs", error.name, "live") from error
        from ..analysis.live.bursts import LiveBursts
        from ..analysis.live.store import LiveStore
        from ..dashboards.live.view import LiveView
        from ..process.workers import Workers

        socket = listening(where)
        try:
            self.live = LiveStore(store, rack, dropped)
            self.view = LiveView(self.live, LiveBursts(self.live, definition))
            self.workers = Workers("mburst-live", THREADS, WAITING)
            self._server = WebServer(Gate(application(self.view, title, self.workers), where, HINT), socket, where)
        except BaseException:
            socket.close()
            raise
        self.url = where.url(socket.getsockname()[1]) + (f"?token={where.token}" if where.made else "")

    def run(self) -> None:
        """Serve until `stop` is called."""
        try:
            self._server.run()
        finally:
            self._close()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._server.should_exit = True

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Serve in a thread while the context is open."""
        thread = self._server.run_beside()
        try:
            yield
        finally:
            self.stop()
            thread.join(READY_S)
            self._close()

    def _close(self) -> None:
        self.workers.close(self.view.history.interrupt)
        self.view.close()
        self.live.close()
