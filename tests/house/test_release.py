"""The conditions that release/check puts on a tree before `make release` makes packages of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

import mburst


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that is ready for a release."""
    (tmp_path / "mburst").mkdir()
    (tmp_path / "mburst" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.2.0 - 2026-11-24\n\n## 0.1.0 - 2026-10-01\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Begin")
    git(tmp_path, "tag", "v0.2.0")
    return tmp_path


def check(tree: Path) -> list[str]:
    """Returns the output of release/check."""
    done = subprocess.run([sys.executable, ROOT / "release" / "check", tree], capture_output=True, text=True)
    assert done.returncode == bool(done.stderr) and not done.stdout
    return done.stderr.splitlines()


def test_a_tree_that_is_ready(tree: Path) -> None:
    assert check(tree) == []


def test_a_tree_with_uncommitted_changes(tree: Path) -> None:
    (tree / "new").touch()
    assert check(tree) == ["release: git: changed or new files: 1 (commit or remove them)"]


def test_a_tree_that_is_not_a_clone(tree: Path) -> None:
    (tree / ".git").rename(tree / "elsewhere")
    [line] = check(tree)
    assert line.startswith("release: fatal: not a git repository") and line.endswith("(a release is made of a clone)")


def test_a_commit_without_the_tag(tree: Path) -> None:
    git(tree, "commit", "--allow-empty", "-qm", "Go on")
    assert check(tree) == ["release: git: this commit does not have the tag v0.2.0 (git tag -s v0.2.0)"]


@pytest.mark.parametrize(
    ("section", "reason"), [("0.2.0 - unreleased", "0.2.0 is unreleased"), ("0.1.9 - 2026-11-24", "")]
)
def test_a_changelog_without_the_version_and_its_day(tree: Path, section: str, reason: str) -> None:
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## {section}\n")
    git(tree, "commit", "-qam", "Write")
    git(tree, "tag", "-f", "v0.2.0")
    [line] = check(tree)
    assert line.startswith(f"release: CHANGELOG.md: {reason or 'the newest section is not of 0.2.0'}")


def test_this_tree_has_one_version_and_its_section() -> None:
    newest = re.search(r"^## (\S+) - ", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert newest and newest[1] == mburst.__version__
