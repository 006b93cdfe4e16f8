"""Reports of racks that are recorded in both directions, as recorders do by default, arrive by each kind of delivery,
from mburst.toml to the server."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest
from deliverylib import mail_server, web_server
from racklib import DAY, HOUR, MS, START, fill, fill_ports
from storelib import write

from mburst.agent.config import load
from mburst.agent.delivery import Digest
from mburst.agent.schedule.due import carry_out
from mburst.agent.schedule.reports import expected_racks
from mburst.analysis.rack.period import Period
from mburst.dashboards.rack.words import period
from mburst.sql import StoreFolder

NOW = START + DAY + HOUR


def fill_outbound(store: StoreFolder, host: str, rack: str = "r1") -> None:
    """Adds a full millisecond that HOST sent during the day, as the recorder of both directions does."""
    name = {"recording_id": f"{rack}-{host}-{START}-out", "host": host, "rack": rack, "direction": "out"}
    times = {"start_ns": START, "end_ns": START + DAY - 1, "written_ns": START + DAY}
    write(store, "recordings", {**name, **times, "packets": 1, "backend": "afpacket"})
    write(store, "bins", {**name, "ts_ns": START + MS, "wire_bytes": 125_000, "bytes": 124_976})


@pytest.fixture
def store(tmp_path) -> StoreFolder:
    """Rack r1 of two hosts in both directions and a switch port before a third; rack r2 of one host."""
    made = StoreFolder.create(tmp_path / "store")
    fill(made, {"a": [(50, 10), (7_300_000, 30)], "b": []})
    fill(made, {"d": [(55, 10)]}, rack="r2")
    for host, rack in (("a", "r1"), ("b", "r1"), ("d", "r2")):
        fill_outbound(made, host, rack)
    fill_ports(made, {"swp3": [(90, 10)]})
    return made


def carried_out(folder: Path, deliver: str, racks: str = '"all"') -> tuple[int, list[str]]:
    """Returns the failed deliveries of a daily report by a [[deliver]], and the lines."""
    path, lines = folder / "mburst.toml", []
    path.write_text(
        f'store = "{folder}/store"\n[[report]]\nname = "daily"\noutput = "{folder}/out"\nracks = {racks}\n'
        f'deliver = "m"\n[[deliver]]\nname = "m"\nattempts = 1\n{deliver}\n'
    )
    config = load(path)
    return carry_out(config, config.reports[0], NOW, lines.append), lines


def smtp(port: int) -> str:
    return f'kind = "smtp"\nhost = "127.0.0.1"\nport = {port}\nsecurity = "none"\nfrom = "a@b.c"\nto = "d@e.f"'


@pytest.mark.parametrize(("racks", "rows"), [('["r1"]', 3), ('"all"', 2)], ids=["hosts", "racks"])
def test_mail_of_racks_in_both_directions(store, tmp_path, racks, rows):
    from PIL import Image

    with mail_server() as inbox:
        failed, lines = carried_out(tmp_path, smtp(inbox.port), racks)
    assert failed == 0 and lines[-1].startswith("m: delivered daily"), lines
    [made] = inbox.mails
    [picture] = [part for part in made.walk() if part.get_content_type() == "image/png"]
    assert Image.open(BytesIO(picture.get_content())).height == 20 + 16 * rows + 6


def test_the_picture_has_the_lanes_that_received(store, tmp_path):
    """Each with its own cells, whatever order the lanes of the rack have."""
    carried_out(tmp_path, f'kind = "folder"\npath = "{tmp_path}/www"', '["r1"]')
    digest = Digest.read("daily", tmp_path / "out", START, START + DAY, [])
    names, shares, labels = digest.grid()
    facts = json.loads(digest.entries[0].facts.read_text())
    assert len(facts["lanes"]) > len(facts["cells"]) == 3 and len(labels) == 24
    per_name = {
        name: [hour for hour, share in enumerate(row) if share] for name, row in zip(names, shares, strict=True)
    }
    assert per_name == {"a eth0": [0, 2], "b eth0": [], "tor1 swp3": [0]}


def test_a_webhook_and_alertmanager_get_racks_in_both_directions(store, tmp_path):
    with web_server() as web:
        for kind in ("webhook", "alertmanager"):
            assert carried_out(tmp_path, f'kind = "{kind}"\nurl = "{web.url}"')[0] == 0
            (tmp_path / "out" / ".deliveries.jsonl").unlink()
    assert [path for path, *_ in web.seen] == ["/", "/api/v2/alerts"] and len(web.seen[1][1]) == 2


def test_a_report_delivers_its_own_racks_from_a_folder_of_several(store, tmp_path):
    """Whichever of them came first."""
    with web_server() as web:
        for racks in ('["r1"]', '["r2"]', '"all"'):
            carried_out(tmp_path, f'kind = "webhook"\nurl = "{web.url}"', racks)
            (tmp_path / "out" / ".deliveries.jsonl").unlink()
    heads = [message["text"].partition("UTC: ")[2].partition(",")[0] for _, message, _ in web.seen]
    assert heads == ["rack r1: 3 bursts", "rack r2: 1 burst", "4 bursts in 2 of 2 racks"]


# --- what was not recorded ---


@pytest.mark.parametrize(("days", "racks"), [(0, ["r1", "r2"]), (1, ["r1", "r2"]), (7, ["r1", "r2"]), (8, [])])
def test_racks_that_recorded_nothing_for_long_are_not_reported(store, days, racks):
    """They were renamed or removed. The status of the host expects the same."""
    assert expected_racks(store, Period(START + days * DAY, START + (days + 1) * DAY)) == racks


def test_a_rack_that_was_recorded_first_after_the_period_is_not_in_its_report(store):
    fill_outbound(store, "late", rack="r0")
    assert expected_racks(store, Period(START - DAY, START)) == []
    assert expected_racks(store, Period(START, START + DAY)) == ["r0", "r1", "r2"]


def test_a_recorder_that_runs_without_packets_is_not_forgotten(tmp_path):
    made = StoreFolder.create(tmp_path / "silent")
    times = {"begun_ns": START, "start_ns": START, "end_ns": START + 1, "written_ns": START + 30 * DAY}
    row = {"recording_id": "a", "host": "a", "rack": "r1", "direction": "in", "interface_id": "1:1", **times}
    write(made, "recordings", row)
    write(made, "recordings", {**row, "recording_id": "b", "rack": "import", "interface_id": None})
    assert expected_racks(made, Period(START + 30 * DAY, START + 31 * DAY)) == ["r1"]


def test_a_weekly_report_looks_as_far_back_as_it_is_long(store):
    week = Period(START + 7 * DAY, START + 14 * DAY)
    assert expected_racks(store, week) == ["r1", "r2"]
    assert expected_racks(store, week.shifted(-7 * DAY)) == []


def fill_unknown(store: StoreFolder, rack: str) -> None:
    """Adds a recording of what a host received, without the speed of its link."""
    name = {"recording_id": f"{rack}-x", "host": "x", "rack": rack, "direction": "in", "link_bps": None}
    write(store, "recordings", {**name, "start_ns": START, "end_ns": START + DAY - 1, "packets": 1})
    write(store, "bins", {**name, "ts_ns": START + MS, "wire_bytes": 125_000, "bytes": 124_976})


@pytest.mark.parametrize(
    ("rack", "title", "verdict"),
    [
        ("out", "rack out: no inbound recording", "Nothing that hosts receive was recorded"),
        ("slow", "rack slow: no link speed known", "The link speed is not known"),
        ("gone", "rack gone: nothing recorded", "Nothing of this rack was recorded"),
    ],
)
def test_what_was_not_recorded_is_said_and_sent(store, tmp_path, rack, title, verdict):
    fill_outbound(store, "e", rack="out")
    fill_unknown(store, "slow")
    with web_server() as web:
        for kind in ("webhook", "alertmanager"):
            deliver = f'kind = "{kind}"\nurl = "{web.url}"\nwhen = "bursts"'
            assert carried_out(tmp_path, deliver, f'["{rack}"]')[1][-1].startswith("m: delivered")
            (tmp_path / "out" / ".deliveries.jsonl").unlink()
    (_, message, _), (_, [alert], _) = web.seen
    assert message["text"].endswith(f": {title}") and verdict in json.dumps(message) and "0 hosts" not in str(message)
    assert alert["annotations"]["summary"] == title.replace("rack", "Rack", 1)
    assert alert["labels"]["severity"] == "warning" and verdict in alert["annotations"]["description"]
    assert title.partition(": ")[2] in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
def test_a_host_that_stopped_recording_is_said_and_sent(tmp_path, kind):
    """Also if the other one recorded and received no burst."""
    made = StoreFolder.create(tmp_path / "store")
    fill(made, {"a": [], "b": []}, start=START - DAY)
    fill(made, {"a": []})
    with web_server() as web:
        deliver = f'kind = "{kind}"\nurl = "{web.url}"\nwhen = "bursts"'
        assert carried_out(tmp_path, deliver)[1][-1].startswith("m: delivered")
    assert "1 host recorded before and not now" in json.dumps(web.seen[0][1])


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
def test_an_empty_store_is_said_and_sent(tmp_path, kind):
    StoreFolder.create(tmp_path / "store")
    with web_server() as web:
        deliver = f'kind = "{kind}"\nurl = "{web.url}"\nwhen = "bursts"'
        assert carried_out(tmp_path, deliver)[1] == [f"m: delivered daily, {period(START, START + DAY)}"]
    assert "o report" in json.dumps(web.seen[0][1])


class Broken(Exception):
    """An error that no kind of delivery foresees."""


def failing(*ignored: object) -> None:
    raise Broken


@pytest.mark.parametrize("kind", ["smtp", "webhook", "alertmanager", "folder"])
def test_what_fails_before_anything_is_sent_is_tried_again(store, tmp_path, monkeypatch, kind):
    """Whatever the error is: nothing can have arrived, so that the delivery failed, and the exit code is 1."""
    with mail_server() as inbox, web_server() as web, monkeypatch.context() as patched:
        path = f'path = "{tmp_path}/www"'
        deliver = smtp(inbox.port) if kind == "smtp" else f'kind = "{kind}"\n{path if kind == "folder" else ""}'
        deliver += f'\nurl = "{web.url}"' if kind in ("webhook", "alertmanager") else ""
        for name in ("kinds.smtp.png", "kinds.webhook.slack", "kinds.alertmanager.alert", "kinds.folder.Path"):
            patched.setattr(f"mburst.agent.delivery.{name}", failing)
        for _ in range(2):
            failed, lines = carried_out(tmp_path, deliver)
            assert failed == 1 and lines[-1] == "m: not delivered: internal error: Broken (1 of 1 tries)"
        patched.undo()
        assert carried_out(tmp_path, deliver)[0] == 0
        assert len(inbox.mails) + len(web.seen) + (tmp_path / "www").is_dir() == 1


def test_what_fails_while_a_mail_is_sent_may_have_arrived(store, tmp_path, monkeypatch):
    with mail_server() as inbox:
        monkeypatch.setattr("mburst.agent.delivery.kinds.smtp._transparent", failing)
        for lines in (carried_out(tmp_path, smtp(inbox.port))[1], carried_out(tmp_path, smtp(inbox.port))[1]):
            assert inbox.mails == [] and all("not delivered:" not in line for line in lines)
    assert "unsure" in (tmp_path / "out" / ".deliveries.jsonl").read_text() and lines == []


@pytest.mark.parametrize("kind", ["folder", "alertmanager"])
def test_a_kill_amid_what_can_be_repeated_is_made_up_for(store, tmp_path, monkeypatch, kind):
    """A copy that was cut off is completed by the next call."""

    class Killed(BaseException):
        pass

    def kill(*ignored: object) -> None:
        raise Killed

    with web_server() as web:
        deliver = f'kind = "{kind}"\n' + (f'path = "{tmp_path}/www"' if kind == "folder" else f'url = "{web.url}"')
        with monkeypatch.context() as patched:
            patched.setattr("mburst.agent.delivery.kinds.folder.page.write_index", kill)
            patched.setattr("mburst.agent.delivery.kinds.alertmanager.post", kill)
            with pytest.raises(Killed):
                carried_out(tmp_path, deliver)
        failed, lines = carried_out(tmp_path, deliver)
        assert failed == 0 and lines[-1].startswith("m: delivered daily")
        assert (tmp_path / "www" / "index.html").exists() or len(web.seen) == 1
