"""No secret is in a message, log, ledger, page or process list, whatever fails: each is searched for a canary."""

from __future__ import annotations

import base64
import contextlib
import http.server
import os
import shutil
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ports import free_port
from racklib import fill

from mburst.__main__ import main
from mburst.agent.delivery.kinds import KINDS
from mburst.agent.secrets import Secrets
from mburst.sql import StoreFolder

CANARY = "sEcretOSTRICH77token"
PASSWORD = "pa55word/OSTRICH88+x"
SPELLED = {
    CANARY,
    PASSWORD,
    urllib.parse.quote(PASSWORD, safe=""),
    base64.b64encode(PASSWORD.encode()).decode(),
    base64.b64encode(f"\0user\0{PASSWORD}".encode()).decode()[12:-4],
    "OSTRICH",
}
NOW_S = 1_795_132_800 + 86_400 + 7200  # two hours after the day of racklib


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = StoreFolder.create(tmp_path_factory.mktemp("secrets") / "store")
    fill(made, {"a": [(50, 10)]})
    return made.path


@pytest.fixture(scope="module")
def written(tmp_path_factory, store):
    """A folder of reports, with the report of the day."""
    folder = tmp_path_factory.mktemp("written")
    path = config(folder, store, f'kind = "folder"\npath = "{folder / "elsewhere"}"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time_ns", lambda: NOW_S * 10**9)
        assert main(["schedule", "--once", "daily", str(path)]) == 0
    (folder / "out" / ".deliveries.jsonl").unlink()
    return folder / "out"


@pytest.fixture
def folder(tmp_path, store, monkeypatch):
    monkeypatch.setenv("USER_NAME", "user")
    monkeypatch.setenv("PASSWORD", PASSWORD)
    monkeypatch.setattr("time.time_ns", lambda: NOW_S * 10**9)
    return tmp_path


@pytest.fixture
def reported(folder, written):
    """A folder in which the report is already written, so that only its delivery is left to do."""
    shutil.copytree(written, folder / "out")
    return folder


def config(folder: Path, store: Path, table: str, other: str = "") -> Path:
    """A configuration file with a report that is delivered to the destination in TABLE, and to a folder."""
    path = folder / "mburst.toml"
    path.write_text(f"""
[[report]]
name = "daily"
store = "{store}"
output = "{folder / "out"}"
racks = ["r1"]
deliver = ["secret", "www"]
[[deliver]]
name = "secret"
attempts = 2
wait = "1ms"
timeout = "400ms"
{table}
[[deliver]]
name = "www"
kind = "folder"
path = "{folder / "www"}"
{other}
""")
    return path


def everything(folder: Path) -> str:
    """Returns all names and contents below a folder, except the configuration."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "mburst.toml"]
    return "\n".join(f"{path}\n{path.read_text(errors='replace')}" for path in files)


def is_clean(folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Checks that no spelling of a secret occurs anywhere. Returns the output."""
    out, error = capfd.readouterr()
    for where, text in (("stdout", out), ("stderr", error), ("files", everything(folder))):
        for spelled in SPELLED:
            assert spelled.lower() not in text.lower(), (where, spelled, text[:2000])
    assert "Traceback" not in error
    return out + error


def once(path: Path) -> int:
    """Runs the schedule twice, because a failed delivery is retried and then reported in other messages."""
    main(["schedule", "--once", "daily", str(path)])
    return main(["schedule", "--once", "daily", str(path)])


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url, message",
    [
        (f"hooks.example/services/{CANARY}", "url is not a valid"),
        (f"ftp://x/{CANARY}", "url is not a valid"),
        (f"https://user:{CANARY}@hooks.example/x", "user and password"),
        (f"https:///{CANARY}", "url is not a valid"),
        (f"https://[{CANARY}/x", "url is not a valid"),
        (f"https://h:99999/{CANARY}", "url is not a valid"),
        (f"https://h/{CANARY}\n/x", "blank"),
        (f"https://h/a {CANARY}", "blank"),
        (f"https://h/{CANARY}#x", "after #"),
        (f"https://h/é{CANARY}", "blank"),
        (f"https://h/\u202e{CANARY}", "blank"),
        ("", "url is not a valid"),
    ],
)
def test_a_bad_address_is_named_by_its_key(folder, store, monkeypatch, capfd, url, message):
    monkeypatch.setenv("HOOK", url)
    path = config(folder, store, 'kind = "webhook"\nurl = "${HOOK}"')
    for call in (["run", "--check", str(path)], ["schedule", "--once", "daily", str(path)], ["run", str(path)]):
        assert main(call) == 2
        printed = is_clean(folder, capfd)
        assert message in printed and "url" in printed and printed.count("\n") == 1


