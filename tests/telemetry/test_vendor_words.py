"""Nothing in a vendor's table is ignored silently: a word that is unknown or has another form is an error that names it
and the file. The table is that of docs/add-a-switch.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gnmilib import T0, Fed, notification
from places import ROOT

from mburst.errors import UsageError
from mburst.telemetry.gnmi.vendors import FOLDER, Tables, Vendor, load


def example() -> str:
    """Returns the first table of the page."""
    page = (ROOT / "docs" / "add-a-switch.md").read_text("utf-8")
    return page.split("```toml\n")[1].split("```")[0]


def loaded(folder: Path, text: str) -> Vendor:
    path = folder / "acme.toml"
    path.write_text(text, "utf-8")
    return load(path)


def test_the_table_of_the_page_is_valid(tmp_path: Path) -> None:
    vendor = loaded(tmp_path, example())
    assert vendor.detect == ("acme-",) and len(vendor.rules) == len(vendor.facts) == 1


SUBSCRIPTIONS = '[[subscriptions]]\npath = "/a"\n'


@pytest.mark.parametrize(
    ("pattern", "put", "problem"),
    [
        (r"\[\[rows\]\]", "[[row]]", "unknown word 'row'"),
        ("^about", "abuot", "unknown word 'abuot'"),
        ("^about = .*", "about = 1", "invalid about 1"),
        ("^detect = .*", 'detect = "acme-"', "invalid detect 'acme-'"),
        ("^detect = .*", 'detect = [""]', "invalid detect ['']"),
        (r"\[\[facts\]\]", "[facts]", "invalid facts"),
        (r"(?s)\[\[rows\]\].*", "", "no [[rows]]"),
        (r"(?s)\[\[rows\]\].*", "rows = [1]", "invalid rows [1]"),
        ("^table = .*", "", "lacks 'table'"),
        ("^path = .*depth.*", "", "lacks 'path'"),
        ("^path = .*depth.*", "path = 3", "invalid path 3"),
        ("^semantics", "semantic", "unknown word 'semantic'"),
        ("^semantics = .*", 'semantics = "gauge"\nwhen = "detectd"', "invalid when 'detectd'"),
        ("^semantics = .*", 'semantics = "gauge"\nwindow = 3', "invalid window 3"),
        ("^semantics = .*", 'semantics = "gauge"\norigin = 3', "invalid origin 3"),
        ("^note = .*", "note = 3", "invalid note 3"),
        ("^ignore = .*", 'ignore = "id"', "invalid ignore 'id'"),
        ("^ignore = .*", 'plain = "id"', "invalid plain 'id'"),
        ("^ignore = .*", 'ignore = ["peak"]', "'peak' has two meanings"),
        ("^ignore = .*", 'undetermined = { peak = { transmit_bytes = 1 } }', "'peak' has two meanings"),
        ("^ignore = .*", "undetermined = { peak2 = 1 }", "invalid undetermined"),
        ("^ignore = .*", "queue = 3", "invalid queue 3"),
        ("^ignore = .*", 'neighbor = "{port}"', "queues has no key 'neighbor'"),
        ("^ignore = .*", 'keys = { prot = "x" }', "queues has no key 'prot'"),
        ("^ignore = .*", 'times = { peak = "segmntSize" }', "unknown fact 'segmntSize'"),
        ("^ignore = .*", 'times = { paek = "segmentSize" }', "has no leaf 'paek'"),
        ("^ignore = .*", 'time = { leaf = "t", unit = "m" }', "invalid time"),
        ("^ignore = .*", 'time = { leaf = "t" }', "invalid time"),
        ("^ignore = .*", 'event = { leaf = "kind", begin = "START" }', "invalid event"),
        ("^ignore = .*", 'models = { paek = "acme-ports@2026-02-01" }', "has no leaf 'paek'"),
        ("^gauges = .*", 'gauges = "max_bytes"', "invalid gauges 'max_bytes'"),
        ("^gauges = .*", "gauges = { peak = 3 }", "invalid gauges"),
        ("^counters = .*", 'counters = { peak = "dropped_packets" }', "'peak' has two meanings"),
        ('^fact = .*', 'fact = ["boot"]', "invalid fact ['boot']"),
        ('^fact = "boot"', 'fact = "boot"\nport = "x"', "unknown word 'port'"),
        (r"\Z", SUBSCRIPTIONS + 'answers = "/b"', "invalid answers '/b'"),
        (r"\Z", SUBSCRIPTIONS + 'answer = ["/b"]', "unknown word 'answer'"),
        (r"\Z", SUBSCRIPTIONS, "lacks 'answers'"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(tmp_path: Path, pattern: str, put: str, problem: str) -> None:
    text, count = re.subn(pattern, lambda _: put, example(), count=1, flags=re.MULTILINE)
    assert count == 1
    with pytest.raises(UsageError) as failure:
        loaded(tmp_path, text)
    assert str(failure.value).startswith(f"{tmp_path / 'acme.toml'}: ") and problem in str(failure.value)
    assert failure.value.hint


RECORD = """
[[rows]]
table = "queues"
path = "/acme/record"
semantics = "event"
keys = { port = "ifName", queue = "tc" }
gauges = { segs = "max_bytes" }
"""
PORTS = """
[[rows]]
table = "ports"
path = "/acme/port[name={port}]"
gauges = { mean = "in_bytes" }
"""
LINKS = """
[[rows]]
table = "links"
path = "/acme/near[name={port}][id={neighbor}]"
texts = { name = "host" }
"""
FACT = '[[facts]]\npath = "/acme/x"\nfact = '


def refused(folder: Path, text: str) -> str:
    """Returns the error about a table, of one line that names the file."""
    with pytest.raises(UsageError) as failure:
        loaded(folder, text)
    message = str(failure.value)
    assert message.startswith(f"{folder / 'acme.toml'}: ") and "\n" not in message and failure.value.hint
    return message.removeprefix(f"{folder / 'acme.toml'}: ")


@pytest.mark.parametrize(
    ("row", "more", "problem"),
    [
        (PORTS, 'time = { leaf = "t", unit = "us" }', "'time' has no effect in a row of ports without keys"),
        (PORTS, 'event = { leaf = "t", begin = ["x"] }', "'event' has no effect in a row of ports without keys"),
        (PORTS, 'times = { mean = "segmentSize" }', "'times' has no effect in a row of ports without keys"),
        (PORTS, 'texts = { name = "in_bytes" }', "'texts' has no effect in a row of ports without keys"),
        (RECORD, 'counters = { sent = "transmit_bytes" }', "'counters' has no effect in a row with keys"),
        (RECORD, 'undetermined = { sent = { max_bytes = 1 } }', "'undetermined' has no effect in a row with keys"),
        (RECORD, 'window = "60s"', "'window' has no effect in a row with keys"),
        (RECORD, 'port = "x"', "'port' has no effect in a row with keys"),
        (RECORD, 'speeds = { sent = "transmit_bytes" }', "'speeds' has no effect in a row with keys"),
        (LINKS, 'gauges = { port-id = "interface" }', "'gauges' has no effect in a row of links"),
        (LINKS, 'semantics = "gauge"', "'semantics' has no effect in a row of links"),
        (LINKS, 'keys = { port = "x", neighbor = "y" }', "'keys' has no effect in a row of links"),
        (RECORD, 'times = { segs = "boot" }', "'boot' is no factor"),
        (RECORD, 'plain = ["x"]\ntimes = { x = "segmentSize" }', "has no leaf 'x' for times"),
        (RECORD, 'counts = { more = "max_bytes" }', "two leaves for 'max_bytes'"),
        (RECORD, 'event = { leaf = "kind", begin = [] }', "invalid event"),
        (PORTS, 'semantics = "nonsense"', "semantics 'nonsense'"),
        (PORTS, 'window = "0s"', "invalid window '0s'"),
        (PORTS, "undetermined = { s = {} }", "invalid undetermined"),
        (PORTS, 'speeds = { s = "out_bytes" }', "'out_bytes' is no column for speeds"),
        (PORTS, 'counters = { s = "link_bps" }', "'link_bps' is no column for counters"),
        (PORTS, 'counters = { s = "in_bytes" }', "two leaves for 'in_bytes'"),
        (PORTS, 'counters = { "state/x" = "out_bytes" }', "invalid leaf 'state/x'"),
        (PORTS, 'counters = { "acme-q:peak" = "out_bytes" }', "invalid leaf 'acme-q:peak'"),
        (PORTS, 'ignore = ["{x}"]', "invalid leaf '{x}'"),
        (PORTS, 'plain = ["x[y=z]"]', "invalid leaf 'x[y=z]'"),
        (RECORD, 'time = { leaf = "a/t", unit = "us" }', "invalid leaf 'a/t'"),
        (PORTS, 'port = "{port"', "invalid port '{port'"),
        (PORTS, 'models = { mean = "" }', "invalid models"),
        (PORTS, PORTS, "'mean' is in two rows of this path"),
        (PORTS, PORTS.replace("{port}", "{_}").replace("gauges", 'port = "x"\ngauges'), "'mean' is in two rows"),
        (RECORD, PORTS.replace("/acme/port[name={port}]", "/acme/record").replace("gauges", 'port = "x"\ngauges'),
         "an earlier row with keys has all leaves of this path"),
        (PORTS, FACT.replace("/acme/x", "/acme/port[name={port}]/mean") + '"clear"', "a row has this leaf"),
        (FACT + '"boot"\n', FACT + '"segmentSize"', "/acme/x: two facts of this path"),
        (FACT + '"alias"', "", "the path has no 'port'"),
        (FACT + '"clear"', "", "the path has no 'port'"),
        (PORTS.replace("/acme", "eos_native:/acme"), "", "an origin in the path"),
        (FACT.replace("/acme", "eos_native:/acme") + '"boot"', "", "an origin in the path"),
        (PORTS.replace("/acme/port[name={port}]", "/"), 'port = "x"', "a path without steps"),
        (PORTS, SUBSCRIPTIONS + 'answers = ["/b"]\n' + SUBSCRIPTIONS + 'answers = ["/c"]', "/a: two [[subscriptions]]"),
        (PORTS, SUBSCRIPTIONS + "answers = []", "invalid answers []"),
        (PORTS, SUBSCRIPTIONS + 'answers = ["/b[c"]', "path '/b[c': missing ]"),
        (PORTS, SUBSCRIPTIONS.replace("/a", "/a[b") + 'answers = ["/b"]', "path '/a[b': missing ]"),
        (PORTS, SUBSCRIPTIONS.replace("/a", "x:/a") + 'answers = ["/b"]', "an origin in the path"),
        (PORTS, SUBSCRIPTIONS + 'answers = ["/b[c={port}]"]', "a place in the path"),
        (PORTS.replace("gauges = { mean = \"in_bytes\" }", ""), "", "a row without leaves"),
        (RECORD.replace("gauges = { segs = \"max_bytes\" }", ""), 'plain = ["x"]', "a row without leaves"),
        (RECORD.replace(', queue = "tc"', ""), "", "keys lacks 'queue'"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_refused(tmp_path: Path, row: str, more: str, problem: str) -> None:
    assert problem in refused(tmp_path, row + more)


@pytest.mark.parametrize(
    "text",
    [
        RECORD + 'models = { ifName = "acme-if@2026-02-01" }',
        RECORD + 'event = { leaf = "kind", begin = ["B"] }\nmodels = { kind = "acme-if@2026-02-01" }',
        RECORD + 'time = { leaf = "at", unit = "s" }\nmodels = { at = "acme-if@2026-02-01" }',
        RECORD + 'times = { segs = "segmentSize" }\ncounts = { lost = "dropped_packets" }\nplain = ["y"]',
        PORTS + 'semantics = "gauge"\nwindow = "60s"\norigin = "acme"\ncounters = { a = "out_bytes", b = "out_bytes" }',
        PORTS + PORTS.replace("mean =", "other ="),
        PORTS + 'when = "detected"\n' + PORTS,
        LINKS + 'port = "in-{port}"\nignore = ["x"]',
    ],
)  # fmt: skip
def test_what_has_an_effect_is_accepted(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text).rules


LONG = 9000 * "x"


@pytest.mark.parametrize(
    "text",
    [
        f'about = "a"\n{LONG} = 1',
        f'rows = "{LONG}"',
        f"rows = [{9000 * '1,'}]",
        PORTS + f'{LONG} = 1',
        PORTS.replace("/acme", f"/{LONG}") + "window = 3",
        PORTS.replace("/acme", f"/[{LONG}"),
        PORTS.replace("/acme", f"/a[b=c]{LONG}"),
        PORTS.replace("/acme", f"/a[{{port}}{{port}}={LONG}]"),
        PORTS.replace("/acme", f"/{{port}}{{port}}{LONG}"),
        PORTS.replace("ports", LONG),
        PORTS.replace("in_bytes", LONG),
        PORTS + f'model = "{LONG}"',
        PORTS + f'models = {{ {LONG} = "a" }}',
        PORTS + f'semantics = "{LONG}"',
        PORTS + f'port = "{{{LONG}}}"',
        PORTS + f'ignore = ["{LONG}/"]',
        PORTS + f'undetermined = {{ x = {{ {LONG} = 1 }} }}',
        RECORD + f'times = {{ segs = "{LONG}" }}',
        RECORD.replace("tc\"", f"tc\", {LONG} = \"x\""),
        FACT + f'"{LONG}"',
        SUBSCRIPTIONS + f'answers = ["/b[{LONG}"]',
    ],
)  # fmt: skip
def test_an_error_has_no_more_of_a_value_than_identifies_it(tmp_path: Path, text: str) -> None:
    assert len(refused(tmp_path, text)) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (PORTS + "when = 2026-01-01", "invalid when 2026-01-01"),
        (PORTS + "when = true", "invalid when true"),
        (PORTS + f"when = 0x{9000 * 'f'}", "invalid when 0xfff"),
        (PORTS + 'when = { "a\\nb" = 1 }', "invalid when { 'a\\nb' = 1 }"),
        (PORTS + "ignore = [2026-01-01]", "invalid ignore [2026-01-01]"),
        (PORTS + "keys = { port = false }", "invalid keys { port = false }"),
        (PORTS.replace("/acme", "/acme\\n") + "when = true", "/acme\\n/port[name={port}]: invalid when"),
    ],
)
def test_an_error_shows_a_value_as_the_file_has_it(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refused(tmp_path, text)


@pytest.mark.parametrize("word", ["rows", "facts", "subscriptions"])
def test_the_remedy_names_the_entry(tmp_path: Path, word: str) -> None:
    with pytest.raises(UsageError) as failure:
        loaded(tmp_path, f"[{word}]")
    assert f"[[{word}]]" in failure.value.hint


def test_a_record_keeps_no_leaf_that_it_ignores(tmp_path: Path) -> None:
    vendor = loaded(tmp_path, RECORD + 'ignore = ["repeated"]\nplain = ["kept"]')
    fed = Fed()
    fed.device.tables = Tables([vendor], "acme")
    leaves = {"ifName": "e1", "tc": 1, "segs": 7, "repeated": "e1", "kept": 5}
    taken = fed.feed(notification(T0, {"/acme/record": leaves})).take()
    assert [row["max_bytes"] for row in taken["queues"]] == [7]
    assert [row["path"] for row in taken["gnmi_values"]] == ["/acme/record/kept"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_the_tables_of_the_repository_are_valid(path: Path) -> None:
    assert load(path).rules
