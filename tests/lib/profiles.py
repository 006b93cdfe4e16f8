"""The number of examples that hypothesis tries: as many as a test states, and a third of them in tests marked `costly`,
whose examples each make databases. HYPOTHESIS_PROFILE=nightly tries ten times as many as each test states.

No test fails because an example took long: that depends on the load of the machine.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import is_hypothesis_test, settings

settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")

TIMES = {"ci": 1, "nightly": 10}
COSTLY = {"ci": 3}  # one of this many examples that a costly test states is tried
_SETTINGS = "_hypothesis_internal_use_settings"  # where hypothesis's own plugin for pytest finds and changes them, too


def profile() -> str:
    """Returns the requested profile. Raises UsageError."""
    name = os.environ.get("HYPOTHESIS_PROFILE", "ci")
    if name not in TIMES:
        raise pytest.UsageError(f"unknown HYPOTHESIS_PROFILE {name!r} (there are {', '.join(TIMES)})")
    return name


def times() -> int:
    """Returns the factor for the number of examples that a test states."""
    return TIMES[profile()]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets the number of examples of each hypothesis test."""
    name = profile()
    tests = {
        test: item.get_closest_marker("costly") is not None
        for item in items
        if is_hypothesis_test(test := getattr(item, "obj", None))
    }
    for test, costly in tests.items():
        own = getattr(test, _SETTINGS, settings.default)
        examples = -(-own.max_examples * times() // (COSTLY.get(name, 1) if costly else 1))
        setattr(test, _SETTINGS, settings(own, max_examples=examples))
