"""Targets: an object is created once and never changes, in a bucket (moto's S3 server) and in a folder alike."""

from __future__ import annotations

import http.server
import itertools
import os
import threading
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from authority import Authority
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from s3lib import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, serving
from werkzeug.wrappers import Response

from mburst.errors import MburstError, UsageError
from mburst.fleet import bucket
from mburst.fleet.target import FleetTarget, NoSuchObject, StoredObject, TargetError, open_target

ERROR = (
    f"<?xml version='1.0'?><Error><Code>%s</Code><Message>to {SECRET_KEY}: no</Message><Key>{ACCESS_KEY}</Key></Error>"
)


@pytest.fixture(params=["bucket", "folder"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> FleetTarget:
    if request.param == "folder":
        return open_target(tmp_path / "archive")
    request.getfixturevalue("s3")
    return open_target(f"s3://{BUCKET}/a prefix")


def test_an_object_is_created_once_and_never_changed(target: FleetTarget) -> None:
    key = "bins/date=2026-11-20/rack=r%2F1/h%7Eost-0.parquet"
    assert target.holds(key, b"abc") is None
    assert target.put_new(key, b"abc") and not target.put_new(key, b"abd") and not target.put_new(key, b"abc")
    assert target.get(key) == b"abc"
    assert (target.holds(key, b"abc"), target.holds(key, b"abd"), target.holds(key, b"ab")) == (True, False, False)


def test_a_result_replaces_another(target: FleetTarget) -> None:
    for content in (b"abc", b"longer than before", b""):
        target.replace("hours/date=2026-11-20/rack=r1/rack.parquet", content)
        assert target.get("hours/date=2026-11-20/rack=r1/rack.parquet") == content
    assert len(list(target.list())) == 1


def test_files_are_read_as_they_were_put(target: FleetTarget, tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "sent").write_bytes(content)
    assert target.put_new("a/b", tmp_path / "sent")
    target.fetch("a/b", tmp_path / "come")
    assert (tmp_path / "come").read_bytes() == content
    with pytest.raises(MburstError, match="come: cannot write: File exists"):
        target.fetch("a/b", tmp_path / "come")
    assert (tmp_path / "come").read_bytes() == content
    calls = (target.get, target.sha256, lambda key: target.fetch(key, tmp_path / "none"))
    for call, key in itertools.product(calls, ("b", "c/d")):
        with pytest.raises(NoSuchObject):
            call(key)
    assert not (tmp_path / "none").exists()


def test_objects_are_listed_by_prefix(target: FleetTarget) -> None:
    assert list(target.list()) == [] == list(target.list("a/"))
    keys = ["a/1", "a/2/3", "a-b", "ab/1", "shipped/rack=/host=%C3%A4/x.json"]
    for key in keys:
        assert target.put_new(key, key.encode())
    assert list(target.list()) == [StoredObject(key, len(key)) for key in sorted(keys)]
    assert [found.key for found in target.list("a/")] == ["a/1", "a/2/3"]


def test_of_many_concurrent_creates_of_an_object_one_succeeds(target: FleetTarget) -> None:
    contents = [bytes([n]) * 100_000 for n in range(8)]
    made: list[bytes] = []

    def make(content: bytes) -> None:
        if target.put_new("a/b", content):
            made.append(content)

    threads = [threading.Thread(target=make, args=[content]) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [content] = made
    assert target.get("a/b") == content and [found.key for found in target.list()] == ["a/b"]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=3))
def test_no_key_leads_out_of_a_folder(tmp_path: Path, parts: list[str]) -> None:
    folder = tmp_path / "there" / "archive"
    folder.parent.mkdir(exist_ok=True)
    target = open_target(folder)
    try:
        target.put_new("/".join(parts), b"x")
    except TargetError:
        return
    assert [path for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents] == []


def test_a_folder_that_is_not_mounted_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"archive/a: cannot write: No such file or directory") as caught:
        open_target(tmp_path / "mnt" / "archive").put_new("a", b"x")
    assert caught.value.hint == "make the folder above it, or mount its disk"
    assert list(tmp_path.iterdir()) == []


