"""Invalid words on a command line: each gives one line that names it, for every verb and option."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from verb_parsers import parsers

from mburst import files
from mburst.__main__ import main
from mburst.cli import LOCAL, PLACES, WRITTEN, build_parser
from mburst.cli.compare import choice
from mburst.cli.inputs import inputs_of
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder

OPTIONS = [
    (verb.removeprefix("mburst "), action)
    for verb, parser in parsers().items()
    for action in parser._actions
    if verb != "mburst" and action.option_strings and action.nargs != 0
]
NAMED = [
    (verb.removeprefix("mburst "), action)
    for verb, parser in parsers().items()
    for action in parser._actions
    if isinstance(action.metavar, str) and PLACES.match(action.metavar)
]
LOCAL_NAMED = [(verb, action) for verb, action in NAMED if LOCAL.match(action.metavar)]
ADDRESSES = ["s3://bucket/x", "file:///srv/x", "gs:/x", "hdfs://name/x"]
NUMBERS = [(verb, action) for verb, action in OPTIONS if action.type is int]


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        build_parser(*words[:1]).parse_args(words)
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["burst", "s"], "bursts"),
        (["whatif", "s"], "what-if"),
        (["fleet", "aks", "r"], "ask"),
        (["fleet", "ask", "r", "--dey=2026-11-20"], "--day"),
        (["record", "lo", "-o", "s", "--sources", "bussy"], "busy"),
        (["record", "lo", "-o", "s", "--kep-packets", "1MB"], "--keep-packets"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_similar_word_is_suggested(words, near):
    assert refused(*words).endswith(f" (did you mean {near}?)")


def test_a_selection_of_a_comparison_has_a_word_of_its_key():
    assert choice(["direction=in", "host=a"]).direction == "in"
    with pytest.raises(UsageError, match="invalid direction 'both'"):
        choice(["direction=both"])


@pytest.mark.parametrize("words", [["xyz"], ["bursts", "s", "extra"], ["bursts", "s", "--" + 5000 * "x"]])
def test_a_word_without_a_similar_one_is_refused_without_a_suggestion(words):
    assert "did you mean" not in refused(*words)


@pytest.mark.parametrize(
    ("verb", "option", "arguments"),
    [
        ("sql", "--json", "s bursts"),
        ("fleet ask", "--day=2026-11-20", "r loss"),
        ("names", "--csv", "s hosts dns"),
        ("record", "--store=s", "a.pcap b.pcap tcp"),
        ("live", "--link=10G", "eth0 eth1 udp"),
        ("import", "--store=s", "probes a.csv"),
    ],
)
def test_options_stand_in_any_place(verb, option, arguments):
    words = arguments.split()
    places = [[*words[:place], option, *words[place:]] for place in range(len(words) + 1)]
    taken = [vars(build_parser(*verb.split()[:1]).parse_args([*verb.split(), *place])) for place in places]
    assert all(one == taken[0] for one in taken)


def up_to(verb, action):
    """Returns the words before the value of an option or positional argument."""
    before = ["probes"] if verb == "import" and not action.option_strings else []  # the word before it is one of a few
    return [*verb.split(), *before, *action.option_strings[-1:]]


def test_there_are_options():
    assert len(OPTIONS) > 150 and len(NUMBERS) > 12


@pytest.mark.parametrize(("verb", "action"), OPTIONS, ids=lambda value: getattr(value, "dest", value))
def test_two_hyphens_are_no_value(verb, action):
    """argparse makes an empty list of `--`."""
    option = action.option_strings[-1]
    assert refused(*verb.split(), f"{option}=--") == f"argument {option}: invalid value '--'"


@pytest.mark.parametrize("text", ["-1", "1.5", "", "x", "1e3", str(2**63), "9" * 5000])
@pytest.mark.parametrize(("verb", "action"), NUMBERS, ids=lambda value: getattr(value, "dest", value))
def test_numbers_are_whole_and_fit_a_column(verb, action, text):
    found = refused(*verb.split(), f"{action.option_strings[-1]}={text}")
    assert f"invalid number {text[:40]!r}" in found and len(found) < 300


def test_bytes_that_are_not_utf8_are_named():
    assert refused("bursts", "store", "--host", os.fsdecode(b"h\xff")) == "invalid argument h\\xff: not UTF-8"


def test_a_path_that_the_database_cannot_open_is_refused(tmp_path):
    store = StoreFolder.create(tmp_path / "store").path
    moved = tmp_path / os.fsdecode(b"caf\xe9")
    shutil.move(store, moved)
    for use in (StoreFolder.open, StoreFolder.create):
        with pytest.raises(MburstError, match="has to be UTF-8"):
            use(moved)


def test_one_word_ends_the_options():
    """argparse makes an empty list of a second `--`."""
    assert refused("ship", "--", "store", "--") == "invalid argument '--'"


@pytest.mark.parametrize(("verb", "action"), LOCAL_NAMED, ids=lambda value: getattr(value, "dest", value))
def test_addresses_in_place_of_files_and_folders_are_refused(verb, action):
    """A report to s3://bucket once reported success, and was in a local folder `s3:`."""
    for address in ADDRESSES:
        assert refused(*up_to(verb, action), address) == f"{address}: an address in place of a file or folder"


