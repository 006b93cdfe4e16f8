"""The bits of quality are the same in SQL, in Python and in the engine. Neither the bits nor the defaults of a burst
are written as numbers anywhere else."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from places import ROOT

from mburst.quality import Quality
from mburst.sql import in_memory


def test_python_has_the_bits_of_the_store():
    with in_memory(1) as con:
        listed = con.execute("SELECT name, bit FROM quality ORDER BY bit").fetchall()
    listed_bits = {name.replace("-", "_").replace("µ", "u").upper(): bit for name, bit in listed}
    assert listed_bits == {flag.name: flag.value for flag in Quality}


def test_the_engine_has_the_same():
    header = (ROOT / "capture" / "frame.h").read_text("utf-8")
    bits = {name: 1 << int(shift) for name, shift in re.findall(r"MB_QUALITY_(\w+) = 1 << (\d+)", header)}
    assert bits and bits == {name: Quality[name].value for name in bits}


def test_the_macro_means_the_bit_impossible():
    with in_memory(1) as con:
        doubted = con.execute("SELECT list(bit) FROM quality WHERE NOT believable(bit)").fetchall()
    assert doubted == [([Quality.IMPOSSIBLE],)]


@cache
def code() -> list[tuple[str, ast.AST]]:
    """Returns every AST node of the product's Python, with its file."""
    paths = [
        path
        for room in ("analysis", "dashboards", "sql", "telemetry", "mburst")
        for path in (ROOT / room).rglob("*.py")
    ]
    return [(str(path.relative_to(ROOT)), node) for path in paths for node in ast.walk(ast.parse(path.read_text()))]


def is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def test_a_burst_has_one_default_threshold_and_join() -> None:
    """The defaults are those of bursts.sql, which tests/api/test_one_answer.py compares with BurstDefinition."""
    widths, thresholds = [], []
    for path, node in code():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = node.left, node.right
            named = any("width" in ast.unparse(side) or "bin_ns" in ast.unparse(side) for side in sides)
            if named and any(isinstance(side, ast.Constant) and side.value in (5, 6) for side in sides):
                widths.append(path)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and is_number(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            thresholds += [path for target in targets if ast.unparse(target).lower().endswith("threshold")]
        elif isinstance(node, ast.keyword) and node.arg == "threshold" and is_number(node.value):
            thresholds.append(path)
        elif isinstance(node, ast.arguments):
            named = zip(
                node.args[len(node.args) - len(node.defaults) :] + node.kwonlyargs,
                [*node.defaults, *node.kw_defaults],
                strict=True,
            )
            thresholds += [path for name, default in named if "threshold" in name.arg and is_number(default)]
    assert (widths, thresholds) == ([], [])
    texts = {path.name: re.sub(r"--.*", "", path.read_text()) for path in (ROOT / "sql").rglob("*.sql")}
    assert [name for name, text in texts.items() if "getvariable('threshold')" in text or "5 * width_ns" in text] == [
        "bursts.sql"
    ]
    assert "THRESHOLD, JOINED_BINS = 0.5, 5" in Path(ROOT / "analysis" / "bursts" / "find.py").read_text()


def test_bits_of_quality_have_names() -> None:
    """This is about Python. In SQL the macro `believable` and bursts.sql each have one number, which the tests above
    check."""
    bare = [
        path
        for path, node in code()
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitAnd)
        and "quality" in ast.unparse(node.left)
        and is_number(node.right)
    ]
    assert bare == []
    written = [
        path
        for path, node in code()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"quality\s*&\s*\d", node.value)
    ]
    assert written == []
