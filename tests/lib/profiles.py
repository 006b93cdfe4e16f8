"""How many examples hypothesis tries: HYPOTHESIS_PROFILE=nightly tries ten times as many of each test as CI does.

No test fails because an example took long: that is the machine's load.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import is_hypothesis_test, settings

settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")

TIMES = {"ci": 1, "nightly": 10}
_SETTINGS = "_hypothesis_internal_use_settings"  # where hypothesis's own plugin for pytest finds and changes them too


def times() -> int:
    """How often the number of examples that a test states is taken."""
    name = os.environ.get("HYPOTHESIS_PROFILE", "ci")
    if name not in TIMES:
        raise pytest.UsageError(f"unknown HYPOTHESIS_PROFILE {name!r} (there are {', '.join(TIMES)})")
    return TIMES[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each hypothesis test its number of examples."""
    if (factor := times()) == 1:
        return
    tests = {test for item in items if is_hypothesis_test(test := getattr(item, "obj", None))}
    for test in tests:
        own = getattr(test, _SETTINGS, settings.default)
        setattr(test, _SETTINGS, settings(own, max_examples=own.max_examples * factor))
