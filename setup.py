"""Builds what is in C, maps the rooms at the top of the tree into the package `mburst`, and says in the wheel what it
needs (an SBOM)."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOMS = ["capture", "telemetry", "sql", "analysis", "dashboards"]
ENGINE = "mburst.capture._engine"
EXCHANGE = "mburst.telemetry.probe._exchange"
SECONDS = "mburst.sql.compaction._seconds"

# Decompressors that are compiled in where their headers are: (macro, library, header, apt package).
DECOMPRESSORS = [
    ("MB_HAVE_ZLIB", "z", "zlib.h", "zlib1g-dev"),
    ("MB_HAVE_ZSTD", "zstd", "zstd.h", "libzstd-dev"),
    ("MB_HAVE_LZMA", "lzma", "lzma.h", "liblzma-dev"),
]

# A folder of static libraries (release/libraries makes it) to link with, in place of this machine's shared ones.
STATIC = os.environ.get("MBURST_LIBRARIES", "")
INCLUDES, LIBRARIES = ([f"{STATIC}/include"], [f"{STATIC}/lib"]) if STATIC else ([], [])

# What is read is sent by strangers: a fault should end the process and not become somebody's code. Measured, all of
# it costs nothing (docs/decisions/hardened-modules.md).
HARDENED = ["-fstack-protector-strong", "-fstack-clash-protection", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
HARDENED_LINK = ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]


class BuildEngine(build_ext):
    """Compiles the engine with the libraries that this machine has, and says which it lacks. With static ones it has
    all, or is not built."""

    def build_extensions(self) -> None:
        # The folder of the Python that builds is none that others should load from.
        of_python = {word for word in sysconfig.get_config_var("LDSHARED").split() if "-rpath" in word}
        self.compiler.linker_so = [word for word in self.compiler.linker_so if word not in of_python]
        self.compile_some, self.compiler.compile = self.compiler.compile, self.compile_on_all_processors
        super().build_extensions()

    def compile_on_all_processors(self, sources: list[str], **options: object) -> list[str]:
        """The objects of SOURCES, in their order."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            objects = pool.map(lambda source: self.compile_some([source], **options), sources)
            return [name for names in objects for name in names]

    def build_extension(self, ext: Extension) -> None:
        if ext.name == ENGINE:
            self.complete(ext)
        super().build_extension(ext)

    def complete(self, ext: Extension) -> None:
        if not self.has("pcap", "pcap/pcap.h"):
            raise SystemExit("mburst needs libpcap's headers: apt install libpcap-dev")
        for macro, library, header, package in DECOMPRESSORS:
            if self.has(library, header):
                ext.define_macros.append((macro, "1"))
                ext.libraries.append(library)
            else:
                self.lacks(library, package)
        self.add_kernel_program(ext)

    def add_kernel_program(self, ext: Extension) -> None:
        """What --backend ebpf loads into the kernel: clang makes it, libbpf loads it."""
        program = Path(self.build_temp, "count.bpf.o").absolute()
        program.parent.mkdir(parents=True, exist_ok=True)
        made = self.has("bpf", "bpf/libbpf.h") and compiled_for_kernel(program)
        if made:
            ext.define_macros.append(("MB_EBPF_OBJECT", f'"{program}"'))
            ext.libraries += ["bpf", *(["elf"] if STATIC else [])]  # a shared libbpf brings its own
        else:
            self.lacks("--backend ebpf", "clang libbpf-dev")

    def lacks(self, what: str, packages: str) -> None:
        if STATIC:
            raise SystemExit(f"{STATIC}: cannot build with {what} (what failed is above)")
        print(f"note: building without {what}: apt install {packages}")

    def has(self, library: str, header: str) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            probe = Path(folder, "probe.c")
            probe.write_text(f"#include <{header}>\nint main(void) {{ return 0; }}\n")
            try:
                objects = self.compiler.compile([str(probe)], output_dir=folder, include_dirs=INCLUDES)
                self.compiler.link_executable(
                    objects, os.path.join(folder, "probe"), libraries=[library], library_dirs=LIBRARIES
                )
            except Exception:  # the compiler classes raise several unrelated kinds
                return False
            return True


