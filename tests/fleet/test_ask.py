"""`mburst fleet ask` answers its questions over real results."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest
from fleetlib import DATES, HOSTS, detected, files, rows, shipped
from racklib import DAY, FULL, HOUR, MS, START, fill
from storelib import write

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.model import stats
from mburst.sql import StoreFolder, lockdown, questions


@pytest.fixture
def done(ports_done):
    return ports_done


@pytest.fixture
def by_host(ports_by_host):
    return ports_by_host


def ask(capfd, results, *words, code=0):
    assert main(["fleet", "ask", str(results), *words, "--csv"]) == code
    out, err = capfd.readouterr()
    return list(csv.DictReader(io.StringIO(out))), err


def test_all_questions_are_listed_and_answered(done, capfd):
    listed, _ = ask(capfd, done)
    assert [row["question"] for row in listed] == questions.names() and all(row["answers"] for row in listed)
    for number, row in enumerate(listed, 1):
        named, _ = ask(capfd, done, row["question"], "--day", DATES[0])
        assert named, row["question"]
        assert named == ask(capfd, done, str(number), "--day", DATES[0])[0]


def test_only_rows_of_the_requested_days_are_answered(done, capfd):
    assert {row["rack"] for row in ask(capfd, done, "coverage", "--day", DATES[0])[0]} == {rack for rack, _ in HOSTS}
    for day, days, dates in ((DATES[0], "1", DATES[:1]), (DATES[1], "1", DATES[1:]), (DATES[1], "2", DATES)):
        rows, _ = ask(capfd, done, "coverage", "--day", day, "--days", days)
        assert {row["date"] for row in rows} == set(dates)
    bursts, _ = ask(capfd, done, "SELECT count(*) AS n FROM bursts", "--day", DATES[1])
    assert bursts == [{"n": "8"}], "what is compared with is there, too"


@pytest.mark.parametrize("date", DATES)
def test_no_share_is_above_1(done, capfd, date):
    """A burst that lasts over midnight counts on each day with the bytes and the time of that day's part."""
    shares = []
    for question in questions.names():
        for row in ask(capfd, done, question, "--day", date)[0]:
            shares += [(question, name, value) for name, value in row.items() if "share" in name and value]
    assert {name for _, name, _ in shares} >= {"share_of_bytes", "burst_share", "recorded_share", "share_of_bins"}
    assert [of for of in shares if not 0 <= float(of[2]) <= 1] == []


def test_contention_is_the_same_when_a_rack_is_divided_by_host(done, by_host, capfd):
    for question in ("contention", "hours_of_day", "loss", "coverage", "switch_ports"):
        for day in DATES:
            wanted, _ = ask(capfd, done, question, "--day", day)
            assert ask(capfd, by_host, question, "--day", day)[0] == wanted
    at_once = {row["hosts_at_once"] for row in ask(capfd, by_host, "contention", "--day", DATES[0])[0]}
    assert at_once == {"0", "1", "2", "3"}, "the third is a host that was not recorded: its switch port was"


def test_drops_of_switch_queues_are_listed_with_the_bursts_of_their_host(done, by_host, capfd):
    """Of the ten windows, the first touches the burst and four have drops. The same holds for a rack that is divided by
    host."""
    answer, _ = ask(capfd, done, "switch_drops", "--day", DATES[0])
    assert [(row["device"], row["port"], row["rack"], row["host"]) for row in answer] == [
        ("tor-1", "a", "r1", "a"), ("tor-1", "b", "r1", "b")
    ]  # fmt: skip
    for row in answer:
        assert (row["windows"], row["drops"]) == ("10", "28")
        assert float(row["drops_in_burst_share"]) == 0.25 and float(row["relative_risk"]) == pytest.approx(3)
        bounds = [float(row[f"relative_risk_{end}"]) for end in ("low", "high")]
        assert bounds == pytest.approx(stats.risk_bounds(1, 1, 3, 9))
    assert ask(capfd, by_host, "switch_drops", "--day", DATES[0])[0] == answer


