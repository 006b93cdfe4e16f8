"""The packages that only some verbs need: extras of mburst, which may not be installed."""

from __future__ import annotations

import importlib.util

from .errors import MburstError


def lacking(what: str, package: str | None, extra: str) -> MburstError:
    """Returns the error for WHAT ("a trace needs") if PACKAGE of EXTRA is not installed, with how to get it."""
    return MburstError(f"{what} the extra `{extra}`: {package} is not installed", how_to_get(extra))


def how_to_get(extra: str) -> str:
    """Returns how to install EXTRA. Where mburst has no pip beside it, as in the Debian package, it can get none."""
    if importlib.util.find_spec("pip") is None:
        return f"no pip is here: `pip install 'mburst[{extra}]'` in a virtual environment of your own"
    return f"pip install 'mburst[{extra}]'"
