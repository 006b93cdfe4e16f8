"""Where things are, for tests."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
