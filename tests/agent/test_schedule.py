"""Reports that are due, and the schedulers that call for them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from racklib import DAY, HOUR, START, fill

from mburst.__main__ import main
from mburst.agent.config import RunConfig, load
from mburst.agent.schedule import timers
from mburst.agent.schedule.due import carry_out, loop
from mburst.agent.schedule.reports import last_period
from mburst.cli.schedule import settle
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder

NOW = START + DAY + HOUR  # one o'clock on the day after


@pytest.fixture
def config(tmp_path, monkeypatch) -> RunConfig:
    """A store with a day of one rack, and a daily report of two racks that goes to a folder."""
    monkeypatch.chdir(tmp_path)
    fill(StoreFolder.create(tmp_path / "store"), {"a": [(50, 10)]})
    path = tmp_path / "mburst.toml"
    path.write_text(
        'store = "store"\n[[report]]\nname = "daily"\noutput = "out"\nracks = ["r1", "r2"]\n'
        'deliver = "www"\n[[deliver]]\nname = "www"\nkind = "folder"\npath = "www"\nattempts = 1\n'
        'wait = "1ms"\n'
    )
    return load(path)


@pytest.fixture
def of_one_rack(config) -> RunConfig:
    """The same configuration for one rack."""
    config.path.write_text(config.path.read_text().replace('["r1", "r2"]', '["r1"]'))
    return load(config.path)


def test_the_last_period():
    friday = START + 5 * HOUR + 7
    assert last_period("hour", friday).since_ns == START + 4 * HOUR
    assert last_period("day", friday).until_ns == START and last_period("day", START).until_ns == START
    week = last_period("week", friday)
    assert (week.until_ns - week.since_ns, week.until_ns) == (7 * DAY, START - 4 * DAY)  # Monday
    assert last_period("week", START - 4 * DAY).until_ns == START - 4 * DAY


def test_a_report_is_written_and_delivered_once(config, tmp_path):
    lines: list[str] = []
    assert carry_out(config, config.reports[0], NOW, lines.append) == 0
    names = {
        f"rack-{rack}-20261120T000000Z-20261121T000000Z.{kind}" for rack in ("r1", "r2") for kind in ("html", "json")
    }
    assert {path.name for path in (tmp_path / "www").iterdir()} == {*names, "index.html"}
    assert [line.split(":")[0] for line in lines] == ["report", "report", "www"]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "www").iterdir()}
    assert carry_out(config, config.reports[0], NOW + HOUR, lines.append) == 0
    assert len(lines) == 3 and before == {path: path.stat().st_mtime_ns for path in (tmp_path / "www").iterdir()}


def test_nothing_is_due_before_the_delay(config, tmp_path):
    carry_out(config, config.reports[0], START + DAY + 60 * 10**9, lambda line: None)
    assert not list((tmp_path / "out").glob("*20261121T000000Z.html"))
    assert list((tmp_path / "out").glob("*20261120T000000Z.html"))


def test_a_failed_delivery_is_repeated_with_the_next_one(of_one_rack, tmp_path):
    config = of_one_rack
    (tmp_path / "www").write_text("in the way")
    lines: list[str] = []
    assert carry_out(config, config.reports[0], NOW, lines.append) == 1
    assert "was not delivered to www" in (tmp_path / "out" / "index.html").read_text()
    (tmp_path / "www").unlink()
    assert carry_out(config, config.reports[0], NOW + DAY, lines.append) == 0
    assert len(list((tmp_path / "www").glob("rack-r1-*.html"))) == 2
    assert "was not delivered to www" in (tmp_path / "www" / "index.html").read_text()
    assert "was not delivered" not in (tmp_path / "out" / "index.html").read_text()


def test_the_loop_writes_due_reports_and_ends_when_stopped(of_one_rack, tmp_path, monkeypatch):
    clock = [NOW]
    monkeypatch.setattr("mburst.agent.schedule.due.time.time_ns", lambda: clock[0])
    waits: list[float] = []

    def stopped(seconds: float) -> bool:
        waits.append(seconds)
        clock[0] += DAY
        return len(waits) == 3

    assert loop(of_one_rack, stopped, lambda line: None) == 0
    assert len(list((tmp_path / "out").glob("rack-r1-*.html"))) == 3 and max(waits) <= 30


def test_the_loop_writes_due_reports_after_the_clock_was_corrected(of_one_rack, tmp_path, monkeypatch):
    """The clock was years ahead at first, so that the next report would not be due for years."""
    clock = [NOW + 5000 * DAY, NOW, NOW + DAY]
    monkeypatch.setattr("mburst.agent.schedule.due.time.time_ns", lambda: clock[0])
    made: list[int] = []

    def stopped(seconds: float) -> bool:
        del clock[0]
        made.append(len(list((tmp_path / "out").glob("rack-r1-*.html"))))
        return not clock

    assert loop(of_one_rack, stopped, lambda line: None) == 0 and made == [1, 2, 3]


def test_the_loop_continues_without_the_store(config, tmp_path, capsys):
    shutil.rmtree(tmp_path / "store")
    assert loop(config, lambda seconds: True, lambda line: None) == 0
    assert "mburst: report daily: store: not an mburst store" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("every", "delay", "expected"),
    [
        ("hour", "5m", "*-*-* *:05:00 UTC"),
        ("day", "90m", "*-*-* 01:30:00 UTC"),
        ("week", "26h", "Tue *-*-* 02:00:00 UTC"),
        ("hour", "3599500ms", "*-*-* *:00:00 UTC"),  # not before it is due, which would be a period late
        ("day", "1500ms", "*-*-* 00:00:02 UTC"),
        ("week", "604799500ms", "Mon *-*-* 00:00:00 UTC"),
    ],
)
def test_calendars(config, every, delay, expected):
    text = config.path.read_text().replace('output = "out"', f'output = "out"\nevery = "{every}"\ndelay = "{delay}"')
    config.path.write_text(text)
    [report] = load(config.path).reports
    assert timers.calendar(report) == expected
    if shutil.which("systemd-analyze"):
        assert subprocess.run(["systemd-analyze", "calendar", expected], capture_output=True).returncode == 0


def test_units_have_the_syntax_of_systemd(config):
    made = timers.units(config, system=True)
    assert set(made) == {"mburst-report-daily.service", "mburst-report-daily.timer"}
    assert "OnCalendar=*-*-* 00:10:00 UTC\nPersistent=true\nRandomizedDelaySec=120" in made["mburst-report-daily.timer"]
    command = next(line for line in made["mburst-report-daily.service"].splitlines() if line.startswith("ExecStart="))
    assert command == f"ExecStart={sys.executable} -P -m mburst schedule --once daily -- {config.path}"
    assert timers._quoted("/a b/100%/$x") == '"/a b/100%%/$$x"'


@pytest.mark.parametrize("name", ["a\nExecStartPre=+/bin/touch x\nb", "a\rb", "a\x1b[2J", "a\\", "a ", b"\xff"])
def test_the_name_of_a_folder_adds_no_line_to_a_unit_or_crontab(config, tmp_path, monkeypatch, name):
    """Whoever names root's working directory, or the folder of the file, cannot add a directive or a line of cron."""
    name = os.fsdecode(name)
    (tmp_path / name).mkdir(parents=True)
    shutil.copy(config.path, tmp_path / name / "mburst.toml")
    inside = load(tmp_path / name / "mburst.toml")
    has_lines = not name.strip().rstrip("\\").isprintable()
    forms = [lambda: timers.units(inside, system=True), lambda: timers.cron(inside)] if has_lines else []
    for form in forms:
        with pytest.raises(UsageError, match="control characters"):
            form()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(UsageError, match="control characters" if has_lines else "cannot represent"):
        timers.units(config, system=True)


