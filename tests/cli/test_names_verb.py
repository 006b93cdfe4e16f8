"""`mburst names`: reads sources of names into a store, lists them, and reports errors in one line."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from burstlib import T0
from dnslib import answering
from storelib import write

from mburst.__main__ import main
from mburst.api import naming
from mburst.sql import StoreFolder

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store with a host that sends, and three senders."""
    found = StoreFolder.create(tmp_path / "store")
    write(found, "recordings", {"start_ns": T0, "end_ns": T0 + 10**9})
    sent = {"10.0.0.1": 300, "10.0.0.2": 200, "10.0.0.3": 100, "02:00:00:00:00:01": 9, "other": 900}
    at = {"ts_ns": T0, "first_ns": T0, "last_ns": T0}
    own = [{**at, "source": "10.9.0.1", "direction": "out", "bytes": 50, "recording_id": "run-2"}]
    write(found, "sources", *own, *({**at, "source": source, "bytes": size} for source, size in sent.items()))
    return found


@pytest.fixture
def ask(store: StoreFolder, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["names", str(store.path), *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def listed(ask: Ask) -> list[tuple[str, str, str]]:
    code, out, _ = ask("--json")
    assert code == 0
    return [(row["prefix"], row["name"], row["origin"]) for row in json.loads(out)]


def test_a_file_is_read_once_and_replaced(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "n.csv"
    file.write_text("address,name,rack\n10.0.0.1,db-1,r7\n10.0.0.0/24,dbs,\n")
    assert ask(str(file)) == (0, f"{file}: 2 names (csv)\n", "")
    assert ask(str(file)) == (0, f"{file}: 2 names (csv), as before: nothing was added\n", "")
    assert listed(ask) == [("10.0.0.0/24", "dbs", str(file)), ("10.0.0.1", "db-1", str(file))]
    file.write_text("address,name\n10.0.0.1,db-one\n")
    [imported] = json.loads(ask(str(file), "--json")[1])
    assert (imported["names"], imported["is_new"]) == (1, True)
    _, out, _ = ask()
    assert [line.split() for line in out.splitlines()][1] == ["10.0.0.1", "db-one", str(file)]
    assert ask("--remove", str(file))[0] == 0
    assert ask() == (0, "", f"mburst: no names (`mburst names {tmp_path}/store FILE` reads some)\n")
    code, _, err = ask("--remove", str(file))
    assert code != 0 and f"no names from '{file}'" in err


def test_control_characters_in_names_are_escaped(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("address,name\n10.0.0.1,\x1b[2Jred\n10.0.0.2,=1+1\n"))
    assert ask("-")[0] == 0
    _, out, _ = ask()
    assert "\x1b" not in out and "\\x1b[2Jred" in out
    assert "'=1+1" in ask("--csv")[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "standard input is empty (`mburst names STORE --remove"),
        ("\n \n", "standard input is empty"),
        ("address,name\n10.0.0.2,caf\udce9\n", "standard input: not text in UTF-8"),
        (None, "standard input is closed"),
    ],
    ids=repr,
)
def test_a_command_that_failed_ends_no_names(
    content: str | None, message: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kubectl … | mburst names STORE -`, if kubectl prints nothing."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("address,name\n10.0.0.1,db-1\n"))
    assert ask("-")[0] == 0
    monkeypatch.setattr(sys, "stdin", content if content is None else io.StringIO(content))
    code, out, err = ask("-")
    assert code != 0 and not out and message in err and err.count("\n") == 1
    assert [row["until_ns"] for row in json.loads(ask("--json")[1])] == [None]


def test_recorded_hosts_name_their_addresses(ask: Ask) -> None:
    assert ask("recorded") == (0, "recorded: 1 name (recorded)\n", "")
    [row] = json.loads(ask("--json")[1])
    assert (row["prefix"], row["name"], row["rack"]) == ("10.9.0.1", "cache-1", "r1")


def test_a_recorded_host_without_a_rack_has_that_of_its_switch_port(tmp_path: Path) -> None:
    """`mburst collect` knows it by LLDP: the newest neighbour counts, and a removed one does not."""
    found = StoreFolder.create(tmp_path / "attached")
    write(found, "recordings", {"rack": "", "host": "db-7"})
    own = {"ts_ns": T0, "first_ns": T0, "last_ns": T0, "host": "db-7", "rack": "", "direction": "out"}
    write(found, "sources", {**own, "source": "10.0.0.7", "bytes": 1})
    link = {
        "batch": "b",
        "host": "db-7",
        "interface": "eth0",
        "link_bps": None,
        "device": "tor",
        "port": "1",
        "queue": "",
    }
    racks = ((1, "r1", True), (2, "r8", True), (3, "r9", False))
    write(
        found,
        "links",
        *({**link, "ts_ns": at, "rack": rack, "present": there, "origin": "lldp"} for at, rack, there in racks),
    )
    naming.import_recorded(found)
    with found.connect() as con:
        assert con.execute("SELECT prefix, name, located FROM names").fetchall() == [("10.0.0.7", "db-7", "r8")]


def test_hosts_file(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "hosts"
    file.write_text("10.0.0.1 db-1\n")
    monkeypatch.setattr(naming, "HOSTS_FILE", file)
    assert ask("hosts")[0] == 0
    assert listed(ask) == [("10.0.0.1", "db-1", "hosts")]


def test_dns_is_queried_only_for_senders(ask: Ask) -> None:
    """The senders with most bytes are queried. A name stays if DNS does not answer, and is removed if it no longer
    exists."""
    words = ("one", "two", "three")
    names: dict[str, str | None] = {f"10.0.0.{n}": f"{word}.example." for n, word in enumerate(words, 1)}
    with answering(names) as server:
        assert ask("dns", "--server", server.address, "--most", "2")[0] == 0
        assert len(set(server.asked)) == 2
    assert [row[:2] for row in listed(ask)] == [("10.0.0.1", "one.example"), ("10.0.0.2", "two.example")]
    with answering({"10.0.0.1": None, "10.0.0.2": "", "10.0.0.3": "three.example."}) as server:
        code, _, err = ask("dns", "--server", server.address, "--timeout", "700ms")
    assert (code, err) == (0, "mburst: DNS did not answer for 1 address\n")
    rows = json.loads(ask("--json")[1])
    now = [(row["prefix"], row["name"]) for row in rows if row["until_ns"] is None]
    assert now == [("10.0.0.1", "one.example"), ("10.0.0.3", "three.example")]
    with answering(dict.fromkeys([*names, "10.9.0.1"])) as server:
        code, _, err = ask("dns", "--server", server.address, "--timeout", "200ms")
    assert code != 0 and err.startswith("mburst: DNS did not answer (name another server")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nowhere/names.csv"], "/nowhere/names.csv: cannot read: No such file"),
        (["dns", "--server", "x"], "invalid DNS server 'x'"),
        (["dns", "--most", "0"], "invalid --most '0'"),
        (["--every", "1h"], "--every is of sources that can be read again"),
        (["hosts", "--every", "1s"], "invalid --every '1s': less than a minute"),
        (["hosts", "--remove", "dns"], "--remove is of one call"),
        (["hosts", "--csv"], "--csv is of the list"),
        (["dns", "--since", "2090-01-01"], "is in the future"),
        (["dns", "--until", "2001-01-01"], "no senders to ask DNS about"),
    ],
)
def test_errors_are_one_line(ask: Ask, words: list[str], message: str) -> None:
    code, out, err = ask(*words)
    assert code != 0 and not out and message in err and err.count("\n") == 1


def test_a_part_of_mburst_run_needs_sources_and_every(tmp_path: Path) -> None:
    from mburst.agent.config import load
    from mburst.errors import UsageError

    def parts(text: str) -> list[Any]:
        file = tmp_path / "mburst.toml"
        file.write_text(f'store = "{tmp_path}/store"\n{text}')
        return load(file).parts

    [part] = parts('[names]\nsources = ["hosts", "/etc/names.csv"]\nevery = "1h"\n')
    assert part.argv == ["names", "--every=1h", "--", f"{tmp_path}/store", "hosts", "/etc/names.csv"]
    with pytest.raises(UsageError, match="a part needs sources and every"):
        parts('[names]\nsources = ["hosts"]\n')