@pytest.mark.parametrize(
    ("verb", "action"),
    [place for place in LOCAL_NAMED if place[1].metavar == "FILE"],
    ids=lambda value: getattr(value, "dest", value),
)
def test_a_folder_in_place_of_a_file_is_refused(verb, action):
    """A page for pages/ once became a file of that name."""
    assert refused(*up_to(verb, action), "pages/") == "pages/: a folder in place of a file"


@pytest.mark.parametrize(("verb", "action"), NAMED, ids=lambda value: getattr(value, "dest", value))
def test_an_empty_name_is_refused(verb, action):
    """The current folder was meant by none: `ship STORE ""` shipped into it, `investigate -o ""` wrote no page, `probe
    -o ""` stored nothing, and `live --tls-cert "" --tls-key ""` served without TLS, all without an error."""
    assert refused(*up_to(verb, action), "").endswith(": an empty name")


@pytest.mark.parametrize("words", ["lo", "-i lo", "-r a.pcap"])
def test_an_empty_filter_is_no_name(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.pcap").touch()
    for verb in ["record", *words.split(), "-o", "s", ""], ["record", *words.split(), "", "-o", "s"]:
        assert inputs_of(build_parser("record").parse_args(verb)) == ([words.split()[-1]], "")
    with pytest.raises(UsageError, match="an empty name of a file or interface"):
        inputs_of(build_parser("record").parse_args(["record", "", "-o", "s"]))


@pytest.mark.parametrize(
    ("verb", "action"),
    [option for option in OPTIONS if WRITTEN.intersection(option[1].option_strings)],
    ids=lambda value: getattr(value, "dest", value),
)
def test_standard_output_is_not_a_file(verb, action):
    """`export -o -` wrote a file of that name."""
    assert refused(*up_to(verb, action), "-").endswith(": standard output is not supported")


def test_every_verb_that_writes_is_covered():
    found = {action.metavar for _, action in LOCAL_NAMED}
    assert {"STORE", "DIR", "FILE", "FOLDER", "NEW", "STORE|CAPTURE"} <= found and len(LOCAL_NAMED) > 50
    elsewhere = [verb for verb, action in OPTIONS if "-o" in action.option_strings and not LOCAL.match(action.metavar)]
    assert elsewhere == ["fleet detect"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_store_at_an_address_is_refused(address, tmp_path, monkeypatch):
    """Recordings into s3://bucket could not be queried, and `check` reported all of them as damaged."""
    monkeypatch.chdir(tmp_path)
    for use in (StoreFolder.open, StoreFolder.create):
        with pytest.raises(MburstError, match="an address in place of"):
            use(address)
    with pytest.raises(MburstError, match="an address in place of"), StoreFolder.created(address):
        pass
    with pytest.raises(MburstError, match="an address in place of"):
        files.write(Path(address), "", "it", "")
    assert not list(tmp_path.iterdir())


def test_names_with_a_colon_are_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a:b", "C:/store", str(tmp_path / "s3:" / "x")):
        assert StoreFolder.create(name).path == Path(name)


@pytest.mark.parametrize(("words", "known"), [([], "record"), (["fleet"], "detect")])
def test_a_call_without_a_verb_lists_the_verbs(words, known, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and not out and f"\n    {known} " in err