def test_a_name_is_one_string_in_kubernetes(config, tmp_path):
    yaml = pytest.importorskip("yaml")
    odd = tmp_path / 'a"]\n# $(x).toml'
    shutil.copy(config.path, odd)
    [job] = yaml.safe_load_all(timers.kubernetes(load(odd)))
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == f"/etc/mburst/{odd.name}"


def test_folders_belong_to_the_user_who_writes_into_them(config, tmp_path):
    """A service of the system may write into them, but cannot make them."""
    who = pwd.getpwuid(os.geteuid()).pw_name
    assert timers.missing(config) == {tmp_path / "out": who, tmp_path / "www": who}
    assert timers.make_folders(config) == {} == timers.missing(config)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("out", "www")] == [0o750, 0o755]
    if os.geteuid() == 0:  # a store of an unprivileged user beside folders of root
        (tmp_path / "www").rmdir()
        os.chown(tmp_path / "store", 64_999, 64_999)
        assert timers.make_folders(config) == {tmp_path / "www": "64999"}


def test_cron_and_kubernetes(config):
    yaml = pytest.importorskip("yaml")
    [line] = [line for line in timers.cron(config).splitlines() if not line.startswith("#")]
    assert line.startswith("10 * * * * cd ") and line.endswith(f"schedule --once daily -- {config.path}")
    [job] = yaml.safe_load_all(timers.kubernetes(config))
    assert job["apiVersion"] == "batch/v1" and job["kind"] == "CronJob"
    assert (job["spec"]["schedule"], job["spec"]["timeZone"]) == ("10 0 * * *", "Etc/UTC")
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][1:4] == ["schedule", "--once", "daily"]


