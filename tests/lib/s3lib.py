"""A server of the S3 protocol (moto) on the loopback, whose answers a test may replace."""

from __future__ import annotations

import io
import logging
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from werkzeug.wrappers import Request, Response

BUCKET = "fleet"
ACCESS_KEY, SECRET_KEY = "AKIAOSTRICH99MBURST", "sEcret/OSTRICH99+key"
Fault = Callable[["Request"], "Response | None"]


class S3Server:
    """A bucket on its own server. If `fault(request)` returns something, that replaces the server's answer; `requests`
    are the requests so far, as "METHOD /path"."""

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.application = DomainDispatcherApplication(create_backend_app)
        files = tuple(map(str, certificate)) if certificate else None  # certificate and key: https
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, ssl_context=files)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_port}"
        self.fault: Fault | None = None
        self.requests: list[str] = []
        self._putting = threading.Lock()  # moto looks whether an object exists and then writes it; S3 does both at once
        self._thread.start()

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        from werkzeug.wrappers import Request

        request = Request(environ)
        self.requests.append(f"{request.method} {request.path}")
        environ["wsgi.input"] = io.BytesIO(request.get_data())  # a client waits until it has sent all
        answer = self.fault(request) if self.fault else None
        with self._putting if request.method == "PUT" else nullcontext():
            return (answer or self.application)(environ, start)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def serving(certificate: tuple[Path, Path] | None = None) -> Iterator[S3Server]:
    """Runs a server during the block."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = S3Server(certificate)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with serving() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server with an empty bucket, and the environment variables for it."""
    for name, value in environment(s3_server).items():
        monkeypatch.setenv(name, value)
    send(s3_server, "PUT", BUCKET)
    s3_server.requests.clear()
    yield s3_server
    s3_server.fault = None
    send(s3_server, "POST", "moto-api/reset")


def environment(server: S3Server) -> dict[str, str]:
    """Returns the environment variables that a shipper needs."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
    }


def send(server: S3Server, method: str, path: str) -> None:
    """Sends a request without credentials, which moto does not require."""
    urllib.request.urlopen(urllib.request.Request(f"{server.url}/{path}", method=method)).close()
