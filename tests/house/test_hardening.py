"""The modules in C are compiled with hardening, since they parse input of strangers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig

import pytest

import mburst.capture._engine
import mburst.sql.compaction._seconds
import mburst.telemetry.probe._exchange

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf")
MODULES = [
    mburst.capture._engine.__file__,
    mburst.telemetry.probe._exchange.__file__,
    mburst.sql.compaction._seconds.__file__,
]


def readelf(option: str, path: str) -> str:
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", MODULES)
def test_calls_are_resolved_at_load_time_and_then_read_only(path):
    dynamic, segments = readelf("-d", path), readelf("-l", path)
    assert "BIND_NOW" in dynamic or re.search(r"FLAGS_1.*\bNOW\b", dynamic)
    assert "GNU_RELRO" in segments
    [stack] = [line for line in segments.splitlines() if "GNU_STACK" in line]
    assert not re.search(r"\bR?WE\b", stack)


@pytest.mark.parametrize("path", MODULES)
def test_nothing_is_loaded_from_the_folder_of_the_python_that_built_it(path):
    paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", readelf("-d", path))
    assert sysconfig.get_config_var("LIBDIR") not in ":".join(paths)


@pytest.mark.parametrize("path", MODULES)
def test_the_stack_is_checked(path):
    assert "__stack_chk_fail" in readelf("--dyn-syms", path)


def test_copies_of_known_size_are_checked():
    assert re.search(r"__(memcpy|snprintf|vsnprintf|sprintf|read)_chk\b", readelf("--dyn-syms", MODULES[0]))