@pytest.mark.parametrize(
    ("every", "delay", "minute", "schedule"),
    [
        ("day", "630s", 11, "11 0 * * *"),
        ("day", "30s", 1, "1 0 * * *"),
        ("day", "86370s", 0, "0 0 * * *"),
        ("hour", "3590s", 0, "0 * * * *"),
        ("week", "604799s", 0, "0 0 * * 1"),
        ("week", "86370s", 0, "0 0 * * 2"),
        ("week", "518399s", 0, "0 0 * * 0"),
    ],
)
def test_nothing_is_called_before_the_report_is_due(config, every, delay, minute, schedule):
    """Cron and Kubernetes call at whole minutes. A call before that would find the report of the period before."""
    yaml = pytest.importorskip("yaml")
    text = config.path.read_text().replace('output = "out"', f'output = "out"\nevery = "{every}"\ndelay = "{delay}"')
    config.path.write_text(text)
    again = load(config.path)
    assert timers.cron(again).splitlines()[-1].startswith(f"{minute} * * * * cd ")
    [job] = yaml.safe_load_all(timers.kubernetes(again))
    assert job["spec"]["schedule"] == schedule


def test_every_scheduler_finds_the_secrets_beside_the_file(of_one_rack, tmp_path):
    """The printed text works with an empty environment, and printing it needs no secret."""
    config = of_one_rack
    text = config.path.read_text().replace('path = "www"', 'path = "${WHERE}"')
    config.path.write_text(text)
    (tmp_path / "mburst.env").write_text("WHERE=www\n")
    (tmp_path / "mburst.env").chmod(0o600)
    mburst = [sys.executable, "-m", "mburst", "schedule", "--print"]
    bare = {"PATH": "/usr/bin:/bin"}
    for form in ("systemd", "cron", "kubernetes"):
        done = subprocess.run([*mburst, form], cwd=tmp_path, env=bare, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "" and "www" not in done.stdout
        if form == "cron":
            line = done.stdout.splitlines()[-1].split(" ", 5)[5]
        if form == "systemd":
            unit = next(line for line in done.stdout.splitlines() if line.startswith("ExecStart="))
    for command in (line, f"cd {tmp_path} && " + unit.removeprefix("ExecStart=")):
        shutil.rmtree(tmp_path / "www", ignore_errors=True)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        assert subprocess.run(["sh", "-c", command], env=bare, capture_output=True).returncode == 0
        assert (tmp_path / "www" / "index.html").exists()
    (tmp_path / "mburst.env").unlink()
    for form, place in (("cron", f"{tmp_path}/mburst.env"), ("kubernetes", "the Secret mburst")):
        done = subprocess.run([*mburst, form], cwd=tmp_path, env={**bare, "WHERE": "x"}, capture_output=True, text=True)
        assert done.returncode == 0 and f"WHERE: write to {place}" in done.stderr


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    """A systemctl that records its calls. It exits with 1 if the file `broken` exists."""
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "systemctl"
    tool.write_text(
        f'#!/bin/sh\necho "$@" >> {tools}/calls\n[ -e {tools}/broken ] || exit 0\n'
        'echo "Failed to connect to bus" >&2\nexit 1\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tools


def test_installing_and_removing(config, tmp_path, systemctl):
    paths = timers.install(timers.units(config, system=False), system=False)
    folder = tmp_path / "home" / "systemd" / "user"
    assert sorted(paths) == sorted(folder.iterdir())
    assert (systemctl / "calls").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now mburst-report-daily.timer",
    ]
    assert timers.remove(config, system=False) == paths and not list(folder.iterdir())
    assert timers.remove(config, system=False) == []


def test_timers_of_reports_that_are_refused_now_can_be_removed(config, tmp_path, systemctl, capsys):
    """An earlier version installed them, or the file was changed since."""
    paths = timers.install(timers.units(config, system=False), system=False)
    text = config.path.read_text()
    more = '[[report]]\nname = "other"\noutput = "out"\nthreshold = "80%"\n'
    config.path.write_text(text.replace("[[deliver]]", f"{more}[[deliver]]"))
    assert main(["schedule", "--user", str(config.path)]) == 2 and "could write" in capsys.readouterr().err
    assert main(["schedule", "--user", "--remove", str(config.path)]) == 0
    assert not any(path.exists() for path in paths)


def test_a_systemd_that_does_not_answer_is_reported(config, systemctl):
    (systemctl / "broken").touch()
    with pytest.raises(MburstError, match="systemctl --user daemon-reload: Failed to connect to bus"):
        timers.install(timers.units(config, system=False), system=False)


def installed(config, tmp_path, monkeypatch, booted: bool) -> list[Path]:
    """Installs the units as on a machine that systemd has booted, or has not; with the link of an enabled timer."""
    monkeypatch.setattr(timers, "BOOTED", tmp_path if booted else tmp_path / "missing")
    paths = timers.install(timers.units(config, system=False), system=False)
    [timer] = [path for path in paths if path.suffix == ".timer"]
    (timer.parent / "timers.target.wants").mkdir()
    (timer.parent / "timers.target.wants" / timer.name).symlink_to(timer)
    return paths


@pytest.mark.parametrize("found", [True, False])
def test_units_are_removed_where_systemd_does_not_run(config, tmp_path, systemctl, monkeypatch, found):
    """As in a container, where a timer cannot run: systemctl refuses, or is not there."""
    paths = installed(config, tmp_path, monkeypatch, booted=False)
    (systemctl / "broken").touch()
    if not found:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert timers.remove(config, system=False) == paths
    assert [path for path in (tmp_path / "home").rglob("*") if not path.is_dir()] == []


def test_units_that_are_left_are_stated(config, tmp_path, systemctl, monkeypatch):
    paths = installed(config, tmp_path, monkeypatch, booted=True)
    (systemctl / "broken").touch()
    with pytest.raises(MburstError, match="systemctl --user disable: Failed to connect to bus") as caught:
        timers.remove(config, system=False)
    assert caught.value.hint == f"the units are left in {paths[0].parent}" and all(path.exists() for path in paths)
    (systemctl / "broken").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda path, missing_ok: os.unlink(path / "nothing"))
        with pytest.raises(MburstError, match="cannot remove the units: Not a directory") as caught:
            timers.remove(config, system=False)
    assert all(str(path) in str(caught.value) for path in paths)
    assert "the timers are stopped" in caught.value.hint
    assert timers.remove(config, system=False) == paths and not any(path.exists() for path in paths)
    assert (systemctl / "calls").read_text().splitlines()[-2:] == [
        "--user disable --now mburst-report-daily.timer",
        "--user daemon-reload",
    ]


