"""Words of a command line that no verb can use: each is one line that names it, of every verb and option."""

from __future__ import annotations

import os
import shutil

import pytest
from verb_parsers import parsers

from mburst.cli import build_parser
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder

OPTIONS = [
    (verb.removeprefix("mburst "), action)
    for verb, parser in parsers().items()
    for action in parser._actions
    if verb != "mburst" and action.option_strings and action.nargs != 0
]
NUMBERS = [(verb, action) for verb, action in OPTIONS if action.type is int]


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        build_parser(*words[:1]).parse_args(words)
    return str(caught.value)


def test_there_are_options():
    assert len(OPTIONS) > 150 and len(NUMBERS) > 12


@pytest.mark.parametrize(("verb", "action"), OPTIONS, ids=lambda value: getattr(value, "dest", value))
def test_two_hyphens_are_no_value(verb, action):
    """argparse makes an empty list of it."""
    option = action.option_strings[-1]
    assert refused(*verb.split(), f"{option}=--") == f"argument {option}: invalid value '--'"


@pytest.mark.parametrize("text", ["-1", "1.5", "", "x", "1e3", str(2**63), "9" * 5000])
@pytest.mark.parametrize(("verb", "action"), NUMBERS, ids=lambda value: getattr(value, "dest", value))
def test_numbers_are_whole_and_fit_a_column(verb, action, text):
    found = refused(*verb.split(), f"{action.option_strings[-1]}={text}")
    assert f"invalid number {text[:40]!r}" in found and len(found) < 300


def test_bytes_that_are_no_text_are_named():
    assert refused("bursts", "store", "--host", os.fsdecode(b"h\xff")) == "invalid argument h\\xff: not UTF-8"


def test_a_store_has_a_path_that_the_database_can_open(tmp_path):
    store = StoreFolder.create(tmp_path / "store").path
    moved = tmp_path / os.fsdecode(b"caf\xe9")
    shutil.move(store, moved)
    for use in (StoreFolder.open, StoreFolder.create):
        with pytest.raises(MburstError, match="has to be UTF-8"):
            use(moved)
