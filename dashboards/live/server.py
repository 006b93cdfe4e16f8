"""The live view as a web application: the page, a WebSocket that pushes new data, and any moment on request.

Nothing is fetched from another host, and the policy of the page forbids embedding it in other sites. Access is checked
before the application is called (mburst/web). Slow work is done by workers, so that the event loop never waits for the
store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from ...errors import MburstError
from ...names import shown
from ...process.workers import Busy, Workers
from ..common import page, palette, plotlyjs
from ..common.figures import axis_for
from . import figures as live_figures
from .overview import overview
from .shared import SharedMessages
from .view import LiveView
from .wishes import LATEST_NS, MOST_BUCKETS, ViewRequests, clamped, name_of, time_of, whole_of, wish_of

INVALID = 1007  # close code of a WebSocket with invalid messages
_GONE = (WebSocketDisconnect, RuntimeError, OSError)  # the browser
SCRIPTS = (
    "common/format.js",
    "common/unpack.js",
    "common/envelope.js",
    "common/fit.js",
    "common/touches.js",
    "common/recolour.js",
    "common/points.js",
    "common/timeline.js",
    "common/senders.js",
    "live/tape.js",
    "live/drawing.js",
    "live/timeline.js",
    "live/heat.js",
    "live/bursts.js",
    "live/link.js",
    "live/page.js",
)
DRAWING_SCRIPTS = ("common/points.js", "live/raster.js", "live/lines.js")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self' {}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


def application(view: LiveView, title: str, workers: Workers) -> ASGIApp:
    """Returns the server as an ASGI application."""

    @contextlib.asynccontextmanager
    async def following(_app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(view.follow())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asked = _Answers(view, title, workers)
    routes = [
        Route("/", asked.page),
        Route("/live.js", asked.script),
        Route("/lines.js", asked.lines),
        Route("/live.css", asked.style),
        Route("/plotly.js", asked.plotly),
        Route("/lanes", one_line(asked.lanes)),
        Route("/lane", one_line(asked.lane)),
        Route("/moment", one_line(asked.moment)),
        Route("/overview", one_line(asked.overview)),
        WebSocketRoute("/live", asked.live),
    ]
    return Starlette(routes=routes, lifespan=following)


def one_line(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Returns the same handler, with an error as one line that says what to do."""

    async def safe(request: Request) -> Response:
        try:
            return await answer(request)
        except Busy as error:
            return _line(str(error), 503, {"Retry-After": "2"})
        except MburstError as error:
            return _line(str(error), 404)
        except ValueError as error:
            return _line(f"invalid request: {error}", 400)

    return safe