def test_a_draft_of_a_killed_process_is_not_an_object(tmp_path: Path) -> None:
    target = open_target(tmp_path / "archive")
    target.put_new("a/b", b"x")
    (tmp_path / "archive" / "a" / "#0123456789abcdef").write_bytes(b"half")
    assert [found.key for found in target.list()] == ["a/b"]
    (tmp_path / "archive" / "a" / "#of today").write_bytes(b"half")
    os.utime(tmp_path / "archive" / "a" / "#0123456789abcdef", (0, 0))
    open_target(tmp_path / "archive").put_new("a/c", b"x")
    assert sorted(path.name for path in (tmp_path / "archive" / "a").iterdir()) == ["#of today", "b", "c"]


# --- a bucket ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets fewer retries than usual."""
    monkeypatch.setattr(bucket, "RETRIES", 2)


def answering(server: S3Server, status: int, code: str, times: int = 1000) -> Counter[str]:
    """Makes the server answer the next requests with this error; returns the number of these requests by method."""
    met: Counter[str] = Counter()

    def fault(request: object) -> Response | None:
        if met.total() >= times:
            return None
        met[request.method] += 1  # type: ignore[attr-defined]
        return Response(ERROR % code, status)

    server.fault = fault
    return met


def test_a_request_to_a_throttled_bucket_is_repeated(s3: S3Server) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    met = answering(s3, 503, "SlowDown", times=2)
    assert target.put_new("a", b"x")
    assert met == {"PUT": 2} and target.get("a") == b"x"


@pytest.mark.parametrize(
    "status, code, stated",
    [
        (503, "SlowDown", "503 Service Unavailable: SlowDown: to …: no (2 retries)"),
        (500, "InternalError", "500 Internal Server Error: InternalError: to …: no (2 retries)"),
        (403, "AccessDenied", "403 Forbidden: AccessDenied: to …: no"),
        (404, "NoSuchBucket", "there is no such bucket"),
    ],
)
def test_a_refusal_of_a_server_is_one_line_without_secrets(
    s3: S3Server, patient: None, status: int, code: str, stated: str
) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    met = answering(s3, status, code)
    with pytest.raises(TargetError) as caught:
        target.put_new("a", b"x")
    assert stated in str(caught.value) and caught.value.hint
    assert not {ACCESS_KEY, SECRET_KEY} & {*str(caught.value).split()} and "\n" not in str(caught.value)
    assert met.total() <= bucket.RETRIES + 1


@pytest.mark.parametrize("headers", [{}, {"Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT", "ETag": '"1"'}])
def test_a_page_in_place_of_a_list_is_no_empty_bucket(s3: S3Server, patient: None, headers: dict[str, str]) -> None:
    """A proxy answers each request with a page that is XML."""
    target = open_target(f"s3://{BUCKET}/p")
    target.put_new("a", b"x")
    page = "<?xml version='1.0'?><html><body><p>Sign in</p></body></html>"
    s3.fault = lambda request: Response(page, 200, headers)
    for prefix in ("", "a/"):
        with pytest.raises(TargetError, match=r"^s3://fleet/p.*: cannot list: an empty list, but ") as caught:
            list(target.list(prefix))
        assert "proxy" in caught.value.hint and "\n" not in str(caught.value)


@pytest.mark.parametrize(("status", "hint"), [(503, "later"), (401, "credentials")])
def test_an_empty_list_that_cannot_be_verified_now(s3: S3Server, patient: None, status: int, hint: str) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    s3.fault = lambda request: Response("", status) if request.method == "HEAD" else None
    with pytest.raises(TargetError, match=rf": cannot list: an empty list, but cannot read: {status}") as caught:
        list(target.list("a/"))
    assert hint in caught.value.hint and "proxy" not in caught.value.hint


def test_an_empty_list_needs_no_right_to_see_what_is_absent(s3: S3Server) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    s3.fault = lambda request: Response("", 403) if request.method == "HEAD" else None
    assert list(target.list("a/")) == []
    assert [line.split()[0] for line in s3.requests] == ["GET", "HEAD"]


def test_an_object_whose_answer_was_lost_has_arrived_once(s3: S3Server, patient: None) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    lost = []

    def fault(request: object) -> Response | None:
        if request.method == "PUT" and not lost:  # type: ignore[attr-defined]
            lost.append(Response.from_app(s3.application, request.environ))  # type: ignore[attr-defined]
            return Response("", 500)
        return None

    s3.fault = fault
    assert not target.put_new("a", b"x")
    assert target.holds("a", b"x") and lost[0].status_code == 200


