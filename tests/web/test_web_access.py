"""Access to `mburst live` and `mburst metrics`: from which addresses (not their text), under which names, from which
sites, with which token."""

from __future__ import annotations

import json
import socket
import urllib.parse
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from livestore import filled
from webattack import serving

from mburst.__main__ import main
from mburst.errors import MburstError
from mburst.web.address import is_loopback, resolved, split, where_of

pytest.importorskip("uvicorn")
from mburst.web.gate import ServerNames, host_of

VERBS = ("live", "metrics")
TOKEN = "a-token-of-some-length"
CROSS = {"Sec-Fetch-Site": "cross-site"}
FOREIGN_HOSTS = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "127.example.com",
    "0.0.0.0",
    "2130706433",
    "127.1",
    "192.0.2.1",
    "[::2]",
    "[::ffff:192.0.2.1]",
    "localhost@evil.example",
]
BAD_HOSTS = [
    "",
    "[::1",
    "::1",
    "[::1:2",
    "a b",
    "localhost:99999",
    "localhost:x",
    "[zz]",
    "localhost/x",
    "ho\tst",
    "\xff",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("access") / "store").path


@pytest.fixture(scope="module", params=VERBS)
def server(request, store):
    with serving(request.param, store, "--open") as made:
        yield made


@pytest.fixture(scope="module", params=VERBS)
def guarded(request, store, tmp_path_factory):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN + "\n")
    with serving(request.param, store, "--token-file", str(path)) as made:
        yield made


# --- where it listens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address, here",
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::1:2", False),
        ("::10", False),
        ("128.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%lo", False),
    ],
)
def test_loopback_is_decided_by_the_address(address, here):
    assert is_loopback(address) is here


def test_names_are_resolved_before_they_are_trusted(monkeypatch):
    known = {
        "localhost.example.com": ["192.0.2.9"],
        "127.example.com": ["192.0.2.1"],
        "localhost": ["::1", "127.0.0.1"],
        "both.example.com": ["127.0.0.1", "192.0.2.1"],
    }

    def answer(host, port, type):
        return [(0, 0, 0, "", (address, port)) for address in known.get(host, [host])]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    for listen in ("localhost.example.com:1", "127.example.com:1", "[::1:2]:1", "[::10]:1"):
        found = where_of(listen, 1, None, None, None, False)
        assert not found.loopback and found.token, listen
    assert where_of("localhost:1", 1, None, None, None, False).address == "127.0.0.1"
    with pytest.raises(MburstError, match="some of these are loopback addresses"):
        resolved("both.example.com", 1)


@given(st.text(max_size=40))
def test_any_address_is_understood_or_refused(text):
    try:
        host, port = split(text, 8470)
    except MburstError:
        return
    assert host and host.isprintable() and 0 <= port <= 65535


@given(st.one_of(st.text(max_size=40), st.sampled_from(FOREIGN_HOSTS + BAD_HOSTS)))
def test_only_names_of_this_server_are_its_names(header):
    host = host_of(header)
    here = where_of("127.0.0.1:1", 1, None, None, None, True)
    if host is not None and ServerNames(here).has(host):
        assert host == "localhost" or is_loopback(host)
    proxied = replace(here, names=("Mburst.Example.",))
    assert ServerNames(proxied).has("mburst.example") and not ServerNames(here).has("mburst.example")


# --- what it answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_foreign_names_are_refused(server, host):
    for path in ("/", "/lanes", "/metrics"):
        status, body = server.ask(path, Host=host)
        assert status in (400, 403) and b"cache-1" not in body


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_malformed_names_are_400(server, host):
    response = server.say(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
    assert response.split(b" ")[1] == b"400" and b"Traceback" not in response
    assert server.say(b"GET / HTTP/1.0\r\n\r\n").split(b" ")[1] == b"400"
    assert server.say(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").split(b" ")[1] == b"400"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]", "[0:0::1]:8470"])
def test_own_names_are_answered(server, host):
    assert server.ask(Host=host)[0] == 200