def test_an_inventory_names_services_and_expected_hosts(done, capfd, tmp_path):
    with (tmp_path / "hosts.csv").open("w", newline="") as file:
        rows = [["rack", "host", "service", "address"], ["r1", "a", "cache", "10.0.0.9"], ["r9", "x", "db", "10.0.0.2"]]
        csv.writer(file).writerows(rows)
    words = ("--day", DATES[0], "--inventory", str(tmp_path / "hosts.csv"))
    assert {row["service"] for row in ask(capfd, done, "durations", *words)[0]} == {"cache", ""}
    [absent] = [row for row in ask(capfd, done, "coverage", *words)[0] if row["rack"] == "r9"]
    assert (absent["hosts_expected"], absent["hosts_recorded"], float(absent["recorded_share"])) == ("1", "0", 0.0)
    services = {row["source"]: row["service"] for row in ask(capfd, done, "aggressors", *words)[0]}
    assert services["10.0.0.2"] == "db" and services["10.0.0.1"] == ""
    with (tmp_path / "hosts.csv").open("a", newline="") as file:
        csv.writer(file).writerow(["r1", "a", "other", ""])
    assert main(["fleet", "ask", str(done), "1", *words]) == 2
    assert "host a of rack r1 has two lines that differ" in capfd.readouterr().err


@pytest.mark.parametrize("harm", ["flip", "remove"])
def test_damaged_results_are_named_and_left_out(done, capfd, tmp_path, harm):
    shutil.copytree(done, tmp_path / "results")
    [path] = (tmp_path / "results").glob(f"hours/date={DATES[0]}/rack=r1/*.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    if harm == "remove":
        path.unlink()
    rows, err = ask(capfd, tmp_path / "results", "worst_hosts", "--day", DATES[0], code=1)
    assert {row["rack"] for row in rows} == {rack for rack, _ in HOSTS} - {"r1"}
    assert err.count("\n") == 1 and str(path) in err
    record = f"partitions/date={DATES[0]}/rack=r1/rack.json"
    assert f"(remove {record}, and detect again)" in err and (tmp_path / "results" / record).exists()


@pytest.mark.parametrize(
    ("split", "gone", "lacks"), [("", "rack=r2/*", "rack r2"), ("host", "rack=r1/host-b.*", "rack r1 host b")]
)
def test_what_has_no_result_is_named(ports_done, ports_by_host, capfd, tmp_path, split, gone, lacks):
    """Of a rack that was not detected on a day, nothing was planned. An inventory knows what is no longer there."""
    shutil.copytree(ports_by_host if split else ports_done, tmp_path / "results")
    question = ("worst_hosts", "--day", DATES[1], "--days", "3")
    assert ask(capfd, tmp_path / "results", *question)[1] == "mburst: no results of 2026-11-19\n"
    for path in (tmp_path / "results" / "partitions" / f"date={DATES[1]}").glob(gone):
        path.unlink()
    for days in ("1", "2"):
        err = ask(capfd, tmp_path / "results", "worst_hosts", "--day", DATES[1], "--days", days, code=1)[1]
        assert err == f"mburst: {DATES[1]} {lacks}: not detected\n"
    assert ask(capfd, tmp_path / "results", "worst_hosts", "--day", DATES[0])[1] == ""
    (tmp_path / "hosts.csv").write_text(f"rack,host,until\nr2,a,{DATES[1]}\nr1,b,{DATES[1]}\n")
    listed = ("--inventory", str(tmp_path / "hosts.csv"))
    assert ask(capfd, tmp_path / "results", "worst_hosts", "--day", DATES[1], *listed)[1] == ""


@pytest.mark.parametrize("harm", ["cut", "other"])
def test_a_damaged_record_costs_its_partition_and_is_detected_again(done, ports_target, capfd, tmp_path, harm):
    """Also one that is of another partition, whose rows would count twice."""
    shutil.copytree(done, tmp_path / "results")
    folder = tmp_path / "results" / "partitions" / f"date={DATES[0]}"
    path = folder / "rack=r1" / "rack.json"
    path.write_bytes(path.read_bytes()[:-9] if harm == "cut" else (folder / "rack=r2" / "rack.json").read_bytes())
    rows, err = ask(capfd, tmp_path / "results", "worst_hosts", "--day", DATES[0], code=1)
    assert {row["rack"] for row in rows} == {rack for rack, _ in HOSTS} - {"r1"} and len(rows) == 2
    assert err.count("\n") == 1 and f"{path}: damaged: " in err and "(detect again)" in err
    assert len(detected(ports_target, tmp_path / "results", DATES[0]).outcomes) == 1
    assert files(tmp_path / "results") == files(done)
    assert ask(capfd, tmp_path / "results", "worst_hosts", "--day", DATES[0])[1] == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["14"], "unknown question '14'"),
        (["1", "--day", "2026-01-01"], "no results of 2026-01-01"),
        (["1", "--day", ""], "invalid day ''"),
        (["1", "--days", "0"], "invalid number of days 0"),
        (["COPY bursts TO 'x'", "--day", DATES[0]], "COPY is not allowed"),
        (["SELECT 1; SELECT 2", "--day", DATES[0]], "not one statement"),
        (["FROM read_csv('/etc/passwd')", "--day", DATES[0]], "mburst: Permission Error: "),
        (["SELECT error('too many') FROM bursts", "--day", DATES[0]], "mburst: too many\n"),
        (["SELECT sum(9223372036854775807::BIGINT * start_ns) FROM bursts", "--day", DATES[0]], "mburst: Out of Range"),
    ],
)
def test_wrong_arguments_of_ask_are_one_line(done, capfd, words, message):
    assert main(["fleet", "ask", str(done), *words]) in (1, 2)
    out, err = capfd.readouterr()
    assert message in err and err.count("\n") == 1 and not out


