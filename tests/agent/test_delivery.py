"""Deliveries to real servers on the loopback are accepted once, retried, and recorded."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from io import BytesIO

import pytest
from deliverylib import mail, mail_server, sent, to, web_server
from ports import free_port
from racklib import DAY, START, fill, report
from room import room

from mburst.agent.delivery import Delivery, DeliveryLedger, Digest
from mburst.agent.delivery import ledger as book
from mburst.agent.delivery.digest import DigestEntry
from mburst.agent.delivery.kind import MaybeDelivered, NotDelivered
from mburst.agent.delivery.kinds.webhook import send as send_webhook
from mburst.agent.delivery.post import ConnectionDeadline
from mburst.dashboards.rack import page
from mburst.errors import MburstError
from mburst.sql import StoreFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports of two racks."""
    root = tmp_path_factory.mktemp("delivery")
    store = StoreFolder.create(root / "store")
    fill(store, {"a": [(50, 10), (7_300_000, 30)], "b": [(55, 10)]})
    fill(store, {"c": []}, rack="quiet & <small>")
    for rack in ("r1", "quiet & <small>"):
        page.write(report(store, rack), root / "out")
    return root / "out"


@pytest.fixture
def digest(folder):
    return Digest.read("daily", folder, START, START + DAY, [])


@pytest.fixture
def ledger(tmp_path):
    with DeliveryLedger(tmp_path / "ledger") as opened:
        yield opened


@pytest.fixture
def inbox():
    with mail_server() as inbox:
        yield inbox


@pytest.fixture
def web():
    with web_server() as web:
        yield web


