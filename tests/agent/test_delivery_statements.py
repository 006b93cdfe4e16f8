"""Every kind of delivery states how much of the time was recorded, and the warnings of each report; and what is not
sent is not called delivered."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from deliverylib import mail, mail_server, sent, to, web_server
from racklib import HOUR, MS, START, fill, report

from mburst.agent.config import load
from mburst.agent.delivery import DeliveryLedger, Digest
from mburst.agent.delivery import ledger as book
from mburst.agent.delivery.digest import DigestEntry
from mburst.agent.delivery.kinds import KINDS, smtp
from mburst.dashboards.rack import page
from mburst.errors import UsageError
from mburst.sql import StoreFolder

PART = "967 ms of 1 h"
WARNINGS = ["No results of 6 days", "1 of 4 racks incomplete"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports of an hour: r1 was recorded for 967 ms without a burst, r2 for all of it with one, r3 not at all."""
    root = tmp_path_factory.mktemp("statements")
    store = StoreFolder.create(root / "store")
    fill(store, {"a": []}, length=967 * MS)
    fill(store, {"b": [(50, 10)]}, rack="r2", length=HOUR)
    for rack in ("r1", "r2", "r3"):
        page.write(report(store, rack, length=HOUR), root / "out")
    return root / "out"


@pytest.fixture
def ledger(tmp_path):
    with DeliveryLedger(tmp_path / "ledger") as opened:
        yield opened


@pytest.fixture
def digest(folder):
    return Digest.read("hourly", folder, START, START + HOUR, [])


def of(digest: Digest, *racks: str) -> Digest:
    return replace(digest, entries=[entry for entry in digest.entries if entry.summary["rack"] in racks])


def arrived(kind: str, digest: Digest, ledger: DeliveryLedger, folder) -> str:
    """Returns all text that arrives of a digest by a kind of delivery, as it can be read."""
    with mail_server() as inbox, web_server() as web:
        where = {"smtp": lambda: mail(inbox), "folder": lambda: to("folder", path=str(folder / "www"))}.get(
            kind, lambda: to(kind, url=web.url)
        )()
        assert sent(digest, where, ledger)[0]
        texts = [
            part.get_content() for one in inbox.mails for part in one.walk() if part.get_content_maintype() == "text"
        ]
        texts += [json.dumps(body, ensure_ascii=False) for _, body, _ in web.seen]
    return "\n".join([*texts, *(path.read_text() for path in (folder / "www").glob("*.html"))])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_states_how_much_was_recorded_and_the_warnings(kind, digest, ledger, tmp_path):
    [entry] = of(digest, "r1").entries
    assert entry.summary["recorded_part"] == PART
    changed = {**entry.summary, "bursts": 3, "warnings": WARNINGS}  # Alertmanager has racks with bursts
    if kind == "folder":  # its pages have the statements of the report itself
        changed = entry.summary
    found = arrived(kind, replace(digest, entries=[replace(entry, summary=changed)]), ledger, tmp_path)
    assert all(words in found for words in [PART, *changed["warnings"]])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_states_that_nothing_was_recorded(kind, digest, ledger, tmp_path):
    found = arrived(kind, of(digest, "r3"), ledger, tmp_path)
    assert "othing of this rack was recorded" in found
    assert kind == "folder" or ("0 bursts" not in found and "0 %" not in found)  # a page defines its words


@pytest.mark.parametrize(
    ("racks", "title"),
    [
        (["r1"], "rack r1: 0 bursts, 967 ms of 1 h recorded"),
        (["r2"], "rack r2: 1 burst"),
        (["r3"], "rack r3: nothing recorded"),
        (["r1", "r2"], "1 burst in 1 of 2 racks, 1 recorded in part"),
        (["r1", "r2", "r3"], "1 burst in 1 of 3 racks, nothing recorded of 1, 1 recorded in part"),
        ([], "no report"),
    ],
)
def test_the_subject_states_what_was_not_recorded(digest, racks, title):
    assert of(digest, *racks).title.endswith(f" UTC: {title}")


def test_a_subject_has_no_figure_if_nothing_is_known_of_any_rack(digest):
    [entry] = of(digest, "r3").entries
    other = replace(entry, summary={**entry.summary, "recorded": True, "lacks": "no link speed known"})
    end = " UTC: 3 racks: nothing recorded of 1, no link speed known of 2"
    assert replace(digest, entries=[entry, other, other]).title.endswith(end)
    assert replace(digest, entries=[other, other]).title.endswith(" UTC: 2 racks: no link speed known")


def test_a_fleet_whose_switches_alone_were_recorded_is_not_called_unrecorded(digest):
    [entry] = of(digest, "r3").entries
    fleet = replace(
        entry,
        page=entry.page.with_name("fleet-2026-11-20.html"),
        summary={**entry.summary, "rack": "fleet", "lacks": "no host recorded"},
    )
    assert replace(digest, entries=[fleet]).title.endswith(" UTC: fleet: no host recorded")


def test_an_alert_states_how_much_was_recorded(digest, ledger, tmp_path):
    [entry] = of(digest, "r1").entries
    share = {**entry.summary, "bursts": 3, "share": 0.16}
    found = arrived("alertmanager", replace(digest, entries=[replace(entry, summary=share)]), ledger, tmp_path)
    assert "Rack r1: 16 % of the time in bursts, 967 ms of 1 h recorded" in found


def test_the_index_states_how_much_was_recorded(folder):
    assert PART in page.write_index(folder).read_text()


def test_lines_that_do_not_fit_in_a_message_are_counted(digest):
    [entry] = of(digest, "r2").entries
    many = [DigestEntry(entry.page, entry.facts, {**entry.summary, "verdict": "x" * 600}) for _ in range(10)]
    section = KINDS["webhook"].send.__globals__["slack"](replace(digest, entries=many), "")["blocks"][1]["text"]["text"]
    assert section.endswith("6 lines left out: the message is too long\n") and len(section) < 3000