def test_a_file_that_changes_after_it_was_verified_is_named(done, capfd, tmp_path, monkeypatch):
    results = shutil.copytree(done, tmp_path / "results")
    path = next((results / "bursts" / f"date={DATES[0]}").rglob("*.parquet"))
    check = lockdown.check

    def changed(*of):
        path.write_bytes(bytes(path.stat().st_size))
        return check(*of)

    monkeypatch.setattr(lockdown, "check", changed)
    assert main(["fleet", "ask", str(results), "SELECT error('x') FROM bursts", "--day", DATES[0]]) == 1
    assert capfd.readouterr().err == (
        f"mburst: {path}: damaged: the content does not have the SHA-256 of its partition's record "
        "(try again: the answer will leave it out)\n"
    )


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_times_have_all_digits(done, capfd, form):
    """As `mburst sql` prints them: times in ns, months, and times with a zone."""
    query = "SELECT utc(1795132800000000123) AS at, INTERVAL 1 MONTH AS month, to_timestamp(1) AS zoned"
    assert main(["fleet", "ask", str(done), query, "--day", DATES[0], form]) == 0
    out = capfd.readouterr().out
    [row] = json.loads(out) if form == "--json" else csv.DictReader(io.StringIO(out))
    assert row == {"at": "2026-11-20 00:00:00.000000123", "month": "1 month", "zoned": "1970-01-01 00:00:01+00"}


def test_json(done, capfd):
    assert main(["fleet", "ask", str(done), "8", "--day", DATES[0], "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert rows and set(rows[0]) == {"rack", "hour_ns", "hosts_at_once", "ns", "share", "p90", "buffer_share"}


def test_wide_bins_contend_only_where_they_were_recorded(tmp_path, capfd):
    """A burst in seconds of the clock: of the host, 300 ms were recorded. The next day's rows make the day whole."""
    store = StoreFolder.create(tmp_path / "store")
    for host, first, last, wire in (("a", 500, 800, FULL), ("b", 0, 3000, 100)):
        name = {"recording_id": f"of-{host}", "host": host}
        times = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "written_ns": START + 5000 * MS}
        write(store, "recordings", {**name, **times, "packets": last - first, "bytes": 1, "backend": "afpacket"})
        write(store, "bins", *({**name, "ts_ns": START + ms * MS, "wire_bytes": wire} for ms in range(first, last)))
        fill(store, {host: []}, start=START + 2 * DAY, length=HOUR)
    shipped(store, tmp_path / "target")
    wide, answers = BurstDefinition(bin_ns=1000 * MS, threshold=0.2), []
    for split in ("auto", "host"):
        detected(tmp_path / "target", tmp_path / split, DATES[0], split=split, definition=wide)
        found, _ = ask(capfd, tmp_path / split, "contention", "--day", DATES[0])
        answers.append({int(row["hosts_at_once"]): int(row["ns"]) // MS for row in found})
    assert not rows(tmp_path / "host", "contention")
    assert answers == [{0: 2700, 1: 300}] * 2