def test_requests_of_other_sites_are_refused(server):
    for headers in (
        CROSS,
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": f"http://127.0.0.1:{server.port + 1}"},
        {**CROSS, "Sec-Fetch-Mode": "no-cors"},
        {**CROSS, "Sec-Fetch-Mode": "navigate"},
    ):
        for path in ("/", "/lanes", "/metrics"):
            assert server.ask(path, **headers)[0] == 403, headers
    assert server.ask(**{"Sec-Fetch-Site": "same-origin"})[0] == server.ask(**{"Sec-Fetch-Site": "none"})[0] == 200
    link = {**CROSS, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.ask(**link)[0] == 200 and server.ask("/metrics", **link)[0] == server.ask("/lanes", **link)[0] == 403
    assert server.ask(**{**link, "Sec-Fetch-Dest": "iframe"})[0] == 403


def test_every_answer_is_restricted_to_its_own_site(server):
    for request in (b"GET / ", b"GET /nothing ", b"POST / ", b"GET /moment ", b"GET /metrics "):
        response = server.say(request + b"HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").lower()
        assert b"cross-origin-resource-policy: same-origin" in response
        assert b"cross-origin-opener-policy: same-origin" in response
        assert b"nosniff" in response and b"server:" not in response


def test_the_token_gives_access(guarded):
    path = "/lanes" if guarded.ask("/lanes", Authorization=f"Bearer {TOKEN}")[0] == 200 else "/metrics"
    assert guarded.ask(path, Authorization=f"bearer {TOKEN}")[0] == 200
    assert TOKEN not in guarded.url
    cookie = f"mburst-{guarded.port}={TOKEN}"
    assert guarded.ask(path, Cookie=cookie)[0] == 200
    for headers in (
        {},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Cookie": f"mburst-1={TOKEN}"},
        {"Cookie": cookie + "\xff"},
        {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"},
        {"Authorization": f"Bearer {TOKEN}", **CROSS},
    ):
        status, body = guarded.ask(path, **headers)
        assert status == 403 and b"cache-1" not in body and TOKEN.encode() not in body, headers
    assert guarded.ask(f"/?token={TOKEN}")[0] == 303
    for wrong in ("", "x", "%00", TOKEN[:-1], "%ff"):
        assert guarded.ask(f"/?token={wrong}")[0] == 403


def test_live_requires_a_token_on_loopback_too(store):
    with serving("live", store) as made:
        _, _, token = made.url.partition("?token=")
        assert len(token) >= 32 and made.ask("/lanes")[0] == 403
        assert made.ask("/lanes", Authorization=f"Bearer {token}")[0] == 200
        assert token not in Path(f"/proc/{made.process.pid}/cmdline").read_text()


def test_metrics_require_a_token_only_beyond_loopback(store, tmp_path, capsys):
    with serving("metrics", store) as made:
        assert made.ask("/metrics")[0] == 200
    assert main(["metrics", str(store), "--listen", "0.0.0.0:0"]) == 2
    response = capsys.readouterr().err
    assert "--token-file" in response and "--open" in response and response.count("\n") == 1
    assert main(["metrics", str(store), "--listen", "0.0.0.0:0", "--open", "--token-file", "x"]) == 2


def test_a_part_of_mburst_run_does_not_print_its_token(tmp_path, capsys):
    path = tmp_path / "mburst.toml"
    path.write_text('store = "st"\n[live]\n')
    assert main(["run", "--check", str(path)]) == 2
    assert "token-file" in capsys.readouterr().err
    text = 'store = "st"\n[live]\nopen = true\n[metrics]\nlisten = "0.0.0.0:1"\n'
    path.write_text(text)
    assert main(["run", "--check", str(path)]) == 2
    assert "[metrics]: 0.0.0.0 is reached from other machines: give --token-file FILE" in capsys.readouterr().err
    path.write_text(text + "open = true\n")
    assert main(["run", "--check", str(path)]) == 0


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(store):
    with serving("live", store, "--open") as made:
        yield made


ODD = [
    "",
    "x",
    "-1",
    "1.5",
    "1e3",
    "NaN",
    "Infinity",
    str(10**26),
    "9" * 5000,
    "1_0",
    "٣",
    "%00",
    "0x10",
    " 1",
    str(2**63),
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["from", "to", "buckets", "origin"])
def test_invalid_numbers_are_400(live, name, odd):
    lane = json.loads(live.ask("/lanes")[1])[0]
    asked = {"lane": lane["id"], "from": "0", "to": "9", "buckets": "9", "origin": "0", name: odd}
    status, body = live.ask("/moment?" + urllib.parse.urlencode(asked))
    assert (status == 400 or (name == "buckets" and odd in ("-1", str(2**63)))) and b"Traceback" not in body


def test_invalid_requests_are_answered_by_one_line(live):
    for path, status in (
        ("/lane", 400),
        ("/lane?lane=", 400),
        ("/lane?lane=%1b%5d0;x", 404),
        ("/lane?lane=" + "x" * 5000, 400),
        ("/overview?seconds=x", 400),
        ("/overview?rack=%00&seconds=9", 200),
        ("/moment?lane=x", 400),
        ("/%2e%2e/etc/passwd", 404),
        ("//evil.example/", 404),
        ("/?x=" + "y" * 8000, 200),
    ):
        found, body = live.ask(path)
        assert found == status and b"Traceback" not in body and b"\x1b" not in body, (path, found)
        assert status == 200 or body.count(b"\n") <= 1


def test_the_requests_of_these_tests_caused_no_error(live):
    _, error = live.stop()
    assert error == "Ctrl-C ends it.\n"
