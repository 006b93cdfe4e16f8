"""If a process may open few files, each verb answers as usual or reports the limit: no traceback, no endless loop, no
incomplete answer, and no intact file called "damaged"."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from frames import START_NS, Frame, pcap
from ports import free_port
from racklib import START, fill
from storelib import write

from mburst.sql import StoreFolder

LIMITS = (0, 4, 7)  # of descriptors; 0: no limit. Three are open, and the modules are loaded.
SAME = {  # the output must be the same
    "record": "record FILE.pcap -o new --link 1G", "import": "import probes FILE.csv -o new",
    "bursts": "bursts store --bin 1ms", "sql": "sql store contention", "compare": "compare store store",
    "investigate": "investigate store",
}  # fmt: skip
ONCE = {
    "report": "report store -o page.html", "rack": "report store --rack r1 -o racks", "check": "check store",
    "schedule": "schedule --once all FILE.toml", "repair": "repair store", "run": "run --check FILE.toml",
    "doctor": "doctor", "collect": "collect FILE.yaml -o new --duration 100ms",
    "record lo": "record lo -o new --duration 300ms",
    "probe": "probe 127.0.0.1:PORT --duration 100ms --timeout 1ms -o new",
}  # fmt: skip
ENDLESS = {  # until SIGINT, which comes after a second
    "live": "live store --listen 127.0.0.1:0 --open", "live lo": "live lo -o new --listen 127.0.0.1:0 --open",
    "metrics": "metrics store --listen 127.0.0.1:0", "reflect": "reflect --listen 127.0.0.1:PORT",
    "switch-agent": "switch-agent lo --listen 127.0.0.1:0", "loop": "schedule --loop FILE.toml",
}  # fmt: skip

# Loads all of mburst once. Each case on standard input, [folder, words, limit], is a process that is forked from this
# one.
HARNESS = """
import importlib, json, os, pkgutil, resource, signal, sys, traceback
import mburst, pyarrow.csv, pyarrow.parquet
for module in pkgutil.walk_packages(mburst.__path__, "mburst."):
    if not module.name.endswith(("__main__", ".child", ".record", ".role", ".respond")):
        importlib.import_module(module.name)
from mburst.__main__ import command

def carry_out(folder, words, limit, endless):
    os.chdir(folder)
    for number in (1, 2):
        os.dup2(os.open(f"{folder}.{number}", os.O_WRONLY | os.O_CREAT), number)
    os.closerange(3, 256)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if endless:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 1, 1)
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
    if limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    sys.argv = ["mburst", *words]
    try:
        return command()
    except KeyboardInterrupt as error:
        if any(frame.f_code is command.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise
        return 130  # the command had ended before

for case in json.load(sys.stdin):
    child = os.fork()
    if not child:
        code = 99
        try:
            code = carry_out(*case)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            sys.stdout.flush()
        except SystemExit as error:
            code = error.code
        except BaseException:
            sys.excepthook(*sys.exc_info())
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the files that the verbs read."""
    folder = tmp_path_factory.mktemp("few") / "given"
    folder.mkdir()
    store = StoreFolder.create(folder / "store")
    fill(store, {"a": [(50, 10)], "b": [(55, 10)]})
    times = [START + number * 10**6 for number in range(300)]
    write(store, "probes", *({"seq": ns, "tx_ns": ns, "rx_ns": ns + 9000} for ns in times))
    (folder / "FILE.pcap").write_bytes(pcap([Frame(START_NS + i * 1000, 1, 100) for i in range(100)]))
    (folder / "FILE.csv").write_text("src,dst,tx_ns,rtt_ns\na,b,1790000000000000000,1000\n")
    (folder / "FILE.yaml").write_text(
        "insecure: true\ntargets: {sw: {address: '127.0.0.1:1'}}\n"
        "subscriptions: {all: {paths: [/interfaces], mode: stream}}\n"
    )
    (folder / "FILE.toml").write_text('store = "store"\n[[report]]\nname = "day"\noutput = "out"\n')
    return folder


def carried_out(place: Path) -> list[tuple[str, int, int, str, str]]:
    """Runs each verb under each limit; returns name, limit, exit code, output and errors."""
    cases = []
    for name, words in {**SAME, **ONCE, **ENDLESS}.items():
        for limit in LIMITS[name in ENDLESS :]:
            folder = place.parent / f"{name}-{limit}"
            shutil.copytree(place, folder)
            cases.append((folder, words.replace("PORT", str(free_port())).split(), limit, name in ENDLESS))
    done = subprocess.run(
        [sys.executable, "-c", HARNESS],
        capture_output=True,
        text=True,
        timeout=600,
        input=json.dumps(cases, default=str),
    )
    assert done.returncode == 0, done.stderr
    codes = map(int, done.stdout.split())
    return [
        (folder.name.rpartition("-")[0], limit, code, *(Path(f"{folder}.{n}").read_text() for n in (1, 2)))
        for (folder, _, limit, _), code in zip(cases, codes, strict=True)
    ]


def test_each_verb_answers_as_usual_or_refuses(place):
    whole = ""
    for name, limit, code, output, errors in carried_out(place):
        where = (name, limit, code, output, errors)
        assert "Traceback" not in errors and "damaged:" not in output + errors, where
        assert code in (0, 1, 2, 130), where
        if limit and code in (1, 2):
            assert errors and all(line.startswith("mburst: ") for line in errors.splitlines()), where
        whole = whole if limit else output
        if name in SAME and code == 0:
            assert whole and output == whole, where