@pytest.mark.parametrize(
    "table, message",
    [
        ('kind = "smtp"\nhost = "${PASSWORD} x"\nfrom = "a@b.c"\nto = "a@b.c"', "host must be a name"),
        ('kind = "smtp"\nhost = "a\\u0000b"\nfrom = "a@b.c"\nto = "a@b.c"', "host must be a name"),
        ('kind = "smtp"\nhost = "h"\nfrom = "${PASSWORD}"\nto = "a@b.c"', "invalid mail address in from"),
        (
            'kind = "smtp"\nhost = "h"\nfrom = "a@b.c"\nto = ["a@b.c", "${PASSWORD}\\r\\nBcc: x@y.z"]',
            "mail address in to",
        ),
        (
            'kind = "smtp"\nhost = "h"\nfrom = "a@b.c"\nto = "a@b.c"\npassword = "${PASSWORD}\\n"',
            "password has a control",
        ),
        (
            'kind = "smtp"\nhost = "h"\nsecurity = "none"\nuser = "u"\npassword = "${PASSWORD}"\n'
            'from = "a@b.c"\nto = "a@b.c"',
            "in the clear",
        ),
        ('kind = "alertmanager"\nurl = "http://x"\nmin-share = "${PASSWORD}"', "min-share must be a share"),
        ('kind = "webhook"\nurl = "http://x"\nsite = "https://u:${PASSWORD}@x"', "site"),
        ('kind = "webhook"\nurl = "${NOT_THERE}"', "refers to $NOT_THERE"),
    ],
)
def test_an_error_does_not_show_the_value(folder, store, capfd, table, message):
    assert main(["run", "--check", str(config(folder, store, table))]) == 2
    assert message in is_clean(folder, capfd)


# The kinds that post to an address that may be a secret, and need nothing else.
POSTED = [name for name, kind in KINDS.items() if [key.name for key in kind.keys if key.needed] == ["url"]]


# --- the web ----------------------------------------------------------------------------------------------------------


