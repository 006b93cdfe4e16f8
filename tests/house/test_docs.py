"""The pages match the product: tables and columns, the worked example, links, and the output of commands."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from calm import Attempts
from captures import CASES, RECORDED, SAMPLE, CacheServer
from places import ROOMS, ROOT
from storelib import write
from tracked import tracked

from mburst.__main__ import main
from mburst.analysis.bursts.find import find_bursts
from mburst.fleet.results import PORT_TABLES, TABLES
from mburst.sql import StoreFolder
from mburst.sql.tables import MODEL, SCHEMA, columns, schema_sql

MS = 1_000_000
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def tables(text: str) -> list[list[list[str]]]:
    """Returns the tables of a page, as rows of cells without their heads."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    bodies = [table.splitlines()[2:] for table in found]
    return [[[cell.strip() for cell in row.strip("|").split(" | ")] for row in body] for body in bodies]


def number(text: str) -> float:
    return float(text.replace(",", "").removesuffix(" %"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_schema_page_has_every_table_and_column() -> None:
    sections = re.split(r"^## ", (ROOT / "docs" / "schema.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    sections = [section for section in sections if section.split("\n", 1)[0] not in ("Views", *MODEL)]
    page_rows = {section.split("\n", 1)[0]: tables(section)[0] for section in sections}
    assert set(page_rows) == {path.stem for path in SCHEMA.glob("*.sql")}
    bits = re.findall(r"\((\d+),\s+'(.*?)',\s+'(.*)'\)", schema_sql("quality"))
    assert page_rows.pop("quality") == [[bit, name, meaning.replace("''", "'")] for bit, name, meaning in bits]
    for table, rows in page_rows.items():
        assert [row[:2] for row in rows] == [[column.name, column.type] for column in columns(table)], table


def test_schema_page_has_the_current_views(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "schema.md").read_text("utf-8")
    writer = runpy.run_path(str(ROOT / "docs" / "write_schema.py"))
    assert writer["written"](page) == page, "make docs"
    con = StoreFolder.create(tmp_path / "store").connect()
    for view in MODEL:
        described = [row[:2] for row in con.execute(f"DESCRIBE {view}").fetchall()]
        assert described == [column[:2] for column in writer["columns"](view)], view


def test_operations_page_has_the_current_deliveries() -> None:
    page = (ROOT / "docs" / "operate.md").read_text("utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "write_deliveries.py"))["written"](page) == page, "make docs"


def test_the_tables_for_trino_match_the_results() -> None:
    statements = (ROOT / "docs" / "trino.sql").read_text("utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "write_trino.py"))["written"]() == statements, "make docs"
    tables = re.findall(r"^CREATE TABLE hive\.mburst\.(\w+) \($", statements, re.MULTILINE)
    assert sorted(tables) == sorted((*TABLES, *PORT_TABLES))


def test_the_worked_example(tmp_path: Path) -> None:
    """Bins and senders of docs/bursts.md go through the store and give the bursts that the page states."""
    page = (ROOT / "docs" / "bursts.md").read_text("utf-8")
    bins, senders, stated = tables(page)[-3:]
    second = int(bins[-1][0])
    store = StoreFolder.create(tmp_path / "store")
    write(store, "recordings", {})
    write(store, "bins", *({"ts_ns": int(at) * MS, "wire_bytes": int(number(sent))} for at, sent, *_ in bins))
    rows = []
    for source, sent, onset in senders:
        first = round(float(onset) * MS)
        starts = range(first // MS * MS, 5 * MS, MS)
        rows += [
            {
                "ts_ns": start,
                "source": source,
                "bytes": int(number(sent)) // len(starts),
                "first_ns": max(start, first),
                "last_ns": start + MS - 1,
            }
            for start in starts
        ]
    rows.append(
        {
            "ts_ns": second * MS,
            "source": senders[0][0],
            "bytes": 98_000,
            "first_ns": second * MS,
            "last_ns": (second + 1) * MS - 1,
        }
    )
    write(store, "sources", *rows)
    bursts = find_bursts(store.connect())
    assert [burst["start_ns"] for burst in bursts] == [int(bins[1][0]) * MS, second * MS]
    for field, *values in stated:
        for burst, value in zip(bursts, values, strict=True):
            assert value == format(burst[field], {str: "", float: ".3f", int: ","}[type(burst[field])])
    for _, sent, share, _ in bins:
        assert number(share) == pytest.approx(number(sent) / 1250)


# --- what commands print ----------------------------------------------------------------------------------------------


def blocks(page: str = "README.md") -> list[str]:
    """Returns the blocks of a page that show commands with their output, in order."""
    return re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def transcripts(page: str) -> list[tuple[str, str]]:
    """Returns (command, output) for each of those blocks, except that of the demo, which runs other commands itself."""
    shown = "".join(block for block in blocks(page) if not block.startswith("$ mburst demo"))
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)


def demo(command: str) -> str:
    """Returns the output of the demo, run by COMMAND."""
    [output] = [output for first, _, output in (block.partition("\n") for block in blocks()) if first == f"$ {command}"]
    return output


def matches(printed: str, stated: str) -> bool:
    """Returns whether two texts are the same, if a line "…" stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + "\n" for line in stated.splitlines())
    return re.fullmatch(pattern, printed) is not None


def test_the_output_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--simulate"]) == 0
    output = capfd.readouterr().out
    assert matches(output, demo("mburst demo --simulate"))
    gallery = runpy.run_path(str(ROOT / "docs" / "gallery.py"))
    assert gallery["terminal"](output) == (ROOT / "docs" / "gallery" / "terminal.svg").read_text("utf-8"), (
        "make gallery"
    )
    picture = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    drawn = picture["draw"](*picture["read"](str(tmp_path / "demo" / "store")))
    assert frame(drawn) == frame((ROOT / "docs" / "cache-server.svg").read_text("utf-8")), "draw it: docs/picture.py"


def test_the_output_of_the_live_demo(
    can_build: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Numbers and the answer of the investigation may differ, since they depend on the machine. On a busy machine the
    demo reports what disturbed it."""
    monkeypatch.chdir(tmp_path)
    stated, _, answer = demo("mburst demo").partition("$ mburst investigate demo/store\n")
    assert answer

    def run() -> str:
        assert main(["demo", "--duration", "4s"]) == 0
        return capfd.readouterr().out

    def check(printed: str) -> None:
        assert matches(without_numbers(printed), without_numbers(stated) + "…\n"), printed

    Attempts(run, run).held(check)


def without_numbers(text: str) -> str:
    """Returns a text with each quantity as "#", whatever its unit, and "bursts" always in the plural."""
    text = re.sub(r"mb-[\w-]+-(cache|api|tor)", r"mb-\1", text)
    text = re.sub(r"\bburst\b", "bursts", text)
    text = re.sub(r"\d[\d.,]*\d|\d", "#", text)
    text = re.sub(r"# (?:ns|µs|ms|s|B|kB|MB|GB)\b", "#", text)
    return re.sub(r"# to #|# bursts?\b", "#", text)


def frame(picture: str) -> str:
    """Returns a picture without its curves, whose points may differ in the last digit between machines."""
    return re.sub(r' d="[^"]*"', "", picture)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_of_the_investigation(
    case: CacheServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The README's commands run in a clone; those of docs/recorded-case.md run in the folder of the recording."""
    page = {SAMPLE: "README.md", RECORDED: "docs/recorded-case.md"}[case]
    for path in [ROOT / "examples"] if case == SAMPLE else case.folder.iterdir():
        (tmp_path / path.name).symlink_to(path.resolve())
    monkeypatch.chdir(tmp_path)
    for command, output in transcripts(page):
        assert main(shlex.split(command)[1:]) == 0
        printed = "".join(line.rstrip() + "\n" for line in capfd.readouterr().out.splitlines())
        assert matches(printed, output), f"{command} prints:\n{printed}"


def test_the_page_on_backends_has_every_function() -> None:
    text = (ROOT / "capture" / "backend" / "backend.h").read_text("utf-8")
    contract = text.split("struct mb_backend_ops {")[1].split("\n};")[0]
    functions = set(re.findall(r"\(\*(\w+)\)\(", contract))
    page = (ROOT / "docs" / "add-a-backend.md").read_text("utf-8")
    assert "open" in functions and functions - set(re.findall(r"`(\w+)`", page)) == set()


def test_modules_that_pages_name_exist() -> None:
    """A module is named by its path from the root or by the end of that path; a page of the documentation may leave the
    room out."""
    there = [f"/{path}" for path in tracked()]
    named = re.compile(r"(?<![\w*<{./-])((?:[\w-]+/)*[a-z_]\w*\.(?:py|sql))\b(?!\()")
    pages = [ROOT / "SECURITY.md", *(page for page in PAGES if page.name != "CHANGELOG.md")]
    lacking = [
        (page.name, name)
        for page in pages
        for name in named.findall(page.read_text("utf-8"))
        if not any(path.endswith(f"/{name}") for path in there) and name != "mburst.sql"
    ]
    assert lacking == []


ARCHITECTURE = ROOT / "docs" / "architecture.md"
PLACED = re.compile(r"(?<![\w./-])(?:[\w-]+/)*(?:[\w-]+/|[\w-]+(?:\.bpf)?\.(?:c|h|py|sql|toml)\b)")


def named_in_tables() -> list[Path]:
    """Returns what the tables of architecture.md name, each in the folder of its row, relative to the root. The head of
    a table states its folder ("in capture/"). If a row begins with a folder, the other names in it are in that folder,
    and so are the rows below it that begin with "⤷". Tables of other folders ("in a store") are left out."""
    named = []
    for table in re.findall(r"(?:^\|.*\|\n)+", ARCHITECTURE.read_text("utf-8"), re.MULTILINE):
        head, _, *rows = table.splitlines()
        if head.startswith("| in a store |"):
            continue
        place = re.match(r"\| in ((?:\w+/)+) \|", head)
        assert place, f"{head}: its first cell must be `in FOLDER/`"
        top = above = Path(place[1])
        for row in rows:
            folder = above if "⤷" in row else top
            names = PLACED.findall(row)
            assert names, f"{row}: names no file or folder"
            if names[0].endswith("/"):
                folder /= names.pop(0)
            if "⤷" not in row:
                above = folder
            named += [folder, *(folder / name for name in names)]
    return named


def test_tables_of_the_architecture_name_what_is_in_their_folders() -> None:
    named = named_in_tables()
    assert len(named) > 100
    assert [str(path) for path in named if not (ROOT / path).exists()] == []


def test_the_architecture_names_every_folder() -> None:
    page = ARCHITECTURE.read_text("utf-8")
    places = {
        path.parent for path in tracked(*(f"{room}/*.py" for room in (*ROOMS, "mburst")), "capture/*.c", "sql/*.sql")
    }
    assert [str(place) for place in sorted(places) if f"{place.name}/" not in page] == []


def test_the_page_on_tests_has_each_of_their_folders() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Tests")[1]
    named = [name for row in tables(section)[0] for name in re.findall(r"`(\w+)/`", row[0])]
    assert sorted(named) == sorted({path.parts[1] for path in tracked("tests/*/*")})


DECISIONS = ROOT / "docs" / "decisions"


def test_decisions_have_their_parts_and_are_listed_by_their_titles() -> None:
    """A decision has context, decision, alternatives, and consequences with the test that holds it. Each decision is a
    line of the index, and architecture.md links to it."""
    architecture = ARCHITECTURE.read_text("utf-8")
    titles = {}
    for path in DECISIONS.glob("*.md"):
        text = path.read_text("utf-8")
        if path.name != "README.md":
            titles[path.name] = text.split("\n", 1)[0].removeprefix("# ")
            heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
            assert heads == ["Context", "Decision", "Alternatives", "Consequences"], path.name
            assert re.search(r"test_\w+\.py|tests/rack/", text.split("## Consequences")[1]), path.name
            assert f"(decisions/{path.name})" in architecture, path.name
    listed = re.findall(r"^- \[(.*)\]\((.*)\)$", (DECISIONS / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(titles) and {name: title for title, name in listed} == titles
