"""Each kind of delivery declares its settings. A kind that this test registers delivers and is checked as the others
are, and the configuration file is checked against the declarations."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

import pytest
from places import ROOT
from racklib import DAY, START, fill, report

from mburst.agent.config import RunConfig, load
from mburst.agent.delivery import DeliveryLedger, Digest, deliver
from mburst.agent.delivery.destinations import COMMON
from mburst.agent.delivery.kind import Begin, Delivery, Kind, NotDelivered, SettingKey
from mburst.agent.delivery.kinds import KINDS
from mburst.agent.delivery.values import choice, text
from mburst.dashboards.rack import page
from mburst.errors import UsageError
from mburst.sql import StoreFolder

TOKEN = "t0ken-of-the-datagram"


def send_datagram(digest: Digest, to: Delivery, begin: Begin) -> None:
    """Sends the title to a UDP port of this machine. A refusal repeats the token, as real servers do."""
    if to.settings["level"] == "never":
        raise NotDelivered(f"{to.settings['token']} may not send")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        content = f"{to.settings['level']} {to.settings['token']} {digest.title}"
        begin()
        sender.sendto(content.encode(), ("127.0.0.1", int(to.settings["port"])))


DATAGRAM = Kind(
    "datagram",
    "the title, as a datagram",
    (
        SettingKey("port", "of this machine", text, needed=True),
        SettingKey("token", "goes before the title", text, needed=True, secret=True),
        SettingKey("level", "of the message", choice("info", "never"), "info", literal=True),
    ),
    send_datagram,
)


@pytest.fixture
def datagram(monkeypatch):
    monkeypatch.setitem(KINDS, DATAGRAM.name, DATAGRAM)


@pytest.fixture(scope="module")
def digest(tmp_path_factory):
    root = tmp_path_factory.mktemp("kinds")
    store = StoreFolder.create(root / "store")
    fill(store, {"a": [(50, 10)]})
    page.write(report(store, "r1"), root / "out")
    return Digest.read("daily", root / "out", START, START + DAY, [])


def read(folder: Path, table: str) -> RunConfig:
    path = folder / "mburst.toml"
    path.write_text(f'[[deliver]]\nname = "new"\nattempts = 1\n{table}\n')
    return load(path)


def test_a_registered_kind_delivers_once(datagram, digest, tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(30)
        port = receiver.getsockname()[1]
        config = read(tmp_path, f'kind = "datagram"\nport = {port}\ntoken = "{TOKEN}"')
        lines: list[str] = []
        with DeliveryLedger(tmp_path / "ledger", config.secrets) as ledger:
            for _ in range(2):
                assert deliver(digest, config.deliveries["new"], ledger, lines.append)
        assert receiver.recv(9000).decode() == f"info {TOKEN} {digest.title}"
        receiver.settimeout(0)
        with pytest.raises(BlockingIOError):
            receiver.recv(9000)
    assert len(lines) == 1 and lines[0].startswith("new: delivered daily")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            'port = 1\ntoken = "x"\nhost = "y"',
            "[[deliver]] new has no key 'host' (valid are attempts, kind, level, name,",
        ),
        ("port = 1", "[[deliver]] new needs token"),
        ('port = 1\ntoken = "x"\nlevel = "loud"', "[[deliver]] new: invalid level 'loud' (valid are info, never)"),
        ("port = 1\ntoken = [1]", "[[deliver]] new: token must be a text or a number"),
        ('port = 1\ntoken = "${NOT_THERE}"', "[[deliver]] new: token refers to $NOT_THERE"),
    ],
)
def test_keys_of_a_registered_kind_are_checked(datagram, tmp_path, table, message):
    with pytest.raises(UsageError) as caught:
        read(tmp_path, f'kind = "datagram"\n{table}')
    assert message in f"{caught.value} ({caught.value.hint})"


@pytest.mark.parametrize("written", [TOKEN, "${TOKEN}"])
def test_secrets_of_a_registered_kind_are_hidden(datagram, digest, tmp_path, monkeypatch, written):
    monkeypatch.setenv("TOKEN", TOKEN)
    config = read(tmp_path, f'kind = "datagram"\nport = 1\ntoken = "{written}"\nlevel = "never"')
    lines: list[str] = []
    with DeliveryLedger(tmp_path / "ledger", config.secrets) as ledger:
        assert not deliver(digest, config.deliveries["new"], ledger, lines.append)
        lines += ledger.open_failures()
    assert len(lines) == 2 and all("… may not send" in line for line in lines)
    assert TOKEN not in "".join(lines) + repr(config) + (tmp_path / "ledger").read_text()


VALUES = {
    "path": '"www"',
    "host": '"mail"',
    "from": '"a@b.c"',
    "to": '["d@e.f"]',
    "url": '"http://127.0.0.1/s3cret-of-url"',
    "password": '"s3cret-of-password"',
}


@pytest.mark.parametrize("kind", list(KINDS.values()), ids=lambda kind: kind.name)
def test_the_file_is_checked_against_the_declared_keys(kind, tmp_path):
    needed = [key.name for key in kind.keys if key.needed]
    given = [key.name for key in kind.keys if key.needed or key.secret]
    whole = {name: f"{name} = {VALUES[name]}" for name in given}
    head = f'kind = "{kind.name}"\n'
    config = read(tmp_path, head + "\n".join(whole.values()))
    assert set(config.deliveries["new"].settings) == {key.name for key in kind.keys}
    assert "s3cret" not in repr(config.deliveries)
    assert {key.name for key in kind.keys if key.secret} == {
        name for name in given for secret in config.secrets.values if secret in VALUES[name]
    }
    for name in needed:
        with pytest.raises(UsageError, match=f"needs {name}$"):
            read(tmp_path, head + "\n".join(line for key, line in whole.items() if key != name))
    with pytest.raises(UsageError, match="has no key 'pigeon'") as caught:
        read(tmp_path, head + 'pigeon = "x"')
    valid = {"name", "kind", *(key.name for key in (*COMMON, *kind.keys))}
    assert caught.value.hint == f"valid are {', '.join(sorted(valid))}"


@pytest.mark.parametrize("named", ['["smtp"]', "3", '{ a = "smtp" }'])
def test_a_kind_that_is_no_name_is_refused(tmp_path, named):
    with pytest.raises(UsageError, match="invalid kind"):
        read(tmp_path, f"kind = {named}")


def test_no_other_module_names_a_kind():
    """Neither the configuration nor the schedule does: kinds declare all that these need."""
    knowing = {
        path
        for path in (ROOT / "mburst").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in KINDS
    }
    folder = ROOT / "mburst" / "agent" / "delivery" / "kinds"
    assert {path.parent for path in knowing} == {folder}
