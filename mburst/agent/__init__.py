"""What runs unattended: the parts of one configuration file, reports when they are due, their delivery, and metrics."""

from pathlib import Path

EXAMPLE = Path(__file__).parent / "mburst.toml"  # a link to examples/mburst.toml
