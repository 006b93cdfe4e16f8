"""Access control of the web servers. A browser on the same machine or network may display pages of any site. Requests
that it sends on behalf of another site are refused: by a foreign Origin, by Fetch Metadata, or by a host name of that
site that resolves to this server (DNS rebinding)."""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..messages import print_message
from .address import ListenAddress, is_loopback

COOKIE = "mburst-{}"  # with the port: browsers do not separate the cookies of two ports of a host
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
MALFORMED, FOREIGN, UNKNOWN = "malformed Host", "cross-site request refused", "token required"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::(\d{1,5}))?")


@dataclass(frozen=True)
class Refusal:
    """The reason why a request is refused."""

    status: int
    text: str


def host_of(header: str) -> str | None:
    """Returns the host in a Host header, in lower case; None if the header is malformed."""
    found = _HOST.fullmatch(header)
    if not found or int(found[2] or 0) > 65535:
        return None
    name = found[1].lower()
    if not name.startswith("["):
        return name.removesuffix(".")
    try:
        return str(ipaddress.IPv6Address(name[1:-1]))
    except ValueError:
        return None


class ServerNames:
    """The names of this server. A site that makes its own name resolve to this server (DNS rebinding) cannot use one of
    these. A server that requires a token and is reachable from elsewhere accepts any name, because it does not know all
    of its own."""

    def __init__(self, where: ListenAddress) -> None:
        self.loopback = where.loopback
        self.any = bool(where.token) and not where.loopback
        own = set() if self.loopback else {where.host, socket.gethostname(), socket.getfqdn()}
        self.known = {name.lower().rstrip(".") for name in {"localhost", *own, *where.names}}

    def has(self, host: str) -> bool:
        """Whether HOST is a name of this server or an IP address; if only this machine reaches the server, a loopback
        address."""
        if self.any or host in self.known:
            return True
        try:
            return is_loopback(host) or not self.loopback
        except ValueError:  # a name that is not known
            return False


class Gate:
    """Admits permitted requests, and adds HEADERS to every answer. If there is a token, it is required as a Bearer, or
    in the cookie that the URL with `?token=` sets. `hint` says how to get it."""

    def __init__(self, app: ASGIApp, where: ListenAddress, hint: str) -> None:
        self.app = app
        self.token = where.token
        self.hint = hint
        self.names = ServerNames(where)
        self.reported: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        port = (scope.get("server") or ("", 0))[1]
        refusal = self._foreign(connection)
        given = re.search(rb"(?:^|&)token=([^&]*)", scope["query_string"]) if self.token else None
        if not refusal and given and scope["type"] == "http" and self._is_token(given[1]):
            await self._welcome(connection, port)(scope, receive, _with_headers(send))
        elif refusal := refusal or self._stranger(connection, port):
            await self._refuse(refusal, scope, receive, send)
        else:
            await self._answer(scope, receive, _with_headers(send) if scope["type"] == "http" else send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the application's answer. If it fails, report the kind of failure, and nothing of the request."""
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except Exception as error:
            self._report(type(error).__name__)
            if scope["type"] == "http" and not begun:  # else the connection is closed, because the answer is incomplete
                await PlainTextResponse("internal error\n", 500)(scope, receive, send)

    def _report(self, kind: str) -> None:
        """Report the first error of each kind, so that nobody can fill a log."""
        if kind not in self.reported:
            self.reported.add(kind)
            print_message(f"internal error in the web server: {kind}")

    def _foreign(self, connection: HTTPConnection) -> Refusal | None:
        """Returns a refusal for malformed requests, and for those that another site may have made a browser send."""
        headers = connection.headers
        named = headers.getlist("host")
        host = host_of(named[0]) if len(named) == 1 else None
        if host is None:
            return Refusal(400, MALFORMED)
        if not self.names.has(host):
            return Refusal(403, "unknown name of this server: use its IP address or host name, or --server-name")
        if _is_cross_site(headers, connection.scope["path"]):
            return Refusal(403, FOREIGN)
        origin = headers.get("origin")
        if origin is not None and not _same_origin(origin, named[0], connection.scope.get("scheme", "")):
            return Refusal(403, FOREIGN)
        return None

    def _stranger(self, connection: HTTPConnection, port: int) -> Refusal | None:
        if not self.token:
            return None
        kind, _, bearer = connection.headers.get("authorization", "").partition(" ")
        shown = [connection.cookies.get(COOKIE.format(port), ""), bearer.strip() if kind.lower() == "bearer" else ""]
        return (
            None
            if any([self._is_token(one.encode("utf-8", "replace")) for one in shown])
            else Refusal(403, f"{UNKNOWN}: {self.hint}")
        )

    def _is_token(self, given: bytes) -> bool:
        return hmac.compare_digest(given, (self.token or "").encode())

    def _welcome(self, connection: HTTPConnection, port: int) -> Response:
        """Set the token as a cookie, and redirect to the URL without it."""
        answer = RedirectResponse(connection.scope["path"] if connection.scope["path"] == "/metrics" else "/", 303)
        answer.set_cookie(
            COOKIE.format(port),
            self.token or "",
            httponly=True,
            samesite="strict",
            secure=connection.scope.get("scheme") == "https",
        )
        return answer

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        await PlainTextResponse(f"{refusal.text}\n", refusal.status)(scope, receive, _with_headers(send))


def _is_cross_site(headers: Mapping[str, str], path: str) -> bool:
    """Whether Fetch Metadata shows that another site sent the request. A link to the page itself is allowed."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    follows = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (follows and path == "/")


def _same_origin(origin: str, host: str, scheme: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    encrypted = scheme in ("https", "wss")
    return parts.netloc.lower() == host.lower() and parts.scheme in ("https", "" if encrypted else "http")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
