"""The tree matches docs/architecture.md: links, package mapping, and which room may import which."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from building import compiled
from places import ROOMS, ROOT
from tracked import tracked

# The rooms that each room may import.
ALLOWED = {
    "process.alive": set(),
    "columns": set(),
    "errors": set(),
    "ethernet": set(),
    "extras": {"errors"},
    "machine": set(),
    "process.interrupting": set(),
    "kept": set(),
    "messages": {"names"},
    "names": set(),
    "quality": set(),
    "senders": {"names", "units"},
    "sent_burst": set(),
    "process.shortage": {"errors"},
    "process.binding": {"errors"},
    "units": {"errors"},
    "temporary": set(),
    "files": {"errors", "temporary"},
    "process.workers": {"errors"},
    "capture": {"errors", "units"},
    "telemetry": {
        "process.alive",
        "process.binding",
        "errors",
        "ethernet",
        "extras",
        "files",
        "quality",
        "sent_burst",
        "process.shortage",
        "temporary",
        "units",
    },
    "sql": {"errors", "files", "process.interrupting", "kept", "machine", "messages", "process.shortage", "units"},
    "analysis": {"errors", "ethernet", "machine", "quality", "sent_burst", "process.shortage", "units", "sql"},
    "dashboards": {
        "columns",
        "errors",
        "ethernet",
        "extras",
        "files",
        "kept",
        "names",
        "quality",
        "senders",
        "units",
        "process.workers",
        "sql",
        "analysis",
    },
}
FILES = set(ALLOWED) - set(ROOMS)  # rooms that are one file


def modules(room: str) -> list[Path]:
    return [ROOT / "mburst" / f"{room.replace('.', '/')}.py"] if room in FILES else sorted((ROOT / room).rglob("*.py"))


def imported_rooms(path: Path, room: str) -> set[str]:
    """Returns the rooms of the modules below `mburst` that a module imports, absolute or relative."""
    if room in FILES:
        package = ["mburst", *room.split(".")[:-1]]
    else:
        package = ["mburst", room, *path.relative_to(ROOT / room).parts[:-1]]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [name.name.split(".") for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            found += [[*base, *(node.module or "").split("."), name.name] for name in node.names]
    named = [[part for part in parts if part] for parts in found]
    return {room_of(parts[1:]) for parts in named if parts[0] == "mburst"} - {room, "__version__"}


def room_of(parts: list[str]) -> str:
    """Returns the room of a module with these names below `mburst`. Each module of `process` is one."""
    return ".".join(parts[: 2 if parts[0] == "process" else 1])


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_go_one_way(room):
    for path in modules(room):
        assert imported_rooms(path, room) <= ALLOWED[room], path


def test_no_library_waits_with_locks_that_an_interruption_leaves_taken():
    """`interrupting.completed` does not take them."""
    for room in [*ROOMS, "mburst"]:
        for path in sorted((ROOT / room).rglob("*.py")):
            assert not re.search(r"import .*\bas_completed", path.read_text()), path


# The modules that may query the tables of measurements in SQL: those of the one reading room, and the one that follows
# the tables in memory. All others use these modules, or the views and queries of sql/.
ASKED = re.compile(r"\b(?:FROM|JOIN)\s+(?:main\.)?(?:bins|sources|probes|queues)\b|\bFROM\s+\{table\}")
READING = {
    f"analysis/{name}.py"
    for name in (
        "read/bins",
        "read/canary",
        "read/held",
        "read/names",
        "read/probes",
        "read/rows",
        "read/sources",
        "cause/read",
        "cause/read_counters",
        "model/utilization",
        "whatif/read_senders",
    )
}
LIVE_TAIL = {"mburst/agent/metrics/queries.py"}


def texts(path: Path) -> str:
    """Returns the strings of a module that can be SQL: all except its docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    joined = {id(part): part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    found += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and id(node) not in joined
    ]
    return "\n".join(found)


def test_tables_of_measurements_are_read_in_one_room():
    rooms = {*ROOMS, "mburst"} - {"sql"}
    asking = {
        str(path.relative_to(ROOT))
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if ASKED.search(texts(path))
    }
    assert asking == READING | LIVE_TAIL


@pytest.mark.parametrize("room", ROOMS)
def test_the_links_name_the_rooms(room):
    link = ROOT / "mburst" / room
    assert link.is_symlink() and link.readlink() == Path("..", room)


