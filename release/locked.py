"""Prints what a wheel with its extras needs, with the hashes of a lock: locked.py PYTHON WHEEL EXTRAS LOCK.

pip finds for that Python which packages these are; versions and hashes are the lock's.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ENTRY = re.compile(r"^([\w.-]+)(==[^\\\n]*?)( \\\n(?:    --hash=.*\n?)+)", re.M)


def main(python: str, wheel: str, extras: str, lock: str) -> None:
    """Print them as a requirements file."""
    entries = ENTRY.findall(Path(lock).read_text(encoding="utf-8"))
    needed = resolved(python, f"{wheel}[{extras}]", [name + version for name, version, _ in entries])
    print(*("".join(entry) for entry in entries if normalized(entry[0]) in needed), sep="", end="")
    missing = needed - {normalized(name) for name, *_ in entries}
    if missing:
        sys.exit(f"{lock} lacks {', '.join(sorted(missing))} (make lock)")


def resolved(python: str, requirement: str, versions: list[str]) -> set[str]:
    """The names of all packages that a wheel needs, without its own."""
    with tempfile.TemporaryDirectory() as folder:
        constraints, report = Path(folder, "versions.txt"), Path(folder, "report.json")
        constraints.write_text("\n".join(versions), encoding="utf-8")
        words = [
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            report,
            "--constraint",
            constraints,
        ]
        subprocess.run([sys.executable, "-m", "pip", "--python", python, *words, requirement], check=True)
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {normalized(item["metadata"]["name"]) for item in installed if not item["is_direct"]}


def normalized(name: str) -> str:
    """The name as the index has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(*sys.argv[1:])
