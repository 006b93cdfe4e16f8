"""The options of Capture are one table in capture/python/options.c, which _engine.pyi documents."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from capture_builder import pcap_header
from places import ROOT
from verb_parsers import parsers

from mburst.api import asked
from mburst.capture import Capture


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


def test_every_choice_of_backends_offers_those_of_the_engine() -> None:
    [table] = re.findall(r"mb_backends\[\] = \{(.*?)NULL", (ROOT / "capture/backend/backend.c").read_text(), re.DOTALL)
    engine = ["auto", *re.findall(r"&mb_backend_(\w+)", table)]
    [option] = [action for action in parsers()["mburst record"]._actions if "--backend" in action.option_strings]
    assert option.choices == engine
    assert list(get_args(get_type_hints(asked.RecordOptions)["backend"])) == engine
