"""Which tests run where. Skips because of load are printed, and many of them fail CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import selection
from places import ROOT
from skips import HANDFUL, LOAD
from untouched import differing

SKIPPING = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_measured(number):
    pytest.skip("{reason}a hypervisor took 50 %")
"""
WRITING = """
from pathlib import Path

def test_writes_where_it_is_started():
    Path("25%").write_text("")
"""
GIVEN = """
import pytest
from hypothesis import given, settings, strategies as st

seen = []

@settings(max_examples=7, database=None)
@given(st.integers())
def test_own(number):
    seen.append(number)

def test_how_many():
    print("examples:", len(seen))
    seen.clear()

@pytest.mark.costly
@settings(max_examples=7, database=None)
@given(st.integers())
def test_costly(number):
    seen.append(number)

def test_how_many_of_the_costly():
    print("costly:", len(seen))
"""


def run(folder: Path, text: str, *options: str, **environment: str) -> tuple[int, str]:
    """Returns the exit code and output of a run of one file of tests."""
    (folder / "test_some.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-ra",
        "-p",
        "skips",
        "-p",
        "profiles",
        "-p",
        "untouched",
        *options,
        folder,
    ]
    others = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI", "HYPOTHESIS"))}
    # Plugins that these tests do not need take longer to import than the tests to run.
    others |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,_hypothesis_pytestplugin"}
    everything = {**others, "PYTHONPATH": str(ROOT / "tests" / "lib"), **environment}
    done = subprocess.run(command, cwd=folder, env=everything, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("count", "ci", "workers", "code"),
    [
        (HANDFUL, "true", "0", 0),
        (HANDFUL + 1, "true", "0", 1),
        (HANDFUL + 1, "true", "2", 1),
        (HANDFUL + 1, "", "0", 0),
    ],
)
def test_more_than_a_handful_of_skips_for_load_fail_ci(
    tmp_path: Path, count: int, ci: str, workers: str, code: int
) -> None:
    returned, printed = run(tmp_path, SKIPPING.format(count=count, reason=LOAD), "-n", workers, CI=ci)
    assert returned == code, printed
    assert f"{count} tests, of at most {HANDFUL}" in printed
    assert printed.count(f"{LOAD}a hypervisor took 50 %") >= count  # each with its reason


def test_other_skips_are_printed_and_do_not_fail(tmp_path: Path) -> None:
    returned, printed = run(tmp_path, SKIPPING.format(count=9, reason="no room: "), CI="true")
    assert returned == 0
    assert "no room: a hypervisor took 50 %" in printed and "because of load" not in printed


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_files_left_in_the_tree_are_printed_and_fail_ci(tmp_path: Path, workers: str, ci: str, code: int) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(".*\n__pycache__\n")
    returned, printed = run(tmp_path, WRITING, "-n", workers, CI=ci)
    assert returned == code and "1 passed" in printed, printed
    assert printed.count("?? 25%\n") == 1 and "left in the tree" in printed
    returned, printed = run(tmp_path, WRITING, "-n", workers, CI=ci)
    assert returned == 0 and "left in the tree" not in printed  # it existed before this run
    (tmp_path / ".git").rename(tmp_path / "elsewhere")
    assert differing(tmp_path) == set()


@pytest.mark.parametrize(("profile", "examples", "costly"), [("ci", 7, 3), ("nightly", 70, 70)])
def test_a_profile_multiplies_the_examples(tmp_path: Path, profile: str, examples: int, costly: int) -> None:
    returned, printed = run(tmp_path, GIVEN, "-s", HYPOTHESIS_PROFILE=profile)
    assert returned == 0, printed
    assert f"examples: {examples}\n" in printed and f"costly: {costly}\n" in printed


def test_an_unknown_profile_is_one_line(tmp_path: Path) -> None:
    returned, printed = run(tmp_path, GIVEN, HYPOTHESIS_PROFILE="often")
    assert returned == 4 and "unknown HYPOTHESIS_PROFILE 'often' (there are ci, nightly)" in printed


@pytest.mark.parametrize(
    ("name", "test", "fixtures", "marks"),
    [
        ("analysis/test_new.py", "test_sums", set(), {"fast"}),
        ("analysis/test_new.py", "test_sums", {"lab"}, {"root"}),
        ("browser/test_new.py", "test_a_page", {"browser"}, {"browser"}),
        ("rack/test_new.py", "test_rates", {"can_build"}, {"alone", "root"}),
        ("lab/test_demo.py", "test_real_packets", {"can_build"}, {"alone", "root"}),
        ("telemetry/test_probe.py", "test_losses", {"lab"}, {"timed", "root"}),
        ("cli/test_probe_verb.py", "test_rates[few]", set(), {"fast"}),
        ("lab/test_demo.py", "test_wrong_usage_touches_nothing[soon]", set(), {"fast"}),
    ],
)
def test_a_test_is_marked_by_its_place_and_its_fixtures(
    name: str, test: str, fixtures: set[str], marks: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "costs", dict)
    assert selection.marks_of(name, test, fixtures) == marks


def test_costs_name_existing_files_and_decide_which_are_slow() -> None:
    assert [name for name in selection.costs() if not (ROOT / "tests" / name).exists()] == []
    costliest = max(selection.costs(), key=selection.costs().__getitem__)
    assert "slow" in selection.marks_of(costliest, "", set())


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("lab/test_demo.py", {"alone", "fast"}),
        ("rack/test_netlab.py", {"alone"}),
        ("cli/test_probe_verb.py", {"timed", "fast"}),
        ("analysis/test_new.py", {"fast"}),
    ],
)
def test_a_file_is_imported_if_one_of_its_tests_can_be_selected(
    name: str, marks: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "costs", dict)
    assert {mark for mark in ("alone", "timed", "fast") if selection.can_have(name, mark)} == marks


def test_every_test_is_run_once() -> None:
    """`make test` runs `not alone and not timed`, then each of them; files without selected tests are left out before
    they are imported."""
    parts = [collected("-m", mark) for mark in ("alone", "timed", "not alone and not timed")]
    assert all(parts) and sum(map(len, parts)) == len(set.union(*parts))
    assert set.union(*parts) == collected()


def collected(*options: str) -> set[str]:
    """Returns the tests of the files that can have tests that run alone, or beside each other only."""
    names = {path: selection.name_of(path) for path in (ROOT / "tests").rglob("test_*.py")}
    files = [path for path, name in names.items() if any(selection.can_have(name, mark) for mark in ("alone", "timed"))]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}
