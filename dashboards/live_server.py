"""The live view's web server: the page, a WebSocket that pushes what is new, and any moment on request.

Nothing is taken from another host. Whoever may reach the server has to be on this machine or to know its token, and
pages of other sites can neither read it (Host and Origin are checked) nor be shown in it (its policy forbids that).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import cache
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from .. import __version__
from ..errors import MburstError
from . import live_figures, palette
from .figures import axis_for
from .live_overview import overview
from .live_view import LiveView, Wish

COOKIE = "mburst-live"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
MOST_BUCKETS = 20_000
_GONE = (WebSocketDisconnect, RuntimeError, ValueError, KeyError, TypeError)  # the browser, or sense in what it says
SCRIPTS = ("format.js", "unpack.js", "envelope.js", "timeline.js", "senders.js", "live_tape.js", "live_drawing.js",
           "live_timeline.js", "live_heat.js", "live_bursts.js", "live_link.js", "live.js")
DRAWING_SCRIPTS = ("live_raster.js", "live_lines.js")
_HERE = Path(__file__).parent
_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
           "connect-src 'self' {}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'")
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}


class Gate:
    """Lets in who knows the token or, where there is none, who asks this machine by its own name."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        host, origin = connection.headers.get("host", ""), connection.headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc != host
        given = connection.query_params.get("token", "")
        if self.token and scope["type"] == "http" and self._is_token(given):
            answer: Response = RedirectResponse(connection.url.remove_query_params("token").path, 303, _HEADERS)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict",
                              secure=scope.get("scheme") == "https")
        elif foreign or not self._may(connection, host):
            answer = Response("This view needs its token: open the address that mburst live printed.\n", 403, _HEADERS)
        else:
            await self.app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def _may(self, connection: HTTPConnection, host: str) -> bool:
        if self.token:
            return self._is_token(connection.cookies.get(COOKIE, ""))
        return urlsplit(f"//{host}").hostname in LOOPBACK