class BuildWheel(bdist_wheel):
    """Puts the SBOM where PEP 770 wants it, and the licences of libraries that are inside beside ours."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.dist_info_dir = None  # made before anything was built: what will be linked was not yet known

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        super().egg2dist(egginfo_path, distinfo_path)
        folder = Path(distinfo_path, "sboms")
        folder.mkdir()
        text = json.dumps(self.sbom(), indent=1, sort_keys=True) + "\n"
        Path(folder, "mburst.cdx.json").write_text(text, encoding="utf-8")
        if STATIC:
            shutil.copytree(Path(STATIC, "licenses"), Path(distinfo_path, "licenses", "libraries"))

    def sbom(self) -> dict:
        """CycloneDX 1.6: this package, what it asks of Python packages, and the libraries that it was linked with. The
        same tree and libraries give the same text."""
        about = self.distribution
        purl = f"pkg:pypi/{about.get_name()}@{about.get_version()}"
        linked = {name for built in about.ext_modules for name in built.libraries}
        parts = [
            *(package(text, "required") for text in about.install_requires),
            *(
                package(text, "optional")
                for extra, texts in about.extras_require.items()
                if extra != "test"
                for text in texts
                if not text.startswith(f"{about.get_name()}[")
            ),
            *(linked_library(name) for name in sorted(linked)),
        ]
        unique = {part["bom-ref"]: part for part in reversed(parts)}
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": purl,
                    "name": about.get_name(),
                    "version": about.get_version(),
                    "purl": purl,
                    "licenses": [{"license": {"id": "Apache-2.0"}}],
                }
            },
            "components": [unique[name] for name in sorted(unique)],
            "dependencies": [{"ref": purl, "dependsOn": sorted(unique)}],
        }


def compiled_for_kernel(program: Path) -> bool:
    """Whether clang could compile the program that counts in the kernel, into PROGRAM."""
    try:
        return subprocess.run(["sh", "capture/backend/ebpf/build", str(program)]).returncode == 0
    except FileNotFoundError:
        return False


def package(requirement: str, scope: str) -> dict:
    """A component for a requirement of a Python package, whose version is chosen when it is installed."""
    name = re.match(r"[\w.-]+", requirement)[0]
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name.lower()}",
        "name": name,
        "purl": f"pkg:pypi/{name.lower()}",
        "scope": scope,
        "properties": [{"name": "mburst:requirement", "value": requirement}],
    }


def linked_library(name: str) -> dict:
    """A component for a library, of the version whose headers were compiled with."""
    known, source = {
        "pcap": ("libpcap", "libpcap"),
        "z": ("zlib", "zlib"),
        "zstd": ("libzstd", "libzstd"),
        "lzma": ("liblzma", "xz-utils"),
        "bpf": ("libbpf", "libbpf"),
        "elf": ("libelf", "elfutils"),
    }[name]
    component = {
        "type": "library",
        "bom-ref": f"lib{name}",
        "name": known,
        "scope": "required",
        "properties": [{"name": "mburst:linked", "value": "static" if STATIC else "shared"}],
    }
    if STATIC:
        version = dict(line.split() for line in Path(STATIC, "sources").read_text().splitlines())[source]
        return {**component, "version": version, "purl": f"pkg:deb/debian/{source}@{version}?arch=source"}
    try:
        done = subprocess.run(["pkg-config", "--modversion", known], capture_output=True, text=True)
        version = done.stdout.strip()
    except FileNotFoundError:
        version = ""
    return {**component, "version": version} if version else component


def extension(name: str, room: str, libraries: list[str]) -> Extension:
    return Extension(
        name,
        sorted(str(path) for path in Path(room).rglob("*.c")),
        depends=[str(path) for path in [*Path(room).rglob("*.h"), *Path(room).rglob("build")]],
        include_dirs=[room, *INCLUDES],
        library_dirs=LIBRARIES,
        define_macros=[("Py_LIMITED_API", "0x030B0000"), ("_GNU_SOURCE", None)],
        extra_compile_args=["-std=gnu11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra", *HARDENED],
        extra_link_args=HARDENED_LINK,
        libraries=libraries,
        py_limited_api=True,
    )


def packages() -> list[str]:
    """Every folder with an __init__.py: those of `mburst`, and of the rooms at the top of the tree."""
    found = {"mburst": Path("mburst"), **{f"mburst.{room}": Path(room) for room in ROOMS}}
    return sorted(
        ".".join([name, *init.relative_to(folder).parts[:-1]])
        for name, folder in found.items()
        for init in folder.rglob("__init__.py")
    )


setup(
    packages=packages(),
    package_dir={"mburst": "mburst", **{f"mburst.{room}": room for room in ROOMS}},
    package_data={
        "mburst": ["py.typed"],
        "mburst.agent": ["mburst.toml"],
        "mburst.capture": ["*.pyi", "py.typed"],
        "mburst.telemetry.probe": ["*.pyi"],
        "mburst.telemetry.gnmi": ["vendors/*.toml"],
        "mburst.telemetry.otlp": ["tables/*.toml"],
        "mburst.sql": [
            "*.sql",
            "schema/*.sql",
            "model/*.sql",
            "partition/*.sql",
            "queries/*.sql",
            "queries/fleet/*.sql",
            "queries/fleet_report/*.sql",
        ],
        "mburst.sql.compaction": ["*.sql", "*.pyi"],
        "mburst.dashboards": ["static/*/*", "templates/*/*"],
    },
    ext_modules=[
        extension(ENGINE, "capture", ["pcap"]),
        extension(EXCHANGE, "telemetry/probe", []),
        extension(SECONDS, "sql/compaction", []),
    ],
    cmdclass={"build_ext": BuildEngine, "bdist_wheel": BuildWheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