def test_what_is_not_known_comes_before_racks_without_bursts(digest, folder, tmp_path):
    """A message that names only some of many racks names those on which something can be done."""
    assert [entry.summary["rack"] for entry in digest.entries] == ["r2", "r3", "r1"]
    for name in ("r1", "r3"):  # a rack that was recorded all the time has the first name
        for path in folder.glob(f"rack-{name}-*"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    store = StoreFolder.create(tmp_path / "store")
    fill(store, {"a": []}, rack="r0", length=HOUR)
    page.write(report(store, "r0", length=HOUR), tmp_path)
    entries = Digest.read("hourly", tmp_path, START, START + HOUR, []).entries
    assert [entry.summary["rack"] for entry in entries] == ["r3", "r1", "r0"]


def test_a_rack_without_a_recording_takes_no_place_of_an_attached_page(digest):
    """Its page is not attached."""
    known = {entry.summary["rack"]: entry for entry in digest.entries}
    where = to("smtp", host="h", to="a@b.c", attach=1, **{"from": "a@b.c"})
    made = smtp.message(replace(digest, entries=[known["r3"], known["r1"]]), where)
    assert [part.get_filename() for part in made.iter_attachments()] == [known["r1"].page.name]


@pytest.mark.parametrize(
    ("racks", "said"),
    [
        ({"r1": 2}, "and 2 racks more without a burst, 2 recorded in part"),
        ({"r3": 1}, "and 1 rack more: nothing recorded"),
        ({"r1": 3, "r3": 2}, "and 5 racks more: nothing recorded of 2, no burst in the others, 3 recorded in part"),
        ({"r2": 2, "r1": 1}, "and 3 racks more with less of the time in bursts, 1 recorded in part"),
        ({"r2": 1, "r3": 1}, "and 2 racks more: nothing recorded of 1, less of the time in bursts in the others"),
    ],
)
def test_what_a_message_leaves_out_is_described_as_it_is(digest, racks, said):
    """Racks are not called calm if nothing was recorded of them, nor calmer than those of which nothing is known."""
    known = {entry.summary["rack"]: entry for entry in digest.entries}
    rest = [known[rack] for rack, number in racks.items() for _ in range(number)]
    slack = KINDS["webhook"].send.__globals__["slack"]
    for first in ["r2"] if "r2" in racks else ["r2", "r3"]:  # racks with bursts are the first
        message = replace(digest, entries=[*15 * [known[first]], *rest])
        assert f"\n{said}\n" in slack(message, "")["blocks"][1]["text"]["text"]
        message = replace(digest, entries=[*100 * [known[first]], *rest])
        assert f"\n{said}\n" in message.text("") and said in message.html("", "")


@pytest.mark.parametrize("racks", [["r2", "r3"], ["r3"], []])
def test_when_bursts_sends_what_nothing_is_known_of(digest, ledger, racks):
    """A recorder that is dead is no period without bursts; neither is a store without any rack."""
    with web_server() as web:
        assert sent(of(digest, *racks), to("webhook", when="bursts", url=web.url), ledger)[0]
    assert len(web.seen) == 1


@pytest.mark.parametrize(
    ("kind", "more", "why"),
    [
        ("webhook", {"when": "bursts"}, "no burst"),
        ("alertmanager", {}, "no alert: no rack burst"),
        ("alertmanager", {"min-share": 0.05}, "no alert: no rack burst for 5 % of the time"),
    ],
)
def test_what_is_not_sent_is_not_called_delivered(digest, ledger, kind, more, why):
    """It is stated once, and sent if there is something to send later, such as a failure of another delivery."""
    calm = of(digest, "r1")
    with web_server() as web:
        where = to(kind, url=web.url, **more)
        done, lines = sent(calm, where, ledger)
        assert done and lines == [f"ops: nothing to send of hourly, {calm.period}: {why}"] and web.seen == []
        assert ledger.state(calm.key("ops")) == book.NOTHING and ledger.open_failures() == []
        assert sent(calm, where, ledger) == (True, [])
        assert sent(replace(calm, troubles=["trouble"]), where, ledger)[0] and len(web.seen) == 1
    assert ledger.state(calm.key("ops")) == book.DONE


@pytest.mark.parametrize(
    "end", ["/api/v2/alerts", "/api/v2/alerts/", "/prefix/api/v2", "/api/v1/alerts", "/api/v2/alerts?a=b"]
)
def test_an_address_of_alertmanager_that_is_not_its_root_is_refused(tmp_path, end):
    path = tmp_path / "mburst.toml"
    path.write_text(f'[[deliver]]\nname = "al"\nkind = "alertmanager"\nurl = "http://127.0.0.1:9{end}"\n')
    with pytest.raises(UsageError, match=r"\[\[deliver\]\] al: url has the path of the API") as caught:
        load(path)
    assert "leave out" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("given", "posted"),
    [
        ("", ""),
        ("/", ""),
        ("/prefix/", "/prefix"),
        ("/?key=a/b", "?key=a/b"),
        ("/api/v2/x", "/api/v2/x"),
        ("/api/v1/", "/api/v1"),
    ],
)
def test_the_path_of_the_api_is_added_before_a_query(digest, ledger, given, posted):
    with web_server() as web:
        assert sent(of(digest, "r2"), to("alertmanager", url=web.url + given), ledger)[0]
    path, query = (*posted.split("?"), "")[:2]
    assert [seen for seen, *_ in web.seen] == [f"{path}/api/v2/alerts{'?' + query if query else ''}"]