def test_units_of_a_user_leave_the_user_s_folders_private(tmp_path, monkeypatch):
    monkeypatch.setattr(timers, "unit_folder", lambda system: tmp_path / ".config" / "systemd")
    monkeypatch.setattr(timers, "_systemctl", lambda *ignored: None)
    before = os.umask(0o077)
    try:
        [unit] = timers.install({"a.timer": ""}, system=False)
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (unit, unit.parent, unit.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize("first", ["the service", "the delivery", "the installation"])
def test_everybody_can_read_the_copies_that_a_folder_gets(config, tmp_path, first):
    """Whatever made the folder first, and also those above it: a web server is another user."""
    content = config.path.read_text().replace('path = "www"', 'path = "srv/a/www"')
    out = "srv/a/out" if first != "the delivery" else "out"  # reports beside the copies
    config.path.write_text(content.replace('output = "out"', f'output = "{out}"'))
    before = os.umask(0o077)
    try:
        if first == "the service":
            done = mburst("--once", "daily", cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        else:
            again = load(config.path)
            if first == "the installation":
                assert timers.make_folders(again) == {}
            assert carry_out(again, again.reports[0], NOW, lambda line: None) == 0
    finally:
        os.umask(before)
    folders = [tmp_path / name for name in ("srv", "srv/a", "srv/a/www")]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o755}
    assert {path.stat().st_mode & 0o777 for path in folders[-1].iterdir()} == {0o644}
    assert (tmp_path / out).stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("first", ["the service", "the installation"])
@pytest.mark.parametrize("path", ["{0}/out", "link"])
def test_reports_are_private_where_a_delivery_names_their_folder_otherwise(config, tmp_path, first, path):
    (tmp_path / "link").symlink_to("out")
    config.path.write_text(config.path.read_text().replace('path = "www"', f'path = "{path.format(tmp_path)}"'))
    if first == "the service":
        settle(load(config.path))
    else:
        assert timers.make_folders(load(config.path)) == {}
    assert (tmp_path / "out").stat().st_mode & 0o007 == 0


def test_a_loop_of_links_is_reported_in_one_line(config, tmp_path):
    """Wherever a folder or file of a report is named."""
    for name, target in (("one", "two"), ("two", "one")):
        (tmp_path / name).symlink_to(target)
    text = config.path.read_text()
    config.path.write_text(text.replace('"store"', '"one"').replace('"out"', '"two"'))
    again = load(config.path)
    assert str(tmp_path / "two") in str(timers.missing(again)) and timers.units(again, system=True)
    assert timers.make_folders(again)
    results = f'[[report]]\nname = "fleet"\nresults = "{tmp_path}"\noutput = "out"\ninventory = "one"\n'
    config.path.write_text(results)
    done = mburst("--once", "fleet", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "Too many levels of symbolic links" in done.stderr


def mburst(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mburst", "schedule", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_the_command(config, tmp_path):
    done = mburst("--once", "daily", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("report: out/rack-") == 2
    assert "www: delivered daily" in done.stdout
    assert mburst("--once", "all", cwd=tmp_path).stdout == ""
    wrong = mburst("--once", "weekly", cwd=tmp_path)
    assert wrong.returncode == 2 and "unknown [[report]] 'weekly' (there are daily)" in wrong.stderr
    assert "# mburst-report-daily.timer" in mburst("--print", "systemd", cwd=tmp_path).stdout
