"""The options of Capture are one table in capture/python/options.c, which _engine.pyi documents."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from capture_builder import pcap_header
from places import ROOT
from tracked import tracked
from verb_parsers import parsers

import mburst
from mburst.api import asked
from mburst.api.store import Store
from mburst.capture import Capture
from mburst.errors import UsageError
from mburst.services.record import backends


def documented() -> dict[str, Any]:
    """Returns the options by name, with their defaults, as _engine.pyi has them."""
    [stub] = [
        node
        for node in ast.parse((ROOT / "capture" / "_engine.pyi").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "Capture"
    ]
    [init] = [node for node in stub.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    defaults = [ast.literal_eval(default) for default in init.args.kw_defaults if default]
    return dict(zip((argument.arg for argument in init.args.kwonlyargs), defaults, strict=True))


@pytest.fixture
def empty(tmp_path: Path) -> str:
    path = tmp_path / "empty.pcap"
    path.write_bytes(pcap_header())
    return str(path)


def test_exactly_the_documented_options_are_accepted(empty: str) -> None:
    options = {name: [] if default is ... else default for name, default in documented().items()}
    Capture([empty], **options).close()
    for name, value in options.items():
        Capture([empty], **{name: value}).close()
    table = (ROOT / "capture" / "python" / "options.c").read_text().split("} table[] = {")[1].split("};")[0]
    assert [line.split('"')[1] for line in table.strip().splitlines()] == list(options)
    with pytest.raises(TypeError, match="no option 'bins_ns'"):
        Capture([empty], bins_ns=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "options",
    [
        {"bin_ns": 0},
        {"bin_ns": 2**63},
        {"source_bin_ns": -1},
        {"window_ns": -1},
        {"max_sources": 0},
        {"max_sources": -1},
        {"max_sources": 2**32},
        {"spread_bps": -1},
        {"ring_bytes": 2**64},
        {"threads": 2**32},
        {"directions": "up"},
        {"stamps": "best"},
        {"local": ["here"]},
        {"local": ["10.0.0.1"] * 65},
        {"bin_ns": 1, "window_ns": 2**40},
    ],
)
def test_values_out_of_range_are_refused(empty: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Capture([empty], **options)


@pytest.mark.parametrize(
    "options", [{"bin_ns": "1ms"}, {"filter": 7}, {"local": "10.0.0.1"}, {"stamps": None}, {"snaplen": 1.5}]
)
def test_values_of_another_type_are_refused(empty: str, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Capture([empty], **options)


def engine_backends() -> list[str]:
    """Returns the names in the table of backends."""
    [table] = re.findall(r"mb_backends\[\] = \{(.*?)NULL", (ROOT / "capture/backend/backend.c").read_text(), re.DOTALL)
    return re.findall(r"&mb_backend_(\w+)", table)


def test_every_choice_of_backends_offers_those_of_the_engine() -> None:
    [option] = [action for action in parsers()["mburst record"]._actions if "--backend" in action.option_strings]
    assert list(option.choices) == list(get_args(backends.Backend)) == ["auto", *engine_backends()]
    assert get_type_hints(asked.RecordOptions)["backend"] == backends.Backend


def test_a_recorder_knows_facts_only_of_backends_that_there_are() -> None:
    facts = {name: value for name, value in vars(backends).items() if name.isupper()}
    assert len(facts) > 3
    for name, known in facts.items():
        assert set(known) <= set(engine_backends()), name


def test_options_of_commands_and_of_python_offer_the_same_words() -> None:
    """Python's words are the types in mburst.api.asked."""
    words: dict[str, list[tuple[str, ...]]] = {}
    for kind in (value for name, value in vars(asked).items() if name.endswith("Options")):
        for name, hint in get_type_hints(kind).items():
            for one in (hint, *get_args(hint)):
                if get_origin(one) is Literal:
                    words.setdefault(name, []).append(get_args(one))
    met = {
        action.dest: tuple(action.choices) in words[action.dest]
        for parser in parsers().values()
        for action in parser._actions
        if action.choices and action.dest in words
    }
    assert met == dict.fromkeys(words, True)


OF_WORDS = [
    (takes, kind, name)
    for takes, kind in (
        (mburst.record, asked.RecordOptions),
        (Store.recordings, asked.RecordingOptions),
        (Store.utilization, asked.UtilizationOptions),
        (Store.bursts, asked.BurstOptions),
        (Store.compare, asked.ComparisonOptions),
        (Store.rack_report, asked.RackReportOptions),
    )
    for name, hint in get_type_hints(kind).items()
    if any(get_origin(one) is Literal for one in (hint, *get_args(hint)))
]


@pytest.mark.parametrize(("method", "kind", "name"), OF_WORDS, ids=lambda given: getattr(given, "__name__", given))
@pytest.mark.parametrize("value", ["x", "", 1, ["in"]], ids=repr)
def test_an_option_of_python_has_a_word_of_its_type(method: Any, kind: type[Any], name: str, value: object) -> None:
    """An unknown `measure` was a KeyError, and `direction="both"` selected nothing."""
    hint = get_type_hints(kind)[name]
    [words] = [get_args(one) for one in (hint, *get_args(hint)) if get_origin(one) is Literal]
    with pytest.raises(UsageError, match=re.escape(f"invalid {name} {value!r}")) as failure:
        method(None, **{name: value})
    assert failure.value.hint == f"write {', '.join(words[:-1])} or {words[-1]}"


def test_functions_that_a_backend_may_lack_are_called_by_those_that_check_it() -> None:
    """A backend without a notice ended the recorder by a segmentation fault."""
    header = "capture/backend/backend.h"
    checked = set(re.findall(r"ops->(\w+) (?:\?|&&) ", (ROOT / header).read_text()))
    assert {"look", "loss", "notice", "begun", "since"} <= checked
    for path in set(tracked("*.c", "*.h")) - {Path(header)}:
        assert not checked & set(re.findall(r"ops->(\w+)\(", (ROOT / path).read_text())), path
