"""Unattended operation: the parts of one configuration file, scheduled reports, their delivery, and metrics."""

from pathlib import Path

EXAMPLE = Path(__file__).parent / "mburst.toml"  # a link to examples/mburst.toml
