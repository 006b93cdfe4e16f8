"""release/libraries, with programs for apt-get and make: it ends with what failed first, and is not ready then."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from places import ROOT

SOURCES = ("zlib", "libzstd", "xz", "libpcap", "elfutils", "libbpf")
PROGRAMS = {
    "apt-get": f"""
case "$FAILS $* " in
"apt-get "*" source "*) echo "E: Failed to fetch" >&2; exit 100 ;;
"archive "*" APT::Update::Error-Mode=any "*" update "*) echo "E: Failed to fetch" >&2; exit 100 ;;
"archive "*" update "*) echo "W: Some index files failed to download. They have been ignored" >&2 ;;
esac
for name in {" ".join(SOURCES)}; do
    mkdir -p $name-1/debian $name-1/lib $name-1/src
    echo "$name" >$name-1/debian/copyright
    printf 'Source: %s\\nVersion: 1\\n' $name >$name.dsc
    printf '#!/bin/sh\\n:\\n' >$name-1/configure
    chmod +x $name-1/configure
done
""",
    "make": """
case $PWD in */$FAILS-1*) echo "make: $FAILS fails" >&2; exit 2 ;; esac
""",
    "install": "",
}


def build(folder: Path, fails: str) -> tuple[int, list[str], Path]:
    """Returns the exit code and the output of release/libraries with a failing program or source, and its folder."""
    (folder / "bin").mkdir()
    for name, text in PROGRAMS.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}")
        (folder / "bin" / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CFLAGS": "", "FAILS": fails}
    command = [ROOT / "release" / "libraries", folder / "libraries"]
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, "TMPDIR": str(folder)})
    assert not done.stdout and not [*folder.glob("tmp.*")]
    return done.returncode, done.stderr.splitlines(), folder / "libraries"


def test_a_build_in_which_nothing_fails_is_ready(tmp_path: Path) -> None:
    code, printed, folder = build(tmp_path, "nothing")
    assert (code, printed) == (0, [])
    assert (folder / "ready").exists()
    assert (folder / "sources").read_text().split("\n")[0] == "elfutils 1"
    assert {path.name for path in (folder / "licenses").iterdir()} == {*SOURCES}


@pytest.mark.parametrize("fails", ["archive", "apt-get", *SOURCES])
def test_the_first_failure_ends_the_build_and_is_named_last(tmp_path: Path, fails: str) -> None:
    code, printed, folder = build(tmp_path, fails)
    assert code and not (folder / "ready").exists()
    assert printed[-2] == (f"make: {fails} fails" if fails in SOURCES else "E: Failed to fetch")
    assert printed[-1].startswith("release/libraries: cannot build the libraries")