def test_setup_maps_every_room():
    packages = subprocess.run(
        [
            sys.executable,
            "-c",
            "import setuptools; setuptools.setup = lambda **k: print(*k['packages'], *k['package_dir'].values());"
            "exec(open('setup.py').read())",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {f"mburst.{room}" for room in ROOMS} <= set(packages)
    assert set(ROOMS) <= set(packages)
    for package in tracked("*__init__.py"):
        dotted = ".".join(package.parent.parts)
        assert (dotted if dotted.startswith("mburst") else f"mburst.{dotted}") in packages


def test_pages_import_only_what_is_common_and_no_other_page():
    for path in (ROOT / "dashboards").glob("*/*.py"):
        beside = {
            node.module.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module
        }
        assert beside <= ({"common"} if path.parent.name != "common" else set()), path


SOURCES = [str(path) for path in tracked("*.c", "*.h")]


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "--diff", "."],
        ["clang-format", "--dry-run", "--Werror", *SOURCES],
        ["mypy"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_style_and_types(command):
    """These are the checks of `make lint`; `make format` mends the layout."""
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_binding_uses_python():
    engine = {str(path.relative_to(ROOT / "capture")): path.read_text() for path in (ROOT / "capture").rglob("*.[ch]")}
    assert {name for name, text in engine.items() if "Python.h" in text} == {"python/module.h"}
    knowing = {name for name, text in engine.items() if '#include "python/' in text}
    assert knowing and all(name.startswith("python/") for name in knowing)
    others = [path for room in ("telemetry", "sql") for path in (ROOT / room).rglob("*.[ch]")]
    users = {path.name for path in others if "Python.h" in path.read_text()}
    assert users == {"module_exchange.c", "module_seconds.c"}


def test_start_up_imports_nothing_heavy():
    heavy = {
        "duckdb",
        "pyarrow",
        "numpy",
        "plotly",
        "scapy",
        "grpc",
        "google",
        "yaml",
        "uvloop",
        "perfetto",
        "textual",
        "starlette",
        "uvicorn",
        "jinja2",
        "markupsafe",
    }
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, mburst.cli; mburst.cli.build_parser(); print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not heavy & set(loaded)


def test_quality_bits_are_the_same_in_c_python_and_sql():
    import duckdb

    from mburst.capture import _engine
    from mburst.quality import STAMP_NAMES
    from mburst.telemetry import tables

    con = duckdb.connect()
    con.execute((ROOT / "sql" / "schema" / "quality.sql").read_text())
    names = dict(con.execute("SELECT name, bit FROM quality").fetchall())
    in_c = {
        key[len("QUALITY_") :].lower().replace("file_us", "file-µs"): value
        for key, value in vars(_engine).items()
        if key.startswith("QUALITY_")
    }
    of_devices = {
        key[len("QUALITY_") :].lower(): value for key, value in vars(tables).items() if key.startswith("QUALITY_")
    }
    assert {name: names[name] for name in STAMP_NAMES.values()} == {name: bit for bit, name in STAMP_NAMES.items()}
    assert names.pop("incomplete") == 16384  # given by bursts.sql
    assert in_c | of_devices == names and not in_c.keys() & of_devices.keys()


def test_bytes_of_a_frame_on_the_wire_are_the_same_in_c_and_python():
    from mburst import ethernet

    header = (ROOT / "capture" / "protocols.h").read_text()
    in_c = {name: int(number) for name, number in re.findall(r"#define MB_WIRE_(\w+) (\d+)", header)}
    assert in_c == {"SHORTEST": ethernet.SHORTEST_FRAME_BYTES, "OVERHEAD": ethernet.FRAME_OVERHEAD_BYTES}


def test_plausible_times_are_the_same_in_c_and_python():
    from mburst.units import PLAUSIBLE_NS

    header = (ROOT / "capture" / "dates.h").read_text()
    edges = dict(re.findall(r"#define MB_DATE_(SET|END) INT64_C\((\d+)\)", header))
    assert (int(edges["SET"]), int(edges["END"])) == PLAUSIBLE_NS


def test_benches_load():
    """A bench that uses a removed name fails here at once, not when somebody measures."""
    program = (
        "import runpy, sys\nsys.path[:0] = ['bench']\nfor path in sys.argv[1:]: runpy.run_path(path, run_name='bench')"
    )
    benches = [str(path) for path in sorted((ROOT / "bench").glob("*.py"))]
    done = subprocess.run([sys.executable, "-c", program, *benches], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", sorted((ROOT / "bench").glob("*.c")), ids=lambda source: source.name)
def test_programs_of_benches_compile(source):
    compiled(source, ("-O1",))


# Things with one definition, by a text that only their modules have; everybody else calls these modules.
ONE_OF = {
    "a way to wait for a signal": (
        r"signal\.signal\(|add_signal_handler",
        {
            "mburst/process/stopping.py",
            "mburst/process/interrupting.py",  # Ctrl-C within a query of the database, and signals as such
            "mburst/lab/rack/janitor.py",  # ignores them
            "dashboards/top/terminal.py",  # those of job control: stop and continue
        },
    ),
    "the nanoseconds of a second, minute, hour and day": (
        r"(?m)^(?:[A-Z_]+, )*_?(?:NS_PER_(?:S|MINUTE|HOUR|DAY)|(?:SECOND|MINUTE|HOUR|DAY)(?:_NS)?)(?:, [A-Z_]+)* = ",
        {"mburst/units.py"},
    ),
    "the bytes of a frame on the wire": (
        r"(?m)^(?:[A-Z_]+, )*_?[A-Z_]*(?:FRAME|WIRE|OVERHEAD|GAP)[A-Z_]*(?:, [A-Z_]+)* = .*\b(?:24|60|1514|1538)\b",
        {"mburst/ethernet.py"},
    ),
    "the range of plausible times": (r"\b946_?684_?800|\b4_?102_?444_?800", {"mburst/units.py"}),
    "the tables whose rows need one of recordings": (r"(?m)^RECORDED\b.* = ", {"sql/tables.py"}),
    "the name of a ledger of verified files": (r"\"\.verified\"", {"sql/verified.py"}),
    "how many rows of an answer are fetched at a time": (r"(?m)^_?FETCH\b.* = ", {"sql/named.py"}),
    "how much of a reason is shown": (r"(?m)^_?MOST_REASON\b.* = ", {"mburst/names.py"}),
    "a table printer": (r"\.ljust\(width|\.rjust\(width", {"mburst/columns.py"}),
    "a writer of whole files": (r"src_dir_fd", {"mburst/files.py"}),
    "a thread that stores rows beside the work": (r"queue\.SimpleQueue\(", {"mburst/services/background.py"}),
}


@pytest.mark.parametrize("what", ONE_OF)
def test_each_thing_has_one_definition(what):
    pattern, modules_of = ONE_OF[what]
    found = {
        str(path.relative_to(ROOT))
        for room in {*ROOMS, "mburst"}
        for path in (ROOT / room).rglob("*.py")
        if re.search(pattern, path.read_text())
    }
    assert found == modules_of
