"""What mburst is built from and what it depends on: the lock of the tests, and the SBOM in the wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from places import ROOT
from tracked import tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / ".ci" / "requirements.lock").read_text()
RELEASE = ROOT / "release"


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def asked(*extras: str) -> set[str]:
    """Returns the names of the packages that these extras require, directly or by other extras that they name."""
    found = set()
    for extra in extras:
        for requirement in PROJECT["project"]["optional-dependencies"][extra]:
            inner = re.match(r"mburst\[(.*)\]", requirement)
            found |= asked(*inner[1].split(",")) if inner else {name_of(requirement)}
    return found


def locked(lock: str) -> set[str]:
    """Returns the packages of a lock, which names each with hashes and without a registry."""
    hashes = r"((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
    found = re.findall(r"^([\w.-]+)==(\S+)(?: ;[^\\]*)? \\\n" + hashes, lock, re.M)
    assert "".join(re.findall(r"^[\w.-]+==", lock, re.M)) == "".join(f"{name}==" for name, _, _ in found)
    assert "://" not in lock and "--index" not in lock and "--trusted" not in lock
    return {name for name, _, _ in found}


BUILDING = {name_of(text) for text in PROJECT["build-system"]["requires"]}


def test_the_lock_has_all_required_packages_with_hashes_and_no_registry():
    wanted = asked("test") | {name_of(text) for text in PROJECT["project"]["dependencies"]}
    assert wanted | BUILDING <= locked(LOCK)


def test_the_installer_is_locked_too():
    assert locked((ROOT / ".ci" / "pip.lock").read_text()) == {"pip"}


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python of the system's own")
@pytest.mark.parametrize(
    ("packages", "chosen"),
    [("", "/usr/bin/python3"), ("print('python3.11-venv')", "python3"), ("import sys; sys.exit('too old')", "python3")],
)
def test_environments_use_the_python_of_the_system_if_it_is_complete(
    tmp_path: Path, packages: str, chosen: str
) -> None:
    shutil.copy(ROOT / ".ci" / "python", tmp_path)
    (tmp_path / "python-packages").write_text(packages)
    done = subprocess.run(["sh", tmp_path / "python"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{chosen}\n", "")


def test_the_lock_of_the_build_tools_has_hashes_and_no_registry():
    wanted = re.findall(r"^[\w.-]+(?=>=)", (RELEASE / "requirements.in").read_text(), re.M)
    assert {name_of(name) for name in wanted} | BUILDING <= locked((RELEASE / "requirements.lock").read_text())


@pytest.mark.parametrize(
    "requirement",
    [
        *PROJECT["project"]["dependencies"],
        *(text for texts in PROJECT["project"]["optional-dependencies"].values() for text in texts if "[" not in text),
    ],
)
def test_the_lock_is_not_below_the_bounds(requirement):
    bound = re.search(r">=([\d.]+)", requirement)[1]
    for version in re.findall(rf"^{re.escape(name_of(requirement))}==([\d.]+)", LOCK, re.M):
        assert tuple(map(int, version.split("."))) >= tuple(map(int, bound.split(".")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the files that git tracks here, and of new files."""
    if not find_spec("setuptools") or not shutil.which("cc"):
        pytest.skip("needs setuptools and a compiler")
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in listed:
        source, copy = ROOT / name, folder / "tree" / name
        if source.is_file() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            folder,
            folder / "tree",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [made] = folder.glob("*.whl")
    return made


def test_the_wheel_states_its_dependencies(wheel):
    with zipfile.ZipFile(wheel) as file:
        [name] = [name for name in file.namelist() if "/sboms/" in name]
        assert re.fullmatch(r"mburst-[\w.]+\.dist-info/sboms/mburst\.cdx\.json", name)
        assert name in file.read(name.replace("sboms/mburst.cdx.json", "RECORD")).decode()
        sbom = json.loads(file.read(name))
        names = file.namelist()
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    described = sbom["metadata"]["component"]
    components = {part["bom-ref"]: part for part in sbom["components"]}
    assert len(components) == len(sbom["components"])
    assert sbom["dependencies"] == [{"ref": described["bom-ref"], "dependsOn": sorted(components)}]
    runtime = asked(*(extra for extra in PROJECT["project"]["optional-dependencies"] if extra != "test"))
    required = {name_of(text) for text in PROJECT["project"]["dependencies"]}
    python = {ref.removeprefix("pkg:pypi/") for ref in components if ref.startswith("pkg:pypi/")}
    assert python == runtime | required
    assert {
        ref.removeprefix("pkg:pypi/")
        for ref, part in components.items()
        if part["scope"] == "required" and ref.startswith("pkg:")
    } == required
    assert {"libpcap", *linked(wheel)} == {ref for ref in components if not ref.startswith("pkg:")}
    assert "mburst/cli/record.py" in names and "mburst/sql/lockdown.py" in names
    assert {"mburst/dashboards/templates/report/page.html", "mburst/dashboards/static/live/page.js"} <= set(names)


