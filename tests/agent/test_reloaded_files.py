"""A reload restarts a part if, and only if, what it is made of has changed, and if the new files are valid."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from pathlib import Path

import pytest

from mburst.__main__ import main
from mburst.agent.config import RunPart, load
from mburst.agent.delivery import deliver
from mburst.agent.delivery.ledger import DeliveryLedger
from mburst.agent.part_check import check_files
from mburst.agent.schedule import due
from mburst.agent.supervise import Supervisor
from mburst.cli.run import check
from mburst.errors import MburstError, UsageError

FILE = """store = "store"
[[report]]
name = "daily"
output = "out"
keep = "10d"
deliver = ["m", "w", "a", "f"]
[[deliver]]
name = "m"
kind = "smtp"
host = "mail"
user = "me"
password = "${PASSWORD}"
from = "a@b.c"
to = ["d@e.f"]
[[deliver]]
name = "w"
kind = "webhook"
url = "https://hooks.example/s3cret"
[[deliver]]
name = "a"
kind = "alertmanager"
url = "http://127.0.0.1:9093"
min-share = "1%"
[[deliver]]
name = "f"
kind = "folder"
path = "www"
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes mburst.toml and mburst.env, and returns the configuration."""
    monkeypatch.chdir(tmp_path)

    def write(content: str = FILE, secret: str = "tiger-lily"):
        Path("mburst.env").write_text(f"PASSWORD={secret}\n")
        Path("mburst.env").chmod(0o600)
        Path("mburst.toml").write_text(content)
        return load(Path("mburst.toml"))

    return write


def test_an_unchanged_file_makes_equal_parts(written):
    first, second = written(), written()
    assert first.schedule == second.schedule and first.parts == second.parts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hooks.example/s3cret", "hooks.example/other"),
        ("9093", "9094"),
        ('"1%"', '"2%"'),
        ('host = "mail"', 'host = "post"'),
        ('"d@e.f"', '"d@e.g"'),
        ('"www"', '"web"'),
        ('"10d"', '"11d"'),
        ('user = "me"', 'user = "me"\nattempts = 4'),
    ],
)
def test_each_changed_value_changes_the_schedule(written, before, after):
    first, second = written(), written(FILE.replace(before, after))
    assert first.schedule != second.schedule
    assert "s3cret" not in repr((first, first.schedule)) and "tiger" not in repr((first, first.schedule))


def test_a_changed_secret_changes_the_schedule(written):
    assert written().schedule != written(secret="tiger-rose").schedule


REFUSED = [
    ('store = "${HOME}/x9"', "the file: store has ${HOME}, which is not replaced there"),
    ('host = "${NODE_NAME}"', "the file: host has ${NODE_NAME}"),
    ('store = "~/s"', "the file: store has ~"),
    ('store = "~user/s"', "the file: store has ~user"),
    ('store = "~"', "the file: store has ~"),
    ('store = "s"\ntoken = "${A"', "the file has no key 'token'"),
    ('store = "s"\n[live]\ntoken = "${X}"', "[live] has no key 'token'"),
    ('[collect]\nconfig = "$HOME/gnmi.yaml"', "[collect]: config has $HOME"),
    ('[record]\ninputs = ["lo", "$IF/x"]', "[record]: inputs has $IF"),
    ('[[record]]\ninputs = "lo"\nname = "${X}"\n[[record]]\ninputs = "lo"', "[[record]] number 1: name has ${X}"),
    ('[[report]]\nname = "a"\noutput = "~/rr"', "[[report]] a: output has ~"),
    ('[ship]\ntarget = "s3://${BUCKET}"\nevery = "1h"', "[ship]: target has ${BUCKET}"),
    ('[[deliver]]\nname = "a"\nkind = "folder"\npath = "~/www"', "[[deliver]] a: path has ~"),
    ('[[deliver]]\nname = "a"\nkind = "folder"\npath = "$X/${HOME}"', "[[deliver]] a: path has $X"),
    (
        '[[deliver]]\nname = "a"\nkind = "webhook"\nurl = "http://a"\nsite = "http://${A}"',
        "[[deliver]] a: site has ${A}",
    ),
    ('[[deliver]]\nname = "a"\nkind = "webhook"\nurl = "http://${A-B}"', "[[deliver]] a: url has ${ without a name"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
@pytest.mark.parametrize("fill", [True, False])
def test_what_would_be_taken_literally_is_refused(tmp_path, monkeypatch, text, message, fill):
    for name in ("A", "X", "IF", "BUCKET"):
        monkeypatch.setenv(name, "x")
    path = tmp_path / "mburst.toml"
    path.write_text(text if "store" in text or "deliver" in text else f'store = "s"\n{text}')
    with pytest.raises(UsageError, match=re.escape(f"{path}: {message}")):
        load(path, fill)


def test_a_password_may_have_a_dollar_sign(written):
    config = written(FILE.replace('"${PASSWORD}"', '"~pa$word"'))
    assert config.deliveries["m"].settings["password"] == "~pa$word"


@pytest.mark.parametrize(
    ("given", "password"),
    [("a$${b", "a${b"), ("$${PASSWORD}", "${PASSWORD}"), ("a$${b}${PASSWORD}", "a${b}tiger-lily"), ("a$", "a$")],
)
def test_a_password_may_have_a_dollar_sign_and_a_brace(written, given, password):
    config = written(FILE.replace('"${PASSWORD}"', f'"{given}"'))
    assert config.deliveries["m"].settings["password"] == password
    with pytest.raises(UsageError, match="without a name and }") as caught:
        written(FILE.replace('"${PASSWORD}"', '"s3cret${"'))
    assert caught.value.hint == "write $${ for ${ itself" and "s3cret" not in str(caught.value)


def test_names_with_a_dollar_sign_or_a_tilde_are_names(written):
    """Azure calls a container $web."""
    content = FILE.replace(
        'store = "store"', 'store = "store"\nrack = "~dc"\n[ship]\ntarget = "az://a/$web"\nevery = "1h"'
    )
    content = content.replace('output = "out"', 'output = "out"\nracks = ["~dc", "r$A", "$A"]')
    config = written(content.replace('min-share = "1%"', 'site = "https://a.example/$web/x"'))
    assert config.deliveries["a"].site == "https://a.example/$web/x" and config.reports[0].racks[0] == "~dc"


# --- the files of parts ---


@pytest.fixture
def collect(tmp_path) -> RunPart:
    (tmp_path / "gnmi.yaml").write_text("targets: [")
    return RunPart("collect", ["collect", f"--store={tmp_path}/s", "--", f"{tmp_path}/gnmi.yaml"], "new")


def test_a_part_whose_file_is_broken_is_not_started_in_place_of_one_that_works(collect, monkeypatch, capfd):
    monkeypatch.setattr("mburst.agent.part.command", lambda module, supervisor, *argv: ["sleep", "600"])
    before = RunPart("collect", collect.argv, "old")

    async def work() -> None:
        supervisor = Supervisor([before], reread=lambda: ([collect], dict(os.environ)), check=check_files)
        running = asyncio.create_task(supervisor.run())
        while not (supervisor.running.get("collect") and supervisor.running["collect"].process):
            await asyncio.sleep(0.05)
        pid = supervisor.running["collect"].process.pid
        await supervisor._reload()
        await asyncio.sleep(0.2)
        assert supervisor.running["collect"].process.pid == pid and supervisor.running["collect"].part is before
        supervisor._stop()
        await asyncio.wait_for(running, 60)

    asyncio.run(work())
    assert "mburst: not reloaded, all parts continue: collect: " in (said := capfd.readouterr().err)
    assert "gnmi.yaml line 1: invalid YAML" in said and "restarted" not in said


def test_a_file_without_any_part_is_not_reloaded(written, monkeypatch, capsys):
    """An editor empties a file before it writes the new content, and all parts would end."""
    written('store = "s"\n[keep]\nevery = "1h"\n')

    class Reloading(Supervisor):
        async def run(self) -> int:
            Path("mburst.toml").write_text("")
            await self._reload()
            return len(self.running)

        def _replace(self, wanted: object) -> None:
            raise AssertionError(wanted)

    monkeypatch.setattr("mburst.agent.supervise.Supervisor", Reloading)
    assert main(["run", "mburst.toml"]) == 0
    reason = "mburst.toml: nothing to run (it has no part such as [record] or [[report]])"
    assert capsys.readouterr().err == f"mburst: not reloaded, all parts continue: {reason}\n"


NAP = RunPart("nap", ["sleep", "600"])


async def reloaded(check, *parts: RunPart, before: RunPart = NAP) -> Supervisor:
    """Returns a supervisor of the part BEFORE, after a reload with PARTS that CHECK checks."""
    supervisor = Supervisor([before], reread=lambda: (list(parts), {}), check=check)
    supervisor.task = asyncio.create_task(supervisor.run())
    while before.name in supervisor.running and not supervisor.running[before.name].process:
        await asyncio.sleep(0.05)
    supervisor._ask_to_reload()
    return supervisor


async def ended(supervisor: Supervisor) -> int:
    supervisor._stop()
    return await asyncio.wait_for(supervisor.task, 30)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "x/y"), "x/y: Permission denied"),
        (OSError(36, "File name too long"), "a file: File name too long"),
        (ValueError("s3cret"), "internal error: ValueError"),
        (SystemExit(2), "internal error: RuntimeError"),
        (StopIteration(), "internal error: RuntimeError"),
    ],
)
def test_a_reload_survives_any_error_of_a_check(monkeypatch, capfd, error, said):
    monkeypatch.setattr("mburst.agent.part.command", lambda module, supervisor, *argv: argv)

    def check(part: RunPart, environment: object) -> None:
        raise error

    async def work() -> None:
        supervisor = await reloaded(check, NAP, RunPart("new", ["true"]))
        await asyncio.sleep(0.3)
        assert list(supervisor.running) == ["nap"] and not supervisor.task.done()
        assert await ended(supervisor) == 0

    asyncio.run(work())
    assert capfd.readouterr().err == f"mburst: not reloaded, all parts continue: {said}\n"


def test_a_check_that_the_system_refuses_is_an_error_on_which_a_user_can_act(monkeypatch):
    """`mburst run --check` takes it as what is missing on this machine."""
    part = RunPart("live", ["live", "--open", "--", "store"])

    def refused(self: Path) -> bool:
        raise OSError(36, "File name too long", "x")

    monkeypatch.setattr(Path, "is_dir", refused)
    with pytest.raises(MburstError, match=r"^live: .*File name too long") as caught:
        check_files(part, dict(os.environ))
    assert not isinstance(caught.value, UsageError)


def test_a_slow_check_holds_neither_the_watchdog_nor_the_end_up(monkeypatch, capfd):
    """Also one that waits for a server and cannot be interrupted."""
    monkeypatch.setattr("mburst.agent.part.command", lambda module, supervisor, *argv: argv)
    begun, over, beats = threading.Event(), threading.Event(), []

    def check(part: RunPart, environment: object) -> None:
        begun.set()
        over.wait(60)

    async def work() -> None:
        supervisor = await reloaded(check, RunPart("nap", ["sleep", "601"]))
        supervisor.manager.beat = lambda: beats.append(time.monotonic())
        while not begun.is_set():
            await asyncio.sleep(0.05)
        before = len(beats)
        await asyncio.sleep(2.5)
        assert len(beats) >= before + 2
        supervisor._ask_to_reload()  # a second one waits for the first
        assert await ended(supervisor) == 0

    begin = time.monotonic()
    asyncio.run(work())
    over.set()
    assert time.monotonic() - begin < 30 and "reloaded" not in capfd.readouterr().err


def test_all_checks_of_a_reload_have_one_limit(monkeypatch, capfd):
    monkeypatch.setattr("mburst.agent.part.command", lambda module, supervisor, *argv: argv)
    monkeypatch.setattr("mburst.agent.supervise.CHECKS_S", 0.5)
    checked = []

    def check(part: RunPart, environment: object) -> None:
        checked.append(part.name)
        time.sleep(0.4)

    async def work() -> None:
        supervisor = await reloaded(check, *(RunPart(name, ["sleep", "601"]) for name in ("nap", "b", "c", "d")))
        await asyncio.sleep(2)
        assert list(supervisor.running) == ["nap"] and supervisor.running["nap"].part is NAP
        assert await ended(supervisor) == 0

    asyncio.run(work())
    said = "mburst: not reloaded, all parts continue: its checks took longer than 0.5 s\n"
    assert capfd.readouterr().err == said and checked == ["nap", "b"]


def test_a_part_that_rejected_its_arguments_does_not_block_a_reload(monkeypatch, capfd):
    """It is not new: only new and changed parts are checked. A reload starts it again."""
    monkeypatch.setattr("mburst.agent.part.command", lambda module, supervisor, *argv: argv)
    bad, new = RunPart("bad", ["sh", "-c", "exit 2"]), RunPart("new", ["sleep", "600"])

    def check(part: RunPart, environment: object) -> None:
        if part.name == "bad":
            raise UsageError("invalid")

    async def work() -> None:
        supervisor = Supervisor([NAP, bad], reread=lambda: ([NAP, bad, new], {}), check=check)
        supervisor.task = asyncio.create_task(supervisor.run())
        while "bad" not in supervisor.rejected:
            await asyncio.sleep(0.05)
        supervisor._ask_to_reload()
        while "new" not in supervisor.running:
            await asyncio.sleep(0.05)
        assert await ended(supervisor) == 2

    asyncio.run(asyncio.wait_for(work(), 60))
    assert "mburst: reloaded: started bad, new\n" in capfd.readouterr().err


def test_a_name_without_an_address_is_not_an_invalid_file(monkeypatch):
    def refused(*ignored: object, **more: object) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    check_files(RunPart("live", ["live", "--open", "--listen=a.invalid:1", "--", "."]), dict(os.environ))


@pytest.mark.parametrize("host", ["a..b", "1.2.3.444", "a/b"])
def test_what_cannot_be_the_name_of_a_host_is_an_error_of_the_file(host):
    with pytest.raises(UsageError, match="live: invalid host"):
        check_files(RunPart("live", ["live", "--open", f"--listen={host}:1", "--", "."]), dict(os.environ))


def test_secrets_of_the_environment_are_known_to_the_check(collect, tmp_path):
    text = 'targets: {"a:57400": { username: u, password: "${PW}"}}\nsubscriptions: {s: {paths: [/interfaces]}}\n'
    (tmp_path / "gnmi.yaml").write_text(text)
    check_files(collect, {**os.environ, "PW": "x"})


@pytest.mark.parametrize("options", [["live", "--store=s"], ["metrics"]])
def test_a_token_that_is_missing_is_noticed_before_a_restart(tmp_path, options):
    verb, *more = options
    part = RunPart(verb, [verb, f"--token-file={tmp_path}/token", "--listen=127.0.0.1:0", *more, "--", f"{tmp_path}/s"])
    with pytest.raises(MburstError, match=f"^{verb}: .*token"):
        check_files(part, dict(os.environ))


def test_the_check_of_a_file_reads_the_files_of_its_parts(written, tmp_path, capsys):
    content = 'store = "s"\n[collect]\nconfig = "gnmi.yaml"\n'
    config = written(content)
    check(config, config.parts)  # the part reports a file that is missing
    assert "is valid" in capsys.readouterr().out
    (tmp_path / "gnmi.yaml").write_text("targets: [")
    with pytest.raises(UsageError, match=r"collect: gnmi\.yaml line 1: invalid YAML"):
        check(config, config.parts)


# --- deliveries in flight ---


def test_a_process_that_shall_end_begins_no_other_delivery(written, tmp_path, monkeypatch):
    """The one in flight is finished; the others follow in the next process."""
    from racklib import DAY, HOUR, START, fill

    from mburst.sql import StoreFolder

    fill(StoreFolder.create(tmp_path / "store"), {"a": [(50, 10)]})
    content = 'store = "store"\n[[report]]\nname = "daily"\noutput = "out"\ndeliver = ["f", "g"]\n'
    folder = '[[deliver]]\nname = "{0}"\nkind = "folder"\npath = "{0}"\n'
    config = written(content + folder.format("f") + folder.format("g"))
    ending: list[str] = []

    def delivering(digest, to, *rest):
        ending.append(to.name)
        return deliver(digest, to, *rest)

    monkeypatch.setattr(due, "deliver", delivering)
    failed = due.carry_out(config, config.reports[0], START + DAY + HOUR, ending.append, lambda seconds: "f" in ending)
    assert failed == 1 and Path("f/index.html").exists() and not Path("g").exists()
    assert due.carry_out(config, config.reports[0], START + DAY + HOUR, ending.append) == 0
    assert Path("g/index.html").exists() and ending.count("f") == 2


class Power(BaseException):
    """The machine has lost it."""


@pytest.mark.parametrize("ended", ["by a signal", "by a kill"])
def test_what_was_not_begun_is_made_up_for_after_the_period(written, tmp_path, monkeypatch, ended):
    """Also if a week has passed: then it is stated."""
    from racklib import DAY, HOUR, START, fill

    from mburst.sql import StoreFolder

    fill(StoreFolder.create(tmp_path / "store"), {"a": [(50, 10)]})
    content = 'store = "store"\n[[report]]\nname = "daily"\noutput = "out"\ndeliver = ["f", "g"]\n'
    folder = '[[deliver]]\nname = "{0}"\nkind = "folder"\npath = "{0}"\n'
    config, now = written(content + folder.format("f") + folder.format("g")), START + DAY + HOUR
    report, lines = config.reports[0], []

    def delivering(digest, to, *rest):
        if ended == "by a kill":
            raise Power
        return deliver(digest, to, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(due, "deliver", delivering)
        try:
            assert due.carry_out(config, report, now, lines.append, lambda seconds: ended == "by a signal") == 2
            assert ended == "by a signal"
        except Power:
            assert ended == "by a kill"
    assert not Path("f").exists() and not Path("g").exists()
    ledger = DeliveryLedger.seen(Path("out/.deliveries.jsonl"), config.secrets)
    assert ledger.open_failures() == []  # it may be about to begin
    monkeypatch.setattr("mburst.agent.delivery.ledger.DUE_NS", -1)
    assert len(ledger.open_failures()) == 2 and "was not delivered to f at" in ledger.open_failures()[0]
    later, lines = Path("later"), []
    later.write_bytes(Path("out/.deliveries.jsonl").read_bytes())
    assert due.carry_out(config, report, now + DAY, lines.append) == 0
    assert (
        sum("f: delivered daily" in line for line in lines) == 2 == sum("g: delivered daily" in line for line in lines)
    )
    assert not any("was not delivered" in path.read_text() for path in Path("f").glob("*.html"))
    later.rename("out/.deliveries.jsonl")
    due.carry_out(config, report, now + 9 * DAY, lines.append)
    ledger = DeliveryLedger.seen(Path("out/.deliveries.jsonl"), config.secrets)
    assert all("not begun before mburst ended, and too old now" in said for said in ledger.open_failures())
    assert len(ledger.open_failures()) == 2


def test_a_process_that_shall_end_does_not_try_again(written):
    config = written(FILE.replace('host = "mail"', 'host = "127.0.0.1"\nport = 1\nattempts = 5\nsecurity = "none"'))
    from mburst.agent.delivery import Digest

    lines: list[str] = []
    with DeliveryLedger(Path("ledger")) as ledger:
        digest = Digest("daily", 0, 1, Path("out"), [], ["trouble"])
        assert not deliver(digest, config.deliveries["m"], ledger, lines.append, lambda seconds: True)
    assert len(lines) == 1