class _Answers:
    """One method for each address."""

    def __init__(self, view: LiveView, title: str, workers: Workers) -> None:
        self.view = view
        self.title = title
        self.run = workers.run
        self.packed: asyncio.Task[plotlyjs.PackedScript] | None = None
        self.shared = SharedMessages(view, workers)

    async def page(self, request: Request) -> Response:
        sockets = f"{'wss' if request.url.scheme == 'https' else 'ws'}://{request.url.netloc}"
        return HTMLResponse(
            page.render("live/page.html", title=self.title),
            headers={"Content-Security-Policy": _POLICY.format(sockets)},
        )

    async def script(self, request: Request) -> Response:
        return _text(page.static(*SCRIPTS), "text/javascript")

    async def lines(self, request: Request) -> Response:
        return _text(page.static(*DRAWING_SCRIPTS), "text/javascript")

    async def style(self, request: Request) -> Response:
        parts = [palette.css(), palette.css_of_choice(), page.static("common/page.css", "live/page.css")]
        return _text("\n".join(parts), "text/css")

    async def plotly(self, request: Request) -> Response:
        if self.packed is None:  # once, for all
            self.packed = asyncio.create_task(self.run(lambda: plotlyjs.packed()))
        return Response(
            (await asyncio.shield(self.packed)).gzip,
            headers={
                "Content-Type": "text/javascript; charset=utf-8",
                "Content-Encoding": "gzip",
                "Cache-Control": "private, max-age=86400",
            },
        )

    async def lanes(self, request: Request) -> Response:
        return JSONResponse(await self.run(self.view.lanes))

    async def lane(self, request: Request) -> Response:
        return JSONResponse(await self.run(self._lane, name_of(request.query_params, "lane")))

    def _lane(self, name: str) -> dict[str, Any]:
        """Returns the properties of a lane that the page needs before it draws it."""
        lane = self.view.lane(name)
        threshold = self.view.bursts.definition.threshold
        link = self.view.bursts.definition.line_bps(lane.link_bps)
        with self.view.live.lock:
            busiest = (
                max(
                    (int(series.column("wire_bytes").max()) for series in lane.series.values() if len(series)),
                    default=0,
                )
                * 8e9
                / lane.bin_ns
            )
        axis = axis_for(link, busiest)
        return {
            "id": lane.id,
            "link": link,
            "bin": lane.bin_ns,
            "factor": axis.factor,
            "suffix": axis.suffix,
            "threshold": threshold,
            "light": palette.LIGHT,
            "dark": palette.DARK,
            "heat": live_figures.heatmap(),
            "figures": [
                live_figures.timeline(axis, link, threshold, latency, queue)
                for latency in (False, True)
                for queue in (False, True)
            ],
        }

    async def moment(self, request: Request) -> Response:
        asked = request.query_params
        start, end, origin = (time_of(asked, name) for name in ("from", "to", "origin"))
        buckets = clamped(whole_of(asked, "buckets"), 1, MOST_BUCKETS)
        if not start < end < LATEST_NS:
            raise ValueError("from is not before to")
        content = await self.run(self.view.moment, name_of(asked, "lane"), start, end, buckets, origin)
        return Response(content, media_type="application/octet-stream")

    async def overview(self, request: Request) -> Response:
        seconds = clamped(whole_of(request.query_params, "seconds"), 1, 300)
        rack = request.query_params.get("rack", "")
        return JSONResponse(await self.run(overview, self.view.live, rack, seconds))

    async def live(self, socket: WebSocket) -> None:
        """Serves a browser: it sends view requests (wishes), and receives the messages of the view."""
        await socket.accept()
        wishes = ViewRequests()
        self.view.wakers.add(wishes.waker)
        tasks = {asyncio.create_task(_listen(socket, wishes)), asyncio.create_task(self._push(socket, wishes))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.view.wakers.discard(wishes.waker)
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, _GONE):
                    raise ended

    async def _push(self, socket: WebSocket, wishes: ViewRequests) -> None:
        """Sends one message at a time: a slow browser misses no data, because the next message has all changes."""
        while True:
            wish = await wishes.take()
            try:
                message, position = await self.shared.start(wish)
                await socket.send_bytes(message)
                while wishes.none:
                    await wishes.waker.wait()
                    wishes.waker.clear()
                    if wishes.none:
                        message, position = await self.shared.change(wish, position)
                        await socket.send_bytes(message)
            except Busy:
                wishes.put(wish)
                await asyncio.sleep(1)
            except MburstError as error:
                await socket.send_json({"trouble": str(error)})


async def _listen(socket: WebSocket, wishes: ViewRequests) -> None:
    """Takes view requests until one is invalid."""
    while True:
        message = await socket.receive()
        if message["type"] != "websocket.receive":
            return
        try:
            wishes.put(wish_of(message.get("text") or ""))
        except ValueError as error:
            await socket.send_json({"trouble": f"invalid request: {error}"})
            return await socket.close(INVALID)


def _line(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Returns a line for people."""
    return PlainTextResponse(f"{shown(text)}\n", status, headers)


def _text(content: str, kind: str) -> Response:
    return Response(content, headers={"Content-Type": f"{kind}; charset=utf-8"})