def linked(wheel: Path) -> set[str]:
    """Returns the libraries that the engine in a wheel needs, except those of the C library."""
    if not shutil.which("readelf"):
        pytest.skip("needs readelf")
    with zipfile.ZipFile(wheel) as file:
        [name] = [name for name in file.namelist() if re.search(r"/_engine.*\.so$", name)]
        engine = wheel.parent / "engine.so"
        engine.write_bytes(file.read(name))
    text = subprocess.run(["readelf", "-dW", engine], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"NEEDED.*\[(lib\w+)\.so", text)) - {"libc", "libm", "libpthread", "libdl"}


def test_the_wheel_works_without_this_tree(wheel, tmp_path):
    """The wheel has all files that the package reads: SQL, pages, tables of vendors, and the example of a
    configuration."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    words = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel]
    subprocess.run(words, check=True, timeout=120)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))

    def mburst(*words: str | Path) -> str:
        command = [python, "-m", "mburst", *words]
        environment = {**os.environ, "GNMI_PASSWORD": "p"}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    place = subprocess.run(
        [python, "-P", "-c", "import mburst; print(mburst.__file__)"], capture_output=True, text=True
    )
    assert place.stdout.startswith(str(packages))
    assert "recorded into" in mburst(
        "record", ROOT / "examples/cache-server/cache.pcap.zst", "-o", "store", "--link", "1G"
    )
    assert "report: " in mburst("report", "store", "--bin", "1ms", "-o", "out")
    mburst("run", "--init", "mburst.toml")
    assert "tor1" in mburst("collect", ROOT / "examples/gnmi.yaml", "-o", "store", "--check")


def test_an_audit_that_reaches_no_server_says_so(tmp_path):
    tool = tmp_path / "pip-audit"
    tool.write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 1\n")
    tool.chmod(0o755)
    done = audit(tool)
    assert (done.returncode, done.stdout) == (2, "") and "nothing was looked up" in done.stderr


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        ('{"name": "a", "version": "1", "vulns": []}', 0, "1 packages, 0 known flaws"),
        (
            '{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}',
            1,
            "a 1: CVE-1, mended in 2",
        ),
        ('{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}', 2, "not looked up"),
    ],
)
def test_an_audit_states_what_it_knows_and_what_it_does_not(tmp_path, answer, code, message):
    tool = tmp_path / "pip-audit"
    tool.write_text(f"#!/bin/sh\necho '{{\"dependencies\": [{answer}]}}'\n")
    tool.chmod(0o755)
    done = audit(tool)
    assert done.returncode == code and message in done.stdout + done.stderr


def test_an_audit_looks_at_each_lock_and_a_known_flaw_outweighs_what_is_unknown(tmp_path):
    """Also after a lock of which nothing could be looked up."""
    tool = tmp_path / "pip-audit"
    flawed = '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}]}'
    tool.write_text(f"#!/bin/sh\ncase $* in *pip.lock) exit 1 ;; esac\necho '{flawed}'\n")
    tool.chmod(0o755)
    done = audit(tool, "pip.lock", "requirements.lock")
    assert done.returncode == 1 and "a 1: CVE-1" in done.stdout
    [line] = done.stderr.splitlines()
    assert "pip.lock: nothing was looked up" in line


def test_make_audits_all_locks_in_one_call():
    """Otherwise make ends after the first one of which a flaw is known, or that could not be looked up."""
    called = re.findall(r"^\t.*\.ci/audit (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert called == [f"$(VENV)/pip-audit/bin/pip-audit {' '.join(sorted(map(str, tracked('*.lock'))))}"]


def audit(tool: Path, *locks: str) -> subprocess.CompletedProcess[str]:
    paths = [ROOT / ".ci" / lock for lock in locks or ("requirements.lock",)]
    command = [sys.executable, ROOT / ".ci" / "audit", tool, *paths]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