def test_a_create_that_conflicted_and_left_nothing_is_repeated(s3: S3Server) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    met = answering(s3, 409, "ConditionalRequestConflict", times=1)
    assert target.put_new("a", b"x")
    assert met == {"PUT": 1} and target.get("a") == b"x"


def test_an_object_encrypted_by_its_own_key_is_read_for_comparison(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(f"s3://{BUCKET}/p")
    target.put_new("a", b"x")
    head = type(target)._head
    monkeypatch.setattr(type(target), "_head", lambda self, key: {**head(self, key), "e_tag": '"' + 32 * "0" + '"'})
    assert target.holds("a", b"x") is True and target.holds("a", b"y") is False
    assert [line for line in s3.requests if line.startswith("GET")] == 2 * [f"GET /{BUCKET}/p/a"]


def test_an_unreachable_server_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, patient: None, s3: S3Server
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(TargetError, match=r"^s3://fleet/p/a: cannot write: .*: Connection refused \(2 retries\)$"):
        open_target(f"s3://{BUCKET}/p").put_new("a", b"x")


def test_a_server_whose_certificate_the_named_authority_signed_is_trusted(
    s3: S3Server, patient: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    with serving(authority.issue("s3", ["127.0.0.1"])) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(TargetError, match="invalid certificate: UnknownIssuer"):
            open_target(f"s3://{BUCKET}/p").put_new("a", b"x")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        assert open_target(f"s3://{BUCKET}/p").put_new("a", b"x")


@pytest.mark.parametrize(
    "address", [f"s3://{SECRET_KEY}@b/p", f"az://c/p?sig={SECRET_KEY}", f"s3://b/p#{SECRET_KEY}", f"s3://[{SECRET_KEY}"]
)
def test_an_address_with_credentials_is_refused_and_not_printed(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_target(address)
    assert SECRET_KEY not in f"{caught.value} {caught.value.hint}" and "environment" in caught.value.hint


@pytest.mark.parametrize(
    "address", ["ftp://host/p", "s3:///p", "s3://", "s3:/bucket/p", "file:/p", "https://bucket.s3.amazonaws.com/p"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="invalid target"):
        open_target(address)


# --- GCS and Azure ----------------------------------------------------------------------------------------------------


class Conditional(http.server.BaseHTTPRequestHandler):
    """A server of the part of GCS and Azure that is used: it refuses a conditional create if the object exists."""

    objects: ClassVar[dict[str, bytes]] = {}
    refused: ClassVar[bool] = False  # every request is answered by 400

    def answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        status, body = (200, self.objects[path]) if path in self.objects else (404, b"")
        if self.command == "PUT":
            on_azure, on_gcs = self.headers["If-None-Match"] == "*", self.headers["x-goog-if-generation-match"] == "0"
            status, body = 409 if on_azure else 412 if on_gcs else 201, b""
            if path not in self.objects or status == 201:
                self.objects[path], status = content, 201
        self.send_response(400 if self.refused else status)
        facts = {"Content-Length": len(body), "ETag": '"1"', "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"}
        for name, value in {**facts, "x-goog-generation": 1}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_GET = do_HEAD = do_PUT = answer

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.mark.parametrize(
    "address, variables",
    [
        ("gs://fleet/p", {"GOOGLE_BASE_URL": "URL", "GOOGLE_BEARER_TOKEN": SECRET_KEY}),
        (
            "az://fleet/p",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_STORAGE_SAS_TOKEN": f"sv=2020&sig={SECRET_KEY}",
                "AZURE_STORAGE_ENDPOINT": "URL",
            },
        ),
    ],
)
def test_gcs_and_azure_create_objects_once(
    address: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Conditional,), {"objects": {}}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("URL", url))
    try:
        target = open_target(address)
        assert target.put_new("a/b=c%2F", b"abc") and not target.put_new("a/b=c%2F", b"abd")
        assert target.get("a/b=c%2F") == b"abc"
        found = [target.holds("a/b=c%2F", content) for content in (b"abc", b"abd", b"ab")]
        assert found == [True, False, False] and target.holds("n", b"") is None
        with pytest.raises(TargetError) as caught:
            list(target.list())
        assert "OSTRICH" not in str(caught.value)
        monkeypatch.setattr(server.RequestHandlerClass, "refused", True)
        with pytest.raises(TargetError, match="cannot write: 400 Bad Request") as caught:
            target.put_new("b", b"")
        assert str(caught.value.hint).startswith("check the address")  # regions are Amazon's
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
