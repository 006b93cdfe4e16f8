"""Writes the kinds of delivery and their keys into docs/operate.md (make docs); test_docs.py compares them."""

from __future__ import annotations

from pathlib import Path

from mburst.agent.delivery.destinations import COMMON
from mburst.agent.delivery.kind import SettingKey
from mburst.agent.delivery.kinds import KINDS

PAGE = Path(__file__).parent / "operate.md"
BEGIN = "<!-- kinds of delivery: `make docs` writes them from mburst/agent/delivery -->\n"
END = "<!-- end of the kinds of delivery -->\n"


def default(key: SettingKey) -> str:
    """The default as it would be written in the file."""
    if key.needed:
        return "required"
    return (
        ""
        if key.default in (None, "")
        else f'`"{key.default}"`'
        if isinstance(key.default, str)
        else f"`{key.default}`"
    )


def row(kind: str, key: SettingKey) -> str:
    """A key; one whose value is a secret is marked."""
    return f"| {kind} | `{key.name}` | {default(key)} | {key.about}{' (secret)' if key.secret else ''} |"


def tables() -> list[str]:
    """What arrives by each kind; the keys of each kind, and of all."""
    arrives = [f"| `{kind.name}` | {kind.about} |" for kind in KINDS.values()]
    keys = [row(f"`{kind.name}`", key) for kind in KINDS.values() for key in kind.keys]
    keys += [row("all", key) for key in COMMON]
    return [
        "| kind | what arrives |",
        "|---|---|",
        *arrives,
        "",
        "| kind | key | default | |",
        "|---|---|---|---|",
        *keys,
    ]


def written(page: str) -> str:
    """The page with the kinds as they are declared."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join(tables()) + "\n\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
