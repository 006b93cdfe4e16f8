"""A pytest plugin (-p asan_engine): tests in this process use the engine that `make asan` builds."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

from places import ROOT

NAME = "mburst.capture._engine"
[PATH] = (ROOT / "build" / "asan").rglob("_engine*.so")


def load() -> None:
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(PATH))
    spec = importlib.util.spec_from_file_location(NAME, PATH, loader=loader)
    assert spec
    engine = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = engine
    loader.exec_module(engine)


def pytest_report_header() -> str:
    with open("/proc/self/maps") as maps:
        assert str(PATH) in maps.read()
    return f"engine: {PATH}"


load()
del os.environ["LD_PRELOAD"]  # the other programs run without it: some hang in its start-up code, before setlocale()