def test_a_mail_has_a_table_a_picture_and_a_page(digest, inbox, ledger):
    from PIL import Image

    assert sent(digest, mail(inbox, site="https://reports.example.net"), ledger)[0]
    [made] = inbox.mails
    assert made["Subject"] == "Microbursts, Friday 2026-11-20, UTC: 3 bursts in 1 of 2 racks"
    assert made["To"] == "ops@example.net, on-call@example.net" and made["Auto-Submitted"] == "auto-generated"
    text, html = (made.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "r1: 2 of 2 hosts received 3 bursts" in text and "https://reports.example.net/rack-r1-" in text
    assert "<td" in html and "<small>" not in html and "quiet &amp; &lt;small&gt;" in html
    images = [part for part in made.walk() if part.get_content_type() == "image/png"]
    assert len(images) == 1 and f'src="cid:{images[0]["Content-ID"].strip("<>")}"' in html
    picture = Image.open(BytesIO(images[0].get_content()))
    assert len(picture.getcolors(10_000)) > 3 and picture.height < 200
    assert [part.get_filename() for part in made.iter_attachments()][-1].endswith(".html")


def test_nothing_is_sent_twice(digest, inbox, ledger):
    for _ in range(3):
        assert sent(digest, mail(inbox), ledger)[0]
    assert len(inbox.mails) == 1


def test_a_refused_mail_is_retried_with_the_same_id(digest, inbox, ledger):
    inbox.answers = ["451 later", "451 later"]
    done, reported = sent(digest, mail(inbox), ledger)
    assert done and len(inbox.mails) == 1 and "451 later (1 of 3 tries)" in reported[0]


def test_a_failure_is_in_the_next_message(folder, digest, inbox, ledger):
    inbox.answers = ["550 no"] * 3
    assert not sent(digest, mail(inbox), ledger)[0]
    assert ledger.failed("daily", "ops") == [(START, START + DAY)] and ledger.state(digest.key("ops")) == book.FAILED
    [trouble] = ledger.troubles("ops")
    assert "was not delivered to ops" in trouble and "550 no (3 of 3 tries)" in trouble
    late = Digest.read("daily", folder, START, START + DAY, ledger.troubles("ops"))
    assert sent(late, mail(inbox), ledger)[0]
    assert trouble in inbox.mails[0].get_body(("plain",)).get_content()
    assert ledger.troubles("ops") == [] and ledger.open_failures() == []


def test_a_missing_server_is_a_failure(digest, ledger):
    where = to("smtp", host="127.0.0.1", port=free_port(), security="none", to="a@b.c", **{"from": "a@b.c"})
    done, reported = sent(digest, where, ledger)
    assert not done and len(reported) == 3 and "refused" in reported[0]


def answered(digest, ledger, word: bytes, answer: bytes) -> tuple[bool, list[str], bytes]:
    """Sends a mail once to a server that answers the line WORD with ANSWER and closes the connection. Returns whether
    the delivery is over, what was reported, and all that the server read."""
    listening, seen = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        connection, _ = listening.accept()
        stream = connection.makefile("rwb")
        stream.write(b"220 hello\r\n")
        stream.flush()
        for line in stream:
            seen.append(line)
            if line.upper() == word:
                stream.write(answer)
                break
            if line[:4].upper() in (b"EHLO", b"MAIL", b"RCPT", b"DATA"):
                stream.write(b"354 go\r\n" if line[:4].upper() == b"DATA" else b"250 ok\r\n")
                stream.flush()
        with suppress(OSError):
            stream.close()
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    server = {"host": "127.0.0.1", "port": listening.getsockname()[1], "security": "none"}
    done, reported = sent(digest, to("smtp", attempts=1, to="a@b.c", **server, **{"from": "a@b.c"}), ledger)
    thread.join()
    listening.close()
    return done, reported, b"".join(seen)


@pytest.mark.parametrize("answer", [b"", b"hm\r\n", b"\xff\r\n", b"354 go\r\n", b"2" * 9000 + b"\r\n"])
def test_a_mail_is_not_sent_again_unless_the_server_refuses_it_after_data(digest, ledger, answer):
    """The server took all of DATA, and closed the connection or sent what is no answer: it may or may not have the mail
    (RFC 5321, 4.5.4.2)."""
    done, reported, seen = answered(digest, ledger, b".\r\n", answer)
    assert done and seen.endswith(b"\r\n.\r\n") and "may not have been delivered" in reported[0]
    assert ledger.state(digest.key("ops")) == book.UNSURE and "may have arrived" in ledger.troubles("ops")[0]


@pytest.mark.parametrize(
    "answer", [b"", b"hm\r\n", b"250 ok\r\n", b"451 later\r\n", b"3" * 9000 + b"\r\n", b"354" + b"x" * 9000]
)
def test_a_mail_is_sent_again_unless_the_server_asked_for_its_text(digest, ledger, inbox, answer):
    """Before the answer 354 to DATA nothing of the mail was sent."""
    done, reported, seen = answered(digest, ledger, b"DATA\r\n", answer)
    assert not done and seen.upper().endswith(b"DATA\r\n") and "not delivered" in reported[0]
    assert ledger.state(digest.key("ops")) == book.FAILED
    assert sent(digest, mail(inbox), ledger)[0] and len(inbox.mails) == 1


def test_lines_of_a_mail_that_begin_with_a_period_arrive(digest, ledger, inbox):
    """A line of a period alone would end the mail (RFC 5321, 4.5.2)."""
    troubles = [".", "..", ".a"]
    assert sent(replace(digest, troubles=troubles), mail(inbox), ledger)[0]
    text = inbox.mails[0].get_body(("plain",)).get_content()
    assert text.splitlines()[-4:] == ["Of earlier deliveries:", *troubles]


def test_a_delivery_under_way_at_a_crash_is_not_repeated(digest, inbox, tmp_path):
    path = tmp_path / "ledger"
    with DeliveryLedger(path) as first:
        first.say(digest.key("ops"), book.SENDING)
    with path.open("a") as file:
        file.write('{"report": "cut')
    with DeliveryLedger(path) as again:
        assert again.state(digest.key("ops")) == book.UNSURE
        assert sent(digest, mail(inbox), again)[0] and inbox.mails == []
        again.say(digest.key("other"), book.DONE)
    with DeliveryLedger(path) as third:
        assert third.state(digest.key("other")) == book.DONE and third.state(digest.key("ops")) == book.UNSURE


@pytest.mark.parametrize("end", ["", '{"report": "cut'])
def test_a_ledger_that_cannot_be_written_is_released(tmp_path, monkeypatch, end):
    """`schedule --loop` opens it again later."""
    monkeypatch.setattr(book, "WAIT_S", 0.0)
    path = tmp_path / "ledger"
    with DeliveryLedger(path) as ledger:
        ledger.say(key_of(0), book.SENDING)
    with path.open("a") as file:
        file.write(end)
    with room(path, 0), pytest.raises(MburstError, match="ledger: cannot write: File too large"):
        DeliveryLedger(path).__enter__()
    with DeliveryLedger(path) as again:
        assert again.state(key_of(0)) == book.UNSURE


def test_a_line_that_does_not_fit_on_the_disk_is_refused(tmp_path):
    """Part of a line would be no trace of a message that was sent, and spoil the next line."""
    path = tmp_path / "ledger"
    with DeliveryLedger(path) as ledger:
        ledger.say(key_of(0), book.DONE)
        before = path.read_bytes()
        with room(path, 20), pytest.raises(MburstError, match="ledger: cannot write: File too large"):
            ledger.say(key_of(1), book.SENDING)
        assert path.read_bytes() == before
        ledger.say(key_of(2), book.SENDING)
        ledger.say(key_of(2), book.DONE)
    with DeliveryLedger(path) as again:
        assert [again.state(key_of(day)) for day in range(3)] == [book.DONE, "", book.DONE]


def test_a_ledger_whose_mode_cannot_be_changed_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    path.write_text("")
    path.chmod(0o644)
    monkeypatch.setattr("os.fchmod", lambda file, mode: os.stat(tmp_path / "missing"))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(MburstError, match="ledger: cannot open: No such file"), DeliveryLedger(path):
        pass
    assert os.listdir("/proc/self/fd") == before


def key_of(day: int, name: str = "ops") -> book.DeliveryKey:
    return book.DeliveryKey("daily", START + day * DAY, START + (day + 1) * DAY, name)


def test_the_ledger_keeps_the_newest_deliveries(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "MOST_KEPT", 3)
    path = tmp_path / "ledger"
    with DeliveryLedger(path) as first:
        first.say(key_of(0), book.FAILED, "refused")
        for day in range(1, 5):
            first.say(key_of(day), book.SENDING)
            first.say(key_of(day), book.DONE)
        first.say(key_of(0), book.DONE)  # this is the newest, whatever its period is
    with DeliveryLedger(path) as again:
        states = [again.state(key_of(day)) for day in range(5)]
        assert states == [book.DONE, "", "", book.DONE, book.DONE]
        again.say(key_of(5), book.DONE)
    assert len(path.read_text().splitlines()) == 4 and path.stat().st_mode & 0o777 == 0o600
    with DeliveryLedger(path) as third:
        assert third.state(key_of(5)) == third.state(key_of(4)) == book.DONE


def test_who_waits_for_a_ledger_uses_the_shortened_one(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "MOST_KEPT", 1)
    path, opened = tmp_path / "ledger", []

    def second():
        with DeliveryLedger(path) as ledger:
            opened.append(ledger.state(key_of(3)))
            ledger.say(key_of(4), book.DONE)

    with DeliveryLedger(path) as first:
        for day in range(4):
            first.say(key_of(day), book.DONE)
        threads = [threading.Thread(target=second) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join(60)
    assert len(opened) == 4 and opened[0] == book.DONE
    with DeliveryLedger(path) as last:
        assert last.state(key_of(4)) == book.DONE


def test_failures_are_reported_for_a_month_of_periods(ledger):
    ledger.say(key_of(0), book.FAILED, "refused")
    ledger.say(key_of(0, "web"), book.UNSURE, "it may have arrived")
    for day in range(1, 31):
        ledger.say(key_of(day), book.DONE)
    ledger.say(key_of(10_000), book.DONE)  # the clock was wrong
    assert [line.split(":")[-1] for line in ledger.open_failures()] == []
    ledger.say(key_of(2, "web"), book.FAILED, "refused")
    assert len(ledger.open_failures()) == len(ledger.troubles("ops")) == 1


def test_a_failure_within_a_month_of_periods_is_reported(ledger):
    ledger.say(key_of(0), book.FAILED, "refused")
    for day in range(1, 31):
        ledger.say(key_of(day), book.DONE)
    assert len(ledger.open_failures()) == 1


def test_only_one_process_delivers_at_a_time(tmp_path):
    order = []

    def second():
        with DeliveryLedger(tmp_path / "ledger"):
            order.append("second")

    with DeliveryLedger(tmp_path / "ledger"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_webhook_gets_slack_blocks(digest, web, ledger):
    assert sent(digest, to("webhook", site="https://x.example", url=f"{web.url}/hook?a=1"), ledger)[0]
    [(path, body, headers)] = web.seen
    assert path == "/hook?a=1" and body["text"].startswith("Microbursts, Friday 2026-11-20")
    assert [block["type"] for block in body["blocks"]] == ["header", "section"]
    posted = body["blocks"][1]["text"]["text"]
    assert "|r1>: 2 of 2 hosts" in posted and "quiet &amp; &lt;small&gt;" in posted and headers["Idempotency-Key"]


def test_a_webhook_is_retried_after_a_refusal_but_not_after_a_closed_connection(folder, digest, web, ledger):
    web.answers = [503, 500]
    assert sent(digest, to("webhook", url=web.url), ledger)[0] and len(web.seen) == 3
    other = Digest("other", digest.since_ns, digest.until_ns, folder, digest.entries, [])
    web.answers = [None]
    done, reported = sent(other, to("webhook", url=web.url), ledger)
    assert done and len(web.seen) == 4 and "may not have been delivered" in reported[0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_of_a_webhook_are_not_followed(digest, web, status):
    """Neither to another path, host or scheme, nor to a file: the message goes only to the configured address."""
    elsewhere = [
        f"{web.url}/elsewhere",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "//evil.example/x",
        "gopher://127.0.0.1:25/_MAIL%0d%0a",
        "http://a\r\nX: y/",
    ]
    web.locations = [*elsewhere]
    for number in range(len(elsewhere)):
        web.answers.append(status)
        with pytest.raises(NotDelivered, match=str(status)):
            send_webhook(digest, to("webhook", url=f"{web.url}/secret/{number}"), lambda: None)
    assert [path for path, *_ in web.seen] == [f"/secret/{number}" for number in range(len(elsewhere))]


@pytest.mark.parametrize(
    "posted",
    [b"HTTP/1.1 100 Continue\r\n\r\n", b"H", b"HTTP/1.1 200 OK\r\nX: "],
    ids=["ever on", "letters", "a header"],
)
def test_a_server_with_an_endless_answer_is_abandoned(digest, posted):
    """Bytes keep arriving, so no single read times out."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answering() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(posted)
                while True:
                    time.sleep(0.02)
                    connection.sendall(posted if b"100" in posted else b"x")

        thread = threading.Thread(target=answering, daemon=True)
        thread.start()
        where = Delivery(
            "ops", "webhook", 1, 10**6, 3 * 10**8, "", "always", {"url": f"http://127.0.0.1:{server.getsockname()[1]}/"}
        )
        with nullcontext() if b"200" in posted else pytest.raises(MaybeDelivered):  # 200: it was accepted
            send_webhook(digest, where, lambda: None)
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("sent", [True, False])
def test_an_answer_that_came_in_time_is_read_after_the_deadline(sent):
    """However late the reader wakes up, and whatever arrives until then. Before everything is sent, the deadline also
    ends sending."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as answering,
    ):
        ending = ConnectionDeadline(client, 0.05)
        if sent:
            ending.all_is_sent()
        answering.sendall(b"HTTP/1.1 200 OK\r\n")
        ending.join(30)
        with suppress(OSError):
            for _ in range(5):
                answering.sendall(b"x")
                time.sleep(0.01)
        if sent:
            assert client.recv(1 << 16) == b"HTTP/1.1 200 OK\r\nxxxxx" and client.recv(1) == b""
        else:
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                client.sendall(b"x")


def test_alertmanager_gets_an_alert_for_each_rack_with_bursts(digest, web, ledger):
    web.answers = [None]  # Alertmanager identifies an alert by its labels: sending it again makes no second one
    where = to("alertmanager", url=web.url + "/", site="https://x.example")
    assert sent(digest, where, ledger)[0]
    assert [path for path, _, _ in web.seen] == ["/api/v2/alerts"] * 2
    [alert] = web.seen[-1][1]
    assert alert["labels"] == {"alertname": "MburstReport", "rack": "r1", "report": "daily", "severity": "info"}
    assert alert["startsAt"] == "2026-11-21T00:00:00Z" and alert["endsAt"] == "2026-11-22T00:00:00Z"
    assert alert["generatorURL"].startswith("https://x.example/rack-r1-")


def test_alertmanager_gets_no_alert_below_the_share(digest, web, ledger):
    assert sent(digest, to("alertmanager", url=web.url, **{"min-share": 0.5}), ledger)[0] and web.seen == []


def test_a_folder_gets_the_same_files(digest, tmp_path, ledger):
    assert sent(digest, to("folder", path=str(tmp_path / "www")), ledger)[0]
    copied = {path.name for path in (tmp_path / "www").iterdir()}
    assert copied == {
        "index.html",
        *(entry.page.name for entry in digest.entries),
        *(entry.facts.name for entry in digest.entries),
    }
    assert (tmp_path / "www" / digest.entries[0].page.name).read_bytes() == digest.entries[0].page.read_bytes()


def test_a_folder_that_cannot_be_written_is_a_failure(digest, tmp_path, ledger):
    (tmp_path / "file").write_text("")
    done, reported = sent(digest, to("folder", attempts=1, path=str(tmp_path / "file")), ledger)
    assert not done and "cannot be written" in reported[0]


def test_when_bursts_sends_nothing_without_bursts_or_trouble(folder, digest, web, ledger):
    calm = [entry for entry in digest.entries if not entry.summary["bursts"]]
    quiet = Digest("daily", START, START + DAY, folder, calm, [])
    assert sent(quiet, to("webhook", when="bursts", url=web.url), ledger)[0] and web.seen == []
    owning_up = Digest("daily", START, START + DAY, folder, calm, ["trouble"])
    assert sent(owning_up, to("webhook", when="bursts", url=web.url), ledger)[0] and len(web.seen) == 1


def test_many_racks_fit_in_a_message(folder, digest):
    many = [
        DigestEntry(entry.page, entry.facts, {**entry.summary, "rack": f"r{i}"})
        for i in range(150)
        for entry in digest.entries[:1]
    ]
    reported = Digest("daily", START, START + DAY, folder, many, [])
    assert "and 50 racks more" in reported.text("") and reported.html("", "x").count("<tr>") == 101
