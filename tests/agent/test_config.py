"""mburst.toml: what its settings mean, and errors in it as one line each."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from places import ROOT

from mburst.agent.config import NAMED, PARTS, load
from mburst.agent.delivery.kinds import KINDS
from mburst.analysis.bursts.find import BurstDefinition
from mburst.cli import VERBS, build_parser
from mburst.cli.definition import add_burst_options, definition_of
from mburst.errors import MburstError, UsageError

BASE = 'store = "store"\nrack = "r1"\n'
REPORT = '[[report]]\nname = "daily"\noutput = "out"\n'
MAIL = '[[deliver]]\nname = "ops"\nkind = "smtp"\nhost = "mail"\nfrom = "a@b.c"\nto = "d@e.f"\n'


@pytest.fixture
def read(tmp_path):
    def reader(text: str):
        path = tmp_path / "mburst.toml"
        path.write_text(text)
        return load(path)

    return reader


def test_a_part_becomes_the_command_line_of_its_verb(read):
    config = read(
        BASE + '[record]\ninputs = ["lo", "udp port 9"]\nlink = "1G"\nthreads = 2\nsplit-merged = true\n'
        'force = false\nlocal = ["10.0.0.1", "10.0.0.2"]\n[metrics]\nlisten = "127.0.0.1:0"\n'
    )
    record, metrics = config.parts
    assert record.name == "record" and record.argv == [
        "record",
        "--store=store",
        "--link=1G",
        "--rack=r1",
        "--local=10.0.0.1",
        "--local=10.0.0.2",
        "--split-merged",
        "--threads=2",
        "--",
        "lo",
        "udp port 9",
    ]
    assert metrics.argv == ["metrics", "--listen=127.0.0.1:0", "--", "store"]


def test_a_number_is_passed_on_as_it_is_written(read):
    [part] = read('store = "s"\nhost = 1e3\nrack = 1.10\n[record]\ninputs = "lo"\nthreads = 2\n').parts
    assert {"--rack=1.10", "--host=1e3", "--threads=2"} <= {*part.argv}


def test_several_parts_of_a_kind(read):
    config = read(BASE + '[[record]]\nname = "front"\ninputs = "eth0"\n[[record]]\nstore = "other"\ninputs = "eth1"\n')
    assert [(part.name, part.argv[1]) for part in config.parts] == [
        ("record front", "--store=store"),
        ("record 2", "--store=other"),
    ]


def test_a_reader_gets_the_shared_store_unless_it_has_inputs(read, monkeypatch):
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", nargs="*")
    parser.add_argument("--store")
    monkeypatch.setattr("mburst.agent.config._runnable", lambda: {"live": parser})
    monkeypatch.setattr("mburst.agent.config._try", lambda path, where, argv: parser.parse_args(argv[1:]))
    assert read(BASE + "[live]\n").parts[0].argv == ["live", "--store=store"]
    assert read(BASE + '[live]\ninputs = "eth0"\n').parts[0].argv == ["live", "--", "eth0"]
    [part] = read(BASE + '[live]\ninputs = "eth0"\nstore = "own"\n').parts
    assert part.argv == ["live", "--store=own", "--", "eth0"]


def test_reports_and_deliveries(read, monkeypatch):
    monkeypatch.setenv("SECRET", "s3cret")
    config = read(
        BASE
        + REPORT
        + 'every = "hour"\ndelay = "5m"\nracks = ["r1"]\ndeliver = "ops"\nbin = "1ms"\n'
        + MAIL
        + 'password = "a${SECRET}b"\nwhen = "bursts"\n'
    )
    [report] = config.reports
    assert (report.every, report.delay_ns, report.racks) == ("hour", 300 * 10**9, ["r1"])
    assert report.definition.bin_ns == 10**6
    assert config.deliveries["ops"].settings["password"] == "as3cretb" and config.deliveries["ops"].when == "bursts"


def test_a_report_defines_bursts_as_the_command_line_does(read):
    given = {"bin": "1ms", "threshold": "80%", "release": "0.3", "join": "4ms", "min-duration": "2ms", "link": "10G"}
    parser = argparse.ArgumentParser()
    add_burst_options(parser)
    words = parser.parse_args([word for name, value in given.items() for word in (f"--{name}", value)])
    [report] = read(BASE + REPORT + "".join(f'{name} = "{value}"\n' for name, value in given.items())).reports
    assert report.definition == definition_of(words) == BurstDefinition(10**6, 0.8, 0.3, 4 * 10**6, 2 * 10**6, 10**10)
    [report] = read(BASE + REPORT + "threshold = 0.8\n").reports
    assert report.definition.threshold == 0.8
    with pytest.raises(UsageError, match="invalid link speed '1000000000': no unit"):
        read(BASE + REPORT + "link = 1000000000\n")
    [report] = read(BASE + REPORT).reports
    assert report.definition == definition_of(parser.parse_args([])) == BurstDefinition()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store = ", "invalid TOML"),
        ("x = " + 5000 * "[", "invalid TOML"),
        ("x = " + 5000 * "9", "invalid TOML"),
        ('stroe = "x"\n', "has no key 'stroe' (valid are "),
        (BASE + "record = 5\n", "record must be a table"),
        ('host = "a\\u0000b"\n' + BASE, "host of the file has a NUL character"),
        ("host = nan\n" + BASE, "host of the file must be a text (in quotes) or a number, and not nan"),
        (BASE + '[record]\ninputs = "lo"\nlnk = "1G"\n', "[record] has no key 'lnk' (valid are backend, bin,"),
        (BASE + "[record]\n", "[record]: nothing to record"),
        (BASE + '[record]\ninputs = "lo"\nbackend = "magic"\n', "invalid choice: 'magic'"),
        (BASE + '[record]\ninputs = "lo"\nlink = "fast"\n', "[record]: argument --link: invalid link speed 'fast'"),
        (BASE + '[record]\ninputs = "no"\nlink = "a=1G,b=x"\n', "[record]: argument --link: invalid link speed 'x'"),
        (BASE + '[record]\ninputs = "no"\nbin = "0us"\n', "[record]: --bin of 0us is not between 10us and 1s"),
        (BASE + '[record]\ninputs = "no"\nduration = "5"\n', "[record]: argument --duration: invalid duration '5'"),
        (BASE + '[record]\ninputs = "no"\nlocal = "here"\n', "[record]: invalid IP or MAC address 'here'"),
        (BASE + '[record]\ninputs = "no"\nsources-above = 2\n', "[record]: invalid --sources-above 2"),
        (BASE + '[record]\ninputs = "no"\nthreads = 0\n', "[record]: --threads must be at least 1, not 0"),
        (BASE + '[record]\ninputs = "no"\nsplit-merged = true\n', "[record]: --split-merged needs the link speed"),
        (BASE + '[[record]]\ninputs = "lo"\n' * 2, "[[record]] number 2 repeats another one (remove it)"),
        (BASE + "[metrics]\nthreshold = 50\n", "[metrics]: argument --threshold: invalid share of line rate '50'"),
        (BASE + '[metrics]\nrelease = "80%"\n', "[metrics]: release 0.8 must be above 0 and at most the threshold"),
        (BASE + '[metrics]\nlisten = "9620"\n', "[metrics]: invalid address '9620' (examples: 127.0.0.1:9620,"),
        (
            BASE + '[metrics]\nlisten = ":9620"\n',
            "[metrics]: 0.0.0.0 is reached from other machines: give --token-file",
        ),
        (BASE + '[live]\nopen = true\nlink = "eth0=1G"\n', "[live]: invalid link speed 'eth0=1G'"),
        (BASE + '[live]\nopen = true\ninputs = "no"\nbin = "1us"\n', "[live]: --bin of 1us is not between"),
        ("[live]\nopen = true\n", "[live]: live: no input (name a store,"),
        ('[probe]\ntargets = "a"\nrate = 0\n', "[probe]: --rate 0: not a rate from one an hour"),
        ('[probe]\ntargets = "a:b"\n', "[probe]: invalid port 'b' in 'a:b'"),
        ('[reflect]\nlisten = "a:b"\n', "[reflect]: invalid port 'b' in 'a:b'"),
        ('[reflect]\nlimit = "x"\n', "[reflect]: --limit x: not a rate"),
        ('[reflect]\ndelay = "long"\n', "[reflect]: invalid delay 'long'"),
        ('[collect]\nconfig = "gnmi.yaml"\n', "[collect]: collect: no output"),
        (BASE + '[ship]\nevery = "1h"\ntarget = "ftp://x/y"\n', "[ship]: invalid target: unknown kind 'ftp'"),
        (BASE + '[names]\nevery = "1h"\nsources = "dns"\nsince = "x"\n', "[names]: argument --since: invalid time"),
        ("store = 5\n[metrics]\n", "store of the file must be a text (in quotes)"),
        (BASE + "[metrics]\ntoken-file = 5\n", "token-file of [metrics] must be a text (in quotes)"),
        (BASE + '[[report]]\nname = "a"\noutput = 5\n', "output of [[report]] a must be a text (in quotes)"),
        (BASE + '[record]\ninputs = "lo"\nsplit-merged = 1\n', "split-merged of [record] must be true or false"),
        (BASE + '[record]\ninputs = "lo"\nlink = [[1]]\n', "link of [record] must be a text or a number"),
        (BASE + '[[record]]\nname = "x"\ninputs = "lo"\n' * 2, "duplicate part name 'record x'"),
        (BASE + '[[report]]\noutput = "o"\n', "[[report]] number 1 needs a name"),
        (BASE + '[[report]]\nname = "a"\n', "needs an output"),
        (
            BASE + '[[report]]\nname = "a"\noutput = "s3://b/o"\n',
            "[[report]] a: s3://b/o: an address in place of a file or folder",
        ),
        (
            BASE + '[[deliver]]\nname = "w"\nkind = "folder"\npath = "gs://b/o"\n',
            "[[deliver]] w: path is an address in place of a folder",
        ),
        (BASE + '[[deliver]]\nname = "w"\nkind = "folder"\npath = ""\n', "[[deliver]] w: path is empty"),
        ('[[report]]\nname = "a"\nresults = ""\noutput = "o"\n', "[[report]] a: an empty name of results"),
        ('store = ""\n[metrics]\n', "argument STORE: an empty name"),
        ('[[report]]\nname = "a"\nstore = ""\noutput = "o"\n', "[[report]] a: an empty name of a file or folder"),
        ('[[report]]\nname = "a"\nstore = "s"\noutput = ""\n', "[[report]] a: an empty name of a file or folder"),
        ('store = "s3://b/s"\n[metrics]\n', "s3://b/s: an address in place of a file or folder"),
        (
            '[[report]]\nname = "a"\nstore = "s3://b/s"\noutput = "o"\n',
            "[[report]] a: s3://b/s: an address in place of a file or folder",
        ),
        (REPORT, "needs a store"),
        (BASE + REPORT + 'every = "month"\n', "every 'month' (valid are hour, day, week)"),
        (BASE + REPORT + 'evry = "day"\n', "has no key 'evry' (valid are bin, delay"),
        (BASE + REPORT + 'every = "hour"\ndelay = "90m"\n', "the delay is not shorter than the period"),
        (BASE + REPORT + 'deliver = "nobody"\n', "unknown [[deliver]] 'nobody'"),
        (BASE + REPORT + 'bin = "5"\n', "mburst.toml: [[report]] daily: invalid duration '5'"),
        (BASE + REPORT + 'delay = "5"\n', "mburst.toml: [[report]] daily: invalid duration '5'"),
        (BASE + REPORT + 'threshold = "0"\n', "mburst.toml: [[report]] daily: invalid share of line rate '0'"),
        (BASE + REPORT + "release = 0.7\n", "mburst.toml: [[report]] daily: release 0.7 must be above 0 and at most"),
        (BASE + REPORT + "min-duration = [[1]]\n", "min-duration of [[report]] daily must be a text or a number"),
        (MAIL.replace("smtp", "pigeon"), f"kind 'pigeon' (valid are {', '.join(KINDS)})"),
        (MAIL + 'url = "x"\n', "has no key 'url'"),
        (MAIL.replace('host = "mail"\n', ""), "needs host"),
        (MAIL + 'password = "${NOT_THERE}"\n', "refers to $NOT_THERE"),
        (MAIL + 'security = "rot13"\n', "security 'rot13'"),
        (MAIL + 'port = "x"\n', "port must be a whole number"),
        ('[[deliver]]\nname = "w"\nkind = "webhook"\nurl = "ftp://x"\n', "url is not a valid http or https URL"),
    ],
)
def test_errors_are_reported(read, text, message):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert message in f"{caught.value} ({caught.value.hint})" and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "is_valid"),
    [
        ('store = "s1"', 'store = "s2"', False),
        ("", 'threshold = "80%"', False),
        ("", 'threshold = "80%"\nracks = "r1"', False),
        ("", 'store = "s2"\nevery = "hour"', True),
        ('racks = ["r1", "r2"]', 'store = "s2"\nracks = "r3"', True),
        ('racks = ["r1", "r2"]', 'store = "s2"\nracks = ["r3", "r2"]', False),
        ('racks = "r1"', "", True),
        ("", 'store = "link"', True),
        ("", 'threshold = "50%"\nrelease = "50%"', True),
        ("", 'release = "40%"', False),
        ('bin = "1ms"', 'bin = "1ms"\njoin = "5ms"\nmin-duration = "1ms"', True),
    ],
)
@pytest.mark.parametrize("output", ["./out", "other"])
def test_two_reports_that_could_write_the_same_page_differently_are_refused(
    read, tmp_path, monkeypatch, first, second, is_valid, output
):
    """The one that comes second would deliver the page of the other. Folders are compared, not their names."""
    monkeypatch.chdir(tmp_path)
    for folder, link in (("store", "link"), ("out", "other")):
        (tmp_path / folder).mkdir()
        (tmp_path / link).symlink_to(folder)
    other = REPORT.replace("daily", "other").replace('"out"', f'"{output}"')
    if is_valid:
        assert len(read(BASE + REPORT + f"{first}\n{other}{second}\n").reports) == 2
        return
    with pytest.raises(UsageError, match=r"\[\[report\]\] other: daily could write the same pages") as caught:
        read(BASE + REPORT + f"{first}\n{other}{second}\n")
    assert caught.value.hint == "give each an output of its own, or different racks"


def test_what_this_machine_lacks_is_no_error_of_the_file(read):
    """At the start of a machine, an interface may not be there yet: the part is restarted until it is."""
    config = read(
        BASE + '[record]\ninputs = ["no0", "no1"]\nlink = "no0=1G,no1=10G"\nkeep-packets = "2G"\nduration = "1m"\n'
        '[metrics]\nlisten = "no.invalid:9620"\ntoken-file = "absent"\n[probe]\ntargets = "no.invalid"\n'
        '[reflect]\nlisten = "no.invalid"\ndelay = "file:absent.csv"\n'
    )
    assert [part.name for part in config.parts] == ["record", "probe", "reflect", "metrics"]


def test_every_part_has_a_check_of_its_options():
    assert {
        verb
        for verb in PARTS
        if not build_parser(verb)._subparsers._group_actions[0].choices[verb]._defaults["as_part"]
    } == set()


def test_a_missing_file_is_reported(tmp_path):
    for path in (tmp_path / "nothing.toml", Path("."), Path("/"), Path("..")):
        with pytest.raises(MburstError, match="cannot read"):
            load(path)


def test_a_pipe_or_folder_is_refused_without_waiting(tmp_path):
    """The file, or the file of its secrets, is a pipe, a folder, an endless device, or too large."""
    makers = {
        "pipe": os.mkfifo,
        "folder": os.mkdir,
        "device": lambda path: os.symlink("/dev/zero", path),
        "large": lambda path: path.write_bytes(bytes((1 << 20) + 1)),
    }
    for kind, make in makers.items():
        for name in ("mburst.toml", "mburst.env"):
            folder = tmp_path / kind / name
            folder.mkdir(parents=True)
            (folder / "mburst.toml").write_text("")
            (folder / name).unlink(missing_ok=True)
            make(folder / name)
            message: list[str] = []
            waiting = threading.Thread(target=refused, args=(folder / "mburst.toml", message), daemon=True)
            waiting.start()
            waiting.join(30)
            assert message and f"{name}: cannot read: " in message[0], (kind, name)


def refused(path: Path, message: list[str]) -> None:
    with pytest.raises(MburstError) as caught:
        load(path)
    message.append(str(caught.value))


def test_a_file_may_be_a_symbolic_link(tmp_path):
    """Kubernetes mounts its files as symbolic links."""
    (tmp_path / "real").write_text(BASE + '[record]\ninputs = "lo"\n')
    (tmp_path / "link.toml").symlink_to(tmp_path / "real")
    assert load(tmp_path / "link.toml").parts


def test_secrets_are_read_from_the_file_beside_it(read, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FROM_SHELL", "shell")
    secrets = tmp_path / "mburst.env"
    secrets.write_text(
        "# comment\n; another\n\nWORD = plain text # no comment\nQUOTED=' a\"b '\n"
        'DOUBLE="a\\"b\\\\c"\nFROM_SHELL=file\nEMPTY=\n'
    )
    secrets.chmod(0o600)
    config = read(MAIL + 'password = "${WORD}|${QUOTED}|${DOUBLE}|${FROM_SHELL}|${EMPTY}|"\n')
    assert config.deliveries["ops"].settings["password"] == 'plain text # no comment| a"b |a"b\\c|shell||'
    assert "plain text" not in repr(config) and not config.environment.warnings
    assert config.environment.merged()["WORD"] == "plain text # no comment"
    assert config.environment.merged()["FROM_SHELL"] == "shell"
    secrets.chmod(0o644)
    [warning] = read(MAIL).environment.warnings
    assert "readable by everybody (chmod 600" in warning


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("GOOD=1\nbad line s3cret\n", 0o600, "mburst.env line 2: not NAME=value"),
        ("A='s3cret\n", 0o600, "mburst.env line 1: A: unterminated quote"),
        ("A=s3cret\n", 0o620, "writable by others than its owner (chmod 600"),
        ("A=s3cret\n", 0o602, "writable by others than its owner (chmod 600"),
        ("URL=ftp://s3cret\n", 0o600, "url is not a valid http or https URL"),
        ("A=s3cret\n", 0o600, "refers to $URL, which is not set in the environment (write URL=… to "),
    ],
)
def test_errors_in_secrets_do_not_show_them(read, tmp_path, text, mode, message):
    (tmp_path / "mburst.env").write_text(text)
    (tmp_path / "mburst.env").chmod(mode)
    with pytest.raises(MburstError) as caught:
        read('[[deliver]]\nname = "w"\nkind = "webhook"\nurl = "${URL}"\n')
    line = f"{caught.value} ({caught.value.hint})"
    assert message in line and "s3cret" not in line


def test_parts_receive_the_secrets(tmp_path):
    (tmp_path / "mburst.env").write_text("GNMI_USER=from-file\n")
    (tmp_path / "mburst.env").chmod(0o600)
    (tmp_path / "gnmi.yaml").write_text(
        "targets: {127.0.0.1:1: {username: $GNMI_USER, insecure: true}}\nsubscriptions: {s: {paths: [/a]}}\n"
    )
    (tmp_path / "mburst.toml").write_text('store = "store"\n[collect]\nconfig = "gnmi.yaml"\nduration = "1s"\n')
    process = subprocess.Popen([sys.executable, "-m", "mburst", "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        message = next(line for line in process.stderr if "no value received" in line or "no variable" in line)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert "Connection refused" in message


def uncommented(text: str) -> str:
    """The example with each section that belongs to a verb, and with every setting uncommented."""
    kept, wanted = [], True
    for line in text.splitlines():
        plain = re.sub(r"^# (?=\[|[a-z-]+ = )", "", line)
        if head := re.match(r"\[+([a-z]+)\]", plain):
            wanted = head[1] not in PARTS or head[1] in VERBS
        if wanted:
            kept.append(plain)
    return "\n".join(kept) + "\n"


def test_the_example_is_valid_with_and_without_its_comments(read, monkeypatch):
    monkeypatch.setenv("MBURST_MAIL_PASSWORD", "x")
    monkeypatch.setenv("MBURST_WEBHOOK", "https://hooks.example.net/x")
    text = (ROOT / "examples" / "mburst.toml").read_text()
    assert [part.name for part in read(text).parts] == ["record"]
    config = read(uncommented(text))
    assert [part.name for part in config.parts] == [NAMED.get(verb, verb) for verb in PARTS if verb in VERBS]
    assert {delivery.kind for delivery in config.deliveries.values()} == {"smtp", "webhook", "alertmanager", "folder"}


def mburst(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mburst", *arguments], capture_output=True, text=True, cwd=cwd)


def test_init_check_and_only(tmp_path):
    assert mburst("run", "--init", cwd=tmp_path).returncode == 0
    assert (tmp_path / "mburst.toml").read_text() == (ROOT / "examples" / "mburst.toml").read_text()
    again = mburst("run", "--init", cwd=tmp_path)
    assert again.returncode == 1 and "file exists" in again.stderr
    checked = mburst("run", "--check", cwd=tmp_path)
    assert checked.returncode == 0 and checked.stdout.startswith("record: mburst record --store=/var/lib/mburst/store")
    (tmp_path / "empty.toml").touch()
    empty = mburst("run", "--check", "empty.toml", cwd=tmp_path)
    assert empty.returncode == 2 and "empty.toml: nothing to run" in empty.stderr and not empty.stdout
    wrong = mburst("run", "--check", "--only", "metrics", cwd=tmp_path)
    assert wrong.returncode == 2 and "unknown part 'metrics' (there are record)" in wrong.stderr