class Web(http.server.BaseHTTPRequestHandler):
    """A server that acts by the first part of the path, and repeats the request wherever it can."""

    def do_POST(self):
        how, body = self.path.split("/")[1], self.rfile.read(int(self.headers["Content-Length"]))
        assert body
        if how == "hang":
            time.sleep(1)
            return
        if how == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if how == "garbage":
            self.wfile.write(f"{self.path} no http\r\n\r\n".encode())
            return
        echo = {
            "echo": self.path,
            "reason": "no",
            "redirect": "moved",
            "capitals": self.path.upper(),
            "quoted": urllib.parse.quote(self.path, safe=""),
            "spaces": " " * 3000 + self.path,
            "cut-off": "x" * (4096 - len(self.path) + 7) + self.path,
        }.get(how, "ok")
        status = {"redirect": 302, "ok": 200}.get(how, 500)
        self.send_response(status, self.path if how == "reason" else None)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}{self.path}")
        self.send_header("Content-Length", str(len(echo)))
        self.end_headers()
        self.wfile.write(echo.encode())

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(handler: type, kind: type = http.server.ThreadingHTTPServer) -> Iterator[int]:
    """Returns the port of a server on the loopback."""
    with kind(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def web():
    with serving(Web) as port:
        yield port


@pytest.mark.parametrize(
    "how", ["ok", "echo", "reason", "redirect", "capitals", "quoted", "spaces", "cut-off", "hang", "cut", "garbage"]
)
@pytest.mark.parametrize("kind", POSTED)
def test_no_answer_of_a_server_reveals_the_secret(reported, store, monkeypatch, capfd, web, kind, how):
    monkeypatch.setenv("HOOK", f" http://127.0.0.1:{web}/{how}/services/T0/{CANARY}?key={CANARY}x \n")
    assert once(config(reported, store, f'kind = "{kind}"\nurl = "${{HOOK}}"')) in (0, 1)
    message = is_clean(reported, capfd)
    assert "report: " not in message and "www: delivered" in message
    assert "secret: delivered" in message if how == "ok" else "secret: " in message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_connection_failure_reveals_the_secret(reported, store, monkeypatch, capfd, web, scheme):
    for port in (free_port(), web):  # refused; and for https, no TLS
        monkeypatch.setenv("HOOK", f"{scheme}://127.0.0.1:{port}/echo/{CANARY}")
        once(config(reported, store, 'kind = "webhook"\nurl = "${HOOK}"'))
        assert "secret: " in is_clean(reported, capfd)
    monkeypatch.setenv("HOOK", f"{scheme}://{CANARY}.invalid/{CANARY}")
    once(config(reported, store, 'kind = "webhook"\nurl = "${HOOK}"'))
    is_clean(reported, capfd)


# --- mail -------------------------------------------------------------------------------------------------------------


class Mail(socketserver.StreamRequestHandler):
    """A mail server that repeats what it receives; `wrong` is the command that it refuses."""

    wrong = "AUTH"

    def handle(self):
        with contextlib.suppress(OSError):
            self.wfile.write(b"220 hello\r\n" if self.wrong != "hello" else f"554 {PASSWORD}\r\n".encode())
            for line in self.rfile:
                if self.wrong == "hang up":
                    return
                command = (line.split() or [b""])[0].upper().decode(errors="replace")  # a TLS hello may have any bytes
                if command == self.wrong:
                    message = base64.b64decode(line.split()[-1] + b"===") if command == "AUTH" else b""
                    self.wfile.write(b"535 bad " + line.strip() + b" " + message.replace(b"\0", b" ") + b"\r\n")
                elif command == "EHLO":
                    self.wfile.write(b"250-x\r\n250 AUTH PLAIN LOGIN\r\n")
                elif command == "AUTH":
                    self.wfile.write(b"235 yes\r\n")
                else:
                    self.wfile.write(b"550 no: " + line.strip() + f" {PASSWORD}\r\n".encode())


@pytest.mark.parametrize("wrong", ["AUTH", "MAIL", "hello", "hang up"])
@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_no_mail_server_reveals_the_secret(reported, store, capfd, wrong, security):
    pytest.importorskip("PIL")
    with serving(type("Handler", (Mail,), {"wrong": wrong}), socketserver.ThreadingTCPServer) as port:
        once(
            config(
                reported,
                store,
                f"""kind = "smtp"
host = "127.0.0.1"
port = {port}
security = "{security}"
user = "${{USER_NAME}}"
password = "${{PASSWORD}}"
from = "a@b.c"
to = "a@b.c\"""",
            )
        )
    assert "secret: " in is_clean(reported, capfd)


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_a_secret_in_an_older_ledger_is_not_shown(folder, store, monkeypatch, capfd, web):
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{web}/ok/{CANARY}")
    path = config(folder, store, 'kind = "webhook"\nurl = "${HOOK}"')
    (folder / "out").mkdir()
    ledger = folder / "out" / ".deliveries.jsonl"
    since = (NOW_S // 86_400 - 1) * 86_400 * 10**9
    ledger.write_text(
        "\n".join(
            [
                f'{{"report": "daily", "since_ns": {since}, "until_ns": {since + 86_400 * 10**9}, "to": "gone", '
                f'"state": "failed", "at_ns": 1, "error": "no: /ok/{CANARY}"}}',
                '{"report": 1}',
                "[[[",
                '{"report": "x", "since_ns": "y"}',
                "",
            ]
        )
    )
    ledger.chmod(0o644)
    assert once(path) == 0
    ledger_text = ledger.read_text()
    ledger.write_text("")
    assert "was not delivered to gone" in is_clean(folder, capfd) + (folder / "www" / "index.html").read_text()
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600 and "done" in ledger_text


def test_a_ledger_that_cannot_be_written_does_not_reveal_the_secret(folder, store, monkeypatch, capfd, web):
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{web}/ok/{CANARY}")
    path = config(folder, store, 'kind = "webhook"\nurl = "${HOOK}"')
    (folder / "out" / ".deliveries.jsonl").mkdir(parents=True)
    assert once(path) == 1
    assert "cannot open" in is_clean(folder, capfd)


def test_no_command_line_has_the_secret(folder, store, web):
    environment = {**os.environ, "HOOK": f"http://127.0.0.1:{web}/hang/{CANARY}"}
    path = config(folder, store, 'kind = "webhook"\nurl = "${HOOK}"')
    process = subprocess.Popen(
        [sys.executable, "-m", "mburst", "run", str(path)],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        seen: set[int] = set()
        until = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < until:
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    words = entry.read_bytes()
                    if str(path).encode() in words:
                        seen.add(int(entry.parent.name))
                    assert CANARY.encode() not in words and PASSWORD.encode() not in words
            time.sleep(0.05)
    finally:
        process.terminate()
        out, error = process.communicate(timeout=60)
    assert len(seen) == 2 and CANARY not in out + error + everything(folder)


@settings(deadline=None)
@given(st.text(min_size=1), st.text(max_size=50), st.text(max_size=50))
def test_a_secret_is_hidden_wherever_it_stands(secret, before, after):
    hidden = Secrets([secret]).hide(before + secret + after)
    if secret.strip() and secret not in "… (not shown: it may contain a secret)":
        assert secret not in hidden
    else:
        assert Secrets([" ", ""]).hide(secret) == secret
