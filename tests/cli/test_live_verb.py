"""`mburst live` from its start to its end: its refusals, its access control, and an interface that it records."""

from __future__ import annotations

import http.client
import json
import os
import pty
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest
from authority import Authority
from bounded import next_line
from livestore import Server, filled
from privilegelib import STRANGER, needs_root
from waiting import wait_for
from webattack import serving

from mburst.__main__ import main
from mburst.errors import MburstError
from mburst.listening import tls
from mburst.sql import StoreFolder
from mburst.web.address import where_of

pytest.importorskip("uvicorn")
MBURST = [sys.executable, "-m", "mburst"]
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("live") / "store").path


def outcome(capsys, *words):
    code = main(["live", *map(str, words)])
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and error.startswith("mburst: ")
    return code, error


def test_a_port_in_use_is_one_line(store, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, error = outcome(capsys, store, "--listen", f"127.0.0.1:{port}")
    assert code == 1 and f"cannot listen on 127.0.0.1:{port}: Address already in use" in error and "--listen" in error


@pytest.mark.parametrize("verb", ["live", "metrics"])
def test_an_address_of_another_machine_is_reported(verb, store, capsys):
    assert main([verb, str(store), "--listen", "192.0.2.1:0", "--open"]) == 1
    assert "(no interface of this machine has that address: `ip address` lists" in capsys.readouterr().err


def test_an_input_that_is_neither_store_nor_interface_is_one_line(tmp_path, capsys):
    assert "not an mburst store" in outcome(capsys, tmp_path)[1]
    code, error = outcome(capsys, "no-such-interface")
    assert code == 1 and "neither a store nor an interface" in error
    assert outcome(capsys) == (2, "mburst: live: no input (name a store, or an interface to record)\n")
    assert outcome(capsys, "-o", tmp_path / "new", "--duration", "3s")[0] == 2 and not (tmp_path / "new").exists()


def test_a_store_for_later_recordings_is_created(tmp_path):
    """`mburst run` starts the view beside the recording, and neither waits for the other."""
    process = subprocess.Popen(
        [*MBURST, "live", "-o", str(tmp_path / "new"), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert next_line(process).startswith(f"live view of {tmp_path}/new: http://")
    process.terminate()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0 and "new: new store: empty until something is recorded into it" in error
    assert StoreFolder.open(tmp_path / "new").unsealed() == {}


def test_options_that_do_not_apply_are_usage_errors(store, tmp_path, capsys):
    assert outcome(capsys, store, "--duration", "3s")[0] == 2
    assert outcome(capsys, store, "--tls-cert", "x.pem")[0] == 2
    assert outcome(capsys, store, "--listen", "127.0.0.1:99999")[0] == 2
    assert outcome(capsys, store, "--token-file", tmp_path / "none")[0] == 1
    (tmp_path / "short").write_text("short\n")
    assert "at least 16" in outcome(capsys, store, "--token-file", tmp_path / "short")[1]
    for name in ("cert", "key"):
        (tmp_path / name).write_text("no PEM")
    assert (
        "PEM"
        in outcome(
            capsys, store, "--listen", "127.0.0.1:0", "--tls-cert", tmp_path / "cert", "--tls-key", tmp_path / "key"
        )[1]
    )


def where(listen, token_file=None, open_=False):
    return where_of(listen, 8470, token_file, None, None, open_)


def test_where_it_listens():
    here = where("127.0.0.1:8470", open_=True)
    assert (here.host, here.port, here.token, here.loopback) == ("127.0.0.1", 8470, None, True)
    six = where("[::1]:1")
    assert (six.host, six.port, six.loopback, six.url(1)) == ("::1", 1, True, "http://[::1]:1/")
    everywhere, again = (where("0.0.0.0:80") for _ in range(2))
    assert everywhere.token and everywhere.token != again.token and not everywhere.loopback
    for wrong in ("here:port", "127.0.0.1:99999", "::1:80", "[127.0.0.1]:80", "a b:80", "127.0.0.1:٣"):
        with pytest.raises(MburstError):
            where(wrong)


def test_the_missing_extra_is_named(store, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, error = outcome(capsys, store, "--listen", "127.0.0.1:0")
    assert code == 1 and "uvicorn" in error and "mburst[live]" in error


def ask(port, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def upgrade(port, origin, **headers):
    """Returns the status of a WebSocket that a page of ORIGIN requests."""
    return ask(
        port,
        "/live",
        Connection="Upgrade",
        Upgrade="websocket",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
        Origin=origin,
        **headers,
    )[0].status


@pytest.fixture(scope="module")
def plain(store):
    server = Server(store)
    yield server
    server.stop()


def test_requests_are_answered_only_for_the_own_host_name(plain):
    port = plain.port
    answer, body = ask(port)
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and b"mburst live" in body
    assert "default-src 'none'" in policy and f"ws://127.0.0.1:{port}" in policy
    assert ask(port, Host="attacker.example")[0].status == 403
    assert ask(port, "/lanes", Origin="http://attacker.example")[0].status == 403
    assert upgrade(port, f"http://127.0.0.1:{port}") == 101
    assert upgrade(port, "http://attacker.example") == 403


def test_an_invalid_address_is_one_line(plain):
    lane = urllib.parse.quote(json.loads(ask(plain.port, "/lanes")[1])[0]["id"], safe="")
    for path, status in (
        ("/moment", 400),
        ("/lane?lane=none", 404),
        (f"/moment?lane={lane}&from=9&to=3&buckets=1&origin=0", 400),
        (f"/moment?lane={lane}&from=a&to=3&buckets=1&origin=0", 400),
        ("/nothing", 404),
    ):
        answer, body = ask(plain.port, path)
        assert answer.status == status and b"Traceback" not in body and body.count(b"\n") <= 1, path


def test_only_the_token_gives_access(store, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    server = Server(store, "--token-file", str(tmp_path / "token"))
    try:
        assert TOKEN not in server.url  # the author of the file knows the token, and output may be logged
        for path in ("/", "/lanes", "/plotly.js", "/?token=wrong"):
            assert ask(server.port, path)[0].status == 403
        assert upgrade(server.port, f"http://127.0.0.1:{server.port}") == 403
        answer, _ = ask(server.port, f"/?token={TOKEN}")
        cookie = answer.headers["Set-Cookie"]
        assert answer.status == 303 and answer.headers["Location"] == "/"
        assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        known = cookie.split(";")[0]
        assert ask(server.port, "/lanes", Cookie=known)[0].status == 200
        assert upgrade(server.port, f"http://127.0.0.1:{server.port}", Cookie=known) == 101
        assert upgrade(server.port, "http://attacker.example", Cookie=known) == 403
    finally:
        server.stop()


def test_https_with_a_certificate(store, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", ["127.0.0.1"])
    server = Server(store, "--tls-cert", str(certificate), "--tls-key", str(key))
    try:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(authority.ca))
        page, _, token = server.url.partition("?token=")
        wanted = urllib.request.Request(f"{page}lanes", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(wanted, context=trusting, timeout=60) as answer:
            assert len(json.load(answer)) == 1
    finally:
        server.stop()


@contextmanager
def working_as_stranger(folder):
    """In this context this process works as another user, who can enter FOLDER."""
    closed = [
        (above, above.stat().st_mode) for above in (folder, *folder.parents) if above.stat().st_mode & 0o011 != 0o011
    ]
    for above, mode in closed:
        above.chmod(mode | 0o011)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)
        for above, mode in closed:
            above.chmod(mode)


def serial(port, trusting):
    """Returns the serial number of the certificate that the server presents."""
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        trusting.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        return encrypted.getpeercert()["serialNumber"]


@pytest.mark.parametrize("verb", ["live", "metrics"])
def test_a_renewed_certificate_is_used_from_the_next_connection_on(verb, store, tmp_path):
    """Although the process may read few files by then. If the certificate and key are invalid, the ones before stay in
    use, and one line says so, also if they cannot be seen."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", ["127.0.0.1"])
    trusting = ssl.create_default_context(cafile=str(authority.ca))
    with serving(verb, store, "--open", "--tls-cert", str(certificate), "--tls-key", str(key)) as server:
        first = serial(server.port, trusting)
        authority.issue("server", ["127.0.0.1"])
        second = serial(server.port, trusting)
        key.write_text("no key")
        third = serial(server.port, trusting)
        key.unlink()
        fourth = serial(server.port, trusting)
        _, error = server.stop()
    assert first != second == third == fourth
    assert error.count("still used") == 2 and f"{key}: not a private key in PEM" in error
    assert f"{key}: cannot read: No such file or directory" in error


@pytest.fixture
def renewed(tmp_path):
    """Returns a context of a server, its lines, the files, and what renews these."""
    authority, lines = Authority(tmp_path), []
    certificate, key = authority.issue("server", ["127.0.0.1"])
    found = tls.RenewedContext(tls.Certificates(certificate, key), "http/1.1", lines.append)
    return found, lines, certificate, key, lambda: authority.issue("server", ["127.0.0.1"])


def test_a_renewal_that_fails_for_a_time_is_made_up_for(renewed, monkeypatch):
    """Nothing about the files changes when the reason is gone, here file descriptors. Each failure is said once, and
    its end."""
    found, lines, certificate, _, renew = renewed
    first, most = found(), resource.getrlimit(resource.RLIMIT_NOFILE)
    renew()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, most[1]))
        assert found() is found() is first
        monkeypatch.setattr(tls, "RETRY_S", 0)
        found._again = 0
        assert found() is first
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    second = found()
    assert second is not first and second is found()
    assert lines == [
        f"{certificate}: cannot read: Too many open files: the certificates that were there before are still used",
        f"{certificate}: the new certificate is used now",
    ]


@needs_root
def test_a_key_that_becomes_readable_after_its_renewal_is_used(renewed):
    found, lines, certificate, key, renew = renewed
    first = found()
    renew()
    key.chmod(0o600)
    with working_as_stranger(key.parent):
        assert found() is found() is first
        os.seteuid(0)
        key.chmod(0o644)
        os.seteuid(STRANGER)
        assert found() is not first
    assert [line.partition(": ")[0] for line in lines] == [str(key), str(certificate)]


@needs_root
def test_a_key_that_is_hidden_from_the_later_user_is_not_taken_for_renewed(renewed):
    """It is said once that its renewal would not be seen. A new certificate beside it is seen."""
    _, lines, certificate, key, renew = renewed
    hidden = key.parent / "hidden"
    hidden.mkdir(mode=0o700)
    moved = key.rename(hidden / key.name)
    found = tls.RenewedContext(tls.Certificates(certificate, moved), "http/1.1", lines.append)
    first = found()
    with working_as_stranger(key.parent):
        assert found() is found() is first
        assert lines == [f"{moved}: cannot be seen with the rights of this process: restart mburst if it is renewed"]
        os.seteuid(0)
        renew()
        os.seteuid(STRANGER)
        assert found() is first
    assert lines[1:] == [
        f"{moved}: cannot read: Permission denied: the certificates that were there before are still used"
    ]


@pytest.mark.parametrize("folder", ["/", "/etc"])
def test_the_folders_of_certificates_are_not_those_that_root_must_not_read(folder, tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "linked").symlink_to(folder)
    (tmp_path / "to" / "tls.key").touch()
    (tmp_path / "tls.key").symlink_to("to/tls.key")
    files = [os.path.join(folder, "mburst.pem"), tmp_path / "linked" / "mburst.pem", tmp_path / "tls.key"]
    assert tls.folders_of(files) == sorted({*map(str, files[:2]), str(tmp_path), str(tmp_path / "to")})


def test_an_encrypted_key_is_refused_without_asking_for_its_password(store, tmp_path, capsys):
    certificate, key = Authority(tmp_path).issue("server", ["127.0.0.1"])
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:x"],
        check=True,
        capture_output=True,
    )
    words = (store, "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", locked)
    assert outcome(capsys, *words) == (
        1,
        f"mburst: {locked}: the key is encrypted (write it out without its password)\n",
    )


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_the_view(store, number, code):
    server = Server(store)
    assert ask(server.port, "/lanes")[0].status == 200
    server.process.send_signal(number)
    _, error = server.process.communicate(timeout=60)
    assert (server.process.returncode, error) == (code, "Ctrl-C ends it.\n")


def test_a_terminal_that_is_closed_leaves_no_store(lab, tmp_path):
    """The store has the addresses of everyone who communicated."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        ["ip", "netns", "exec", lab.far, *MBURST, "live", lab.b, "--listen", "127.0.0.1:0"],
        stdout=its_end,
        stderr=its_end,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    os.close(its_end)
    wait_for(lambda: list(tmp_path.glob("mburst-live-*/mburst.json")), "its store")
    wait_for(lambda: b"live view" in os.read(terminal, 4096), "its page")
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0 and list(tmp_path.iterdir()) == []


def test_an_interface_is_recorded_and_shown(lab, sender, tmp_path):
    """By https, with a certificate that is renewed."""
    folder, authority = tmp_path / "store", Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=str(authority.ca))
    certificate, key = authority.issue("server", ["127.0.0.1"])
    server = Server(
        lab.b,
        "-o",
        str(folder),
        "--link",
        "1G",
        "--host",
        "far",
        "--rack",
        "r7",
        "--open",
        *("--tls-cert", str(certificate), "--tls-key", str(key)),
        prefix=("ip", "netns", "exec", lab.far),
    )
    try:
        with lab.inside(lab.far):
            lanes, until = [], time.monotonic() + 60
            while not any(lane["direction"] == "in" for lane in lanes) and time.monotonic() < until:
                lab.call(lab.near, f"{sender} {lab.a} 20 1000 500")
                with urllib.request.urlopen(f"{server.url}lanes", timeout=60, context=trusting) as answer:
                    lanes = json.load(answer)
            before = serial(server.port, trusting)
            authority.issue("server", ["127.0.0.1"])
            assert serial(server.port, trusting) != before
        [lane] = [lane for lane in lanes if lane["direction"] == "in"]
        assert (lane["host"], lane["rack"], lane["interface"], lane["link"]) == ("far", "r7", lab.b, 10**9)
        assert lane["recording"]
    finally:
        os.kill(server.process.pid, signal.SIGTERM)
        out, error = server.process.communicate(timeout=60)
    assert server.process.returncode == 0, error
    assert f"recorded into {folder}" in out
    counted = (
        StoreFolder.open(folder).connect().execute("SELECT sum(packets) FROM recordings WHERE complete").fetchall()
    )
    assert counted[0][0] >= 10