def application(view: LiveView, title: str, token: str | None) -> ASGIApp:
    """The server as an ASGI application."""

    @contextlib.asynccontextmanager
    async def following(_app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(view.follow())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asked = _Answers(view, title)
    routes = [Route("/", asked.page), Route("/live.js", asked.script), Route("/lines.js", asked.lines),
              Route("/live.css", asked.style), Route("/plotly.js", asked.plotly), Route("/lanes", told(asked.lanes)),
              Route("/lane", told(asked.lane)), Route("/moment", told(asked.moment)),
              Route("/overview", told(asked.overview)), WebSocketRoute("/live", asked.live)]
    return Gate(Starlette(routes=routes, lifespan=following), token)


def told(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The same, with what a reader can act on as one line."""

    async def safe(request: Request) -> Response:
        try:
            return await answer(request)
        except MburstError as error:
            return Response(f"{error}\n", 404, _HEADERS)
        except (KeyError, ValueError) as error:
            return Response(f"the address lacks or misspells something: {error}\n", 400, _HEADERS)

    return safe


class _Answers:
    """One method for each address."""

    def __init__(self, view: LiveView, title: str) -> None:
        self.view = view
        self.title = title

    async def page(self, request: Request) -> Response:
        from html import escape

        template = Template((_HERE / "templates" / "live.html").read_text(encoding="utf-8"))
        sockets = f"{'wss' if request.url.scheme == 'https' else 'ws'}://{request.url.netloc}"
        return HTMLResponse(template.substitute(title=escape(self.title), version=__version__),
                            headers={**_HEADERS, "Content-Security-Policy": _POLICY.format(sockets)})

    async def script(self, request: Request) -> Response:
        return _text(_joined(SCRIPTS), "text/javascript")

    async def lines(self, request: Request) -> Response:
        return _text(_joined(DRAWING_SCRIPTS), "text/javascript")

    async def style(self, request: Request) -> Response:
        parts = [palette.css(), palette.css_of_choice(), _joined(("report.css", "live.css"))]
        return _text("\n".join(parts), "text/css")

    async def plotly(self, request: Request) -> Response:
        return Response(await run_in_threadpool(_plotly), headers={
            **_HEADERS, "Content-Type": "text/javascript; charset=utf-8", "Content-Encoding": "gzip",
            "Cache-Control": "private, max-age=86400"})

    async def lanes(self, request: Request) -> Response:
        return JSONResponse(self.view.lanes(), headers=_HEADERS)

    async def lane(self, request: Request) -> Response:
        lane = self.view.lane(request.query_params["lane"])
        threshold = self.view.watch.definition.threshold
        link = self.view.watch.definition.link_bps or lane.link_bps
        with self.view.live.lock:
            busiest = max((int(series.column("wire_bytes").max()) for series in lane.series.values() if len(series)),
                          default=0) * 8e9 / lane.bin_ns
        axis = axis_for(link, busiest)
        return JSONResponse({
            "id": lane.id, "link": link, "bin": lane.bin_ns, "factor": axis.factor, "suffix": axis.suffix,
            "threshold": threshold, "light": palette.LIGHT, "dark": palette.DARK, "heat": live_figures.heatmap(),
            "figures": [live_figures.timeline(axis, link, threshold, latency, queue)
                        for latency in (False, True) for queue in (False, True)],
        }, headers=_HEADERS)

    async def moment(self, request: Request) -> Response:
        asked = request.query_params
        start, end, origin = (int(asked[name]) for name in ("from", "to", "origin"))
        buckets = min(max(int(asked["buckets"]), 1), MOST_BUCKETS)
        if not 0 <= start < end < 2**62:
            raise ValueError("from is not before to")
        content = await run_in_threadpool(self.view.moment, asked["lane"], start, end, buckets, origin)
        return Response(content, media_type="application/octet-stream", headers=_HEADERS)

    async def overview(self, request: Request) -> Response:
        seconds = min(max(int(request.query_params["seconds"]), 1), 300)
        found = await run_in_threadpool(overview, self.view.live, request.query_params.get("rack", ""), seconds)
        return JSONResponse(found, headers=_HEADERS)

    async def live(self, socket: WebSocket) -> None:
        """A browser sends wishes ({lane, span, steps, origin} in JSON, nanoseconds as text); live_view makes what it
        gets."""
        await socket.accept()
        wishes: asyncio.Queue[Wish] = asyncio.Queue()
        waker = asyncio.Event()
        self.view.wakers.add(waker)
        tasks = {asyncio.create_task(_listen(socket, wishes, waker)),
                 asyncio.create_task(self._tell(socket, wishes, waker))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.view.wakers.discard(waker)
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, _GONE):
                    raise ended

    async def _tell(self, socket: WebSocket, wishes: asyncio.Queue[Wish], waker: asyncio.Event) -> None:
        """One message at a time: a slow browser misses none of the data, for the next one holds all that changed."""
        while True:
            wish = await wishes.get()
            try:
                message, position = await run_in_threadpool(self.view.start, wish)
                await socket.send_bytes(message)
                while wishes.empty():
                    await waker.wait()
                    waker.clear()
                    if wishes.empty():
                        message, position = self.view.change(wish, position)
                        await socket.send_bytes(message)
            except MburstError as error:
                await socket.send_json({"trouble": str(error)})


async def _listen(socket: WebSocket, wishes: asyncio.Queue[Wish], waker: asyncio.Event) -> None:
    while True:
        asked = await socket.receive_json()
        span = min(max(int(asked["span"]), 1_000_000), 300 * 10**9)
        steps = min(max(int(asked["steps"]), 1), MOST_BUCKETS)
        await wishes.put(Wish(str(asked["lane"]), span, steps, int(asked["origin"])))
        waker.set()


def _joined(names: Iterable[str]) -> str:
    """Files of the page as one."""
    return "\n".join((_HERE / "static" / name).read_text(encoding="utf-8") for name in names)


def _text(content: str, kind: str) -> Response:
    return Response(content, headers={**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"})


@cache
def _plotly() -> bytes:
    """plotly's script as the plotly package brings it, packed once."""
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6, mtime=0)
