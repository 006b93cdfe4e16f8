"""Paths of the tree, for tests."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("capture", "telemetry", "sql", "analysis", "dashboards")  # folders that are packages of mburst
