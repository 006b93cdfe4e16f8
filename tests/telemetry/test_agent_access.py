"""Access to the switch agent: which clients are accepted, how refused clients are reported, and what a client can
cost."""

from __future__ import annotations

import contextlib
import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from authority import Authority
from gnmilib import agent, messages

from mburst.__main__ import main
from mburst.listening.addresses import parse
from mburst.telemetry.gnmi.path import as_message
from mburst.telemetry.gnmi.path import parse as parse_path

HIGH = 65_536


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns the error of a verb that does not start."""
    assert main(["switch-agent", "lo", *arguments]) in (1, 2)
    printed = capsys.readouterr()
    assert printed.out == "" and "Traceback" not in printed.err
    return printed.err


def request(list_mode: str = "STREAM", path: str = "/interfaces", **options: Any) -> Any:
    numbers = {"mode": messages.LIST_MODES.index(list_mode), "encoding": messages.ENCODINGS.index("PROTO")}
    wanted = messages.SubscriptionList(**numbers)
    wanted.subscription.add(path=as_message(parse_path(path)), **options)
    return messages.SubscribeRequest(subscribe=wanted)


def subscribe(channel: Any, asked: Any, **more: Any) -> Any:
    begin = channel.stream_stream(
        messages.SUBSCRIBE, messages.SubscribeRequest.SerializeToString, messages.SubscribeResponse.FromString
    )
    return begin(iter([asked]) if not isinstance(asked, Iterator) else asked, **more)


def code_of(call: Any) -> str:
    """Returns the status that a call ends with."""
    try:
        list(call)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["99999", "65536", str(HIGH * 2 + 80), "-1", "", "http", "９339", "1e3", "0x10"])
def test_an_invalid_port_is_refused(capsys, port):
    assert f"{port}" in refused(capsys, "--listen", f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    "text", ["9339", "127.0.0.1", "::1:9339", ":9339", "[::1]", "[::1:9339", "unix:", "", "ipv4:1"]
)
def test_an_invalid_address_is_refused(capsys, text):
    refused(capsys, "--listen", text)


def test_an_address_of_another_machine_is_reported_as_such(capsys):
    assert "(no interface of this machine has that address: " in refused(
        capsys, "--listen", "192.0.2.1:0", "--insecure"
    )


@pytest.mark.parametrize(
    ("text", "local"),
    [("127.0.0.1:1", True), ("127.255.0.9:1", True), ("[::1]:1", True), ("localhost:1", True), ("unix:/x", True),
     ("127.1:1", True), ("[::ffff:127.0.0.1]:1", True), ("0.0.0.0:1", False), ("[::]:1", False), ("10.0.0.1:1", False),
     ("[::ffff:10.0.0.1]:1", False), ("[fe80::1]:1", False), ("128.0.0.1:1", False)],
)  # fmt: skip
def test_local_is_decided_by_the_address(text, local):
    assert parse(text).is_local is local


def test_a_name_that_looks_like_loopback_is_not_local(monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.5", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: found)
    assert not parse("127.0.0.1.example.net:80").is_local
    assert not parse("localhost.example.net:80").is_local


@pytest.mark.parametrize(
    ("more", "word"),
    [([], "no encryption"), (["--username", "me"], "in clear text"), (["TLS"], "no authentication (--username"),
     (["TLS", "--username", "me"], ""), (["TLS", "CA"], "")],
)  # fmt: skip
@pytest.mark.parametrize("where", ["0.0.0.0", "[::]"])
def test_other_hosts_need_tls_and_a_secret(authority, capsys, monkeypatch, where, more, word):
    monkeypatch.setenv("MBURST_AGENT_PASSWORD", "secret")
    certificate, key = authority.issue("agent", ["127.0.0.1"])
    options = {"TLS": ["--tls-cert", str(certificate), "--tls-key", str(key)], "CA": ["--tls-ca", str(authority.ca)]}
    arguments = [part for one in more for part in options.get(one, [one])]
    if word:
        printed = refused(capsys, f"--listen={where}:0", *arguments)
        assert word in printed and "--insecure" in printed
        arguments.append("--insecure")
    with agent("lo", f"--listen={where}:0", *arguments) as (address, _):
        assert address.startswith(where)


@pytest.mark.parametrize(
    ("name", "password", "why"),
    [
        ("me", "pä", "MBURST_AGENT_PASSWORD: no client can send it"),
        ("me", "a\n", "MBURST_AGENT_PASSWORD: no client can send it"),
        ("mü", "right", "--username: no client can send it"),
        ("", "right", "--username is empty"),
    ],
)
def test_credentials_that_no_client_can_send_are_refused(capsys, monkeypatch, name, password, why):
    """gRPC has printable ASCII in its metadata. An empty name would let everybody in."""
    monkeypatch.setenv("MBURST_AGENT_PASSWORD", password)
    assert why in refused(capsys, "--listen=127.0.0.1:0", f"--username={name}")


def test_insecure_reports_its_consequences(tmp_path):
    errors = tmp_path / "errors"
    with agent("lo", "--listen=0.0.0.0:0", "--insecure", errors=errors):
        assert "other hosts can connect, and no encryption" in errors.read_text()


@pytest.mark.parametrize("other", ["agent", "socket", "reuseport"])
def test_a_port_that_another_process_holds_is_refused(capsys, other):
    with contextlib.ExitStack() as stack:
        if other == "agent":
            address, _ = stack.enter_context(agent("lo"))
        else:
            held = stack.enter_context(socket.socket())
            if other == "reuseport":
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("127.0.0.1", 0))
            held.listen()
            address = f"127.0.0.1:{held.getsockname()[1]}"
        assert "another process is listening there" in refused(capsys, "--listen", address)


def test_no_process_can_share_the_port(capsys):
    with agent("lo") as (address, _), socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(address.rpartition(":")[2])))


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_a_file_in_place_of_the_socket_is_not_removed(tmp_path, capsys, kind):
    path = tmp_path / "agent.sock"
    if kind == "file":
        path.write_text("kept")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nothing")
    said = refused(capsys, f"--listen=unix:{path}")
    assert f"cannot listen on unix:{path}: a file that is not a socket is there (remove it, or name another)" in said
    assert path.is_symlink() or path.exists()


def test_a_unix_socket_is_taken_over_only_from_a_dead_process(tmp_path, capsys):
    path = tmp_path / "agent.sock"
    with agent("lo", f"--listen=unix:{path}"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600  # for this user and root
        assert "another process is listening there" in refused(capsys, f"--listen=unix:{path}")
    assert path.exists()  # its process was killed
    with agent("lo", f"--listen=unix:{path}") as (address, process):
        with grpc.insecure_channel(address) as channel:
            assert code_of(subscribe(channel, request("ONCE"), timeout=20)) == "OK"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not path.exists()
    path.write_text("precious")
    assert "cannot listen" in refused(capsys, f"--listen=unix:{path}")
    assert path.read_text() == "precious"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere.sock")
    assert "cannot listen" in refused(capsys, f"--listen=unix:{tmp_path}/link")
    assert not (tmp_path / "elsewhere.sock").exists()


# --- certificates and passwords -------------------------------------------------------------------------------------


def test_invalid_files_are_named(authority, tmp_path, capsys):
    certificate, key = authority.issue("one", ["127.0.0.1"])
    _, other = authority.issue("two", ["127.0.0.1"])
    text = tmp_path / "text"
    text.write_text("hello")

    def printed(cert: Path, its_key: Path, ca: Path | None = None) -> str:
        more = ["--tls-ca", str(ca)] if ca else []
        return refused(capsys, "--tls-cert", str(cert), "--tls-key", str(its_key), *more)

    assert f"the key {other} does not belong to the certificate {certificate}" in printed(certificate, other)
    assert f"{text}: not a certificate in PEM" in printed(text, key)
    assert f"{text}: not a private key in PEM" in printed(certificate, text)
    assert f"{certificate}: not a private key in PEM" in printed(key, certificate) + printed(certificate, certificate)
    assert f"{text}: not a certificate in PEM" in printed(certificate, key, text)
    assert "cannot read" in printed(certificate, tmp_path / "none")
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert str(broken) in printed(broken, key)
    assert str(broken) in printed(certificate, key, broken)


def test_an_encrypted_key_is_refused_without_a_prompt(authority, tmp_path, capsys):
    from cryptography.hazmat.primitives import serialization as form

    certificate, key = authority.issue("locked", ["127.0.0.1"])
    plain = form.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        plain.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"x"))
    )
    assert "the key is encrypted" in refused(capsys, "--tls-cert", str(certificate), "--tls-key", str(locked))


def lines_of(path: Path, count: int) -> list[str]:
    """Returns the lines in a file, once there are so many."""
    deadline = time.monotonic() + 30
    while len(lines := path.read_text().splitlines()) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return lines


def test_each_client_refused_by_tls_is_one_line(authority, tmp_path):
    certificate, key = authority.issue("agent", ["127.0.0.1"])
    foreign = Authority(tmp_path, "foreign")
    mine, my_key = authority.issue("client", [])
    strange, strange_key = foreign.issue("client", [])
    errors = tmp_path / "errors"

    def call(root: Path, shown: tuple[Path, Path] | None) -> str:
        chain = (shown[1].read_bytes(), shown[0].read_bytes()) if shown else (None, None)
        credentials = grpc.ssl_channel_credentials(root.read_bytes(), *chain)
        with grpc.secure_channel(address, credentials) as channel:
            return code_of(subscribe(channel, request("ONCE"), timeout=20))

    arguments = ["--tls-cert", str(certificate), "--tls-key", str(key), "--tls-ca", str(authority.ca)]
    with agent("lo", *arguments, errors=errors) as (address, _):
        assert call(authority.ca, (mine, my_key)) == "OK" and lines_of(errors, 0) == []
        assert call(authority.ca, (strange, strange_key)) == "UNAVAILABLE"
        assert "its client certificate is not accepted: unable to get local issuer" in lines_of(errors, 1)[0]
        assert lines_of(errors, 1)[0].startswith("mburst: 127.0.0.1:")
        seen = len(lines_of(errors, 1))
        assert call(authority.ca, None) == "UNAVAILABLE"
        assert "it presents no client certificate" in lines_of(errors, seen + 1)[seen]
        seen = len(lines_of(errors, 1))
        assert call(foreign.ca, (mine, my_key)) == "UNAVAILABLE"
        assert "not accept the certificate of this host" in lines_of(errors, seen + 1)[seen]
        seen = len(lines_of(errors, 1))
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert "it does not speak TLS" in lines_of(errors, seen + 1)[seen]
        assert call(authority.ca, (mine, my_key)) == "OK"


def test_a_wrong_password_is_refused_and_reported_without_being_shown(tmp_path):
    errors = tmp_path / "errors"
    with agent("lo", "--username=me", env={"MBURST_AGENT_PASSWORD": "right-one"}, errors=errors) as (address, _):
        with grpc.insecure_channel(address) as channel:
            for name, password, code in (
                ("me", "right-one", "OK"), ("me", "wrong-one", "UNAUTHENTICATED"), ("me", "", "UNAUTHENTICATED"),
                ("you", "right-one", "UNAUTHENTICATED"),
            ):  # fmt: skip
                given = [("username", name), ("password", password)]
                assert code_of(subscribe(channel, request("ONCE"), timeout=20, metadata=given)) == code
            for method in ("Get", "Set", "Capabilities"):
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary(f"/gnmi.gNMI/{method}")(b"", timeout=20)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        printed = lines_of(errors, 6)
        assert len(printed) == 6 and all("user or password is wrong" in line for line in printed)
        assert not any(word in line for line in printed for word in ("wrong-one", "right-one"))
