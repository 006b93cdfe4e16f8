"""Builds what is in C, and maps the rooms at the top of the tree into the package `mburst`."""

import os
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOMS = ["capture", "telemetry", "sql", "analysis", "dashboards"]
ENGINE = "mburst.capture._engine"

# Decompressors that are compiled in where their headers are: (macro, library, header, apt package).
DECOMPRESSORS = [
    ("MB_HAVE_ZLIB", "z", "zlib.h", "zlib1g-dev"),
    ("MB_HAVE_ZSTD", "zstd", "zstd.h", "libzstd-dev"),
    ("MB_HAVE_LZMA", "lzma", "lzma.h", "liblzma-dev"),
]


class BuildEngine(build_ext):
    """Compiles the engine with the libraries that this machine has, and says which it lacks."""

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
                print(f"note: building without {library}: apt install {package}")

    def has(self, library: str, header: str) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            probe = Path(folder, "probe.c")
            probe.write_text(f"#include <{header}>\nint main(void) {{ return 0; }}\n")
            try:
                objects = self.compiler.compile([str(probe)], output_dir=folder)
                self.compiler.link_executable(objects, os.path.join(folder, "probe"), libraries=[library])
            except Exception:  # the compiler classes raise several unrelated kinds
                return False
            return True


def extension(name: str, room: str, libraries: list[str]) -> Extension:
    return Extension(
        name,
        sorted(str(path) for path in Path(room).glob("*.c")),
        depends=[str(path) for path in Path(room).glob("*.h")],
        define_macros=[("Py_LIMITED_API", "0x030B0000"), ("_GNU_SOURCE", None)],
        extra_compile_args=["-std=gnu11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra"],
        libraries=libraries,
        py_limited_api=True,
    )


setup(
    packages=[
        "mburst", "mburst.agent", "mburst.agent.delivery", "mburst.cli", "mburst.demo", "mburst.netlab",
        "mburst.simulate", "mburst.switch_agent", "mburst.web", *(f"mburst.{room}" for room in ROOMS),
        "mburst.telemetry.gnmi",
    ],
    package_dir={"mburst": "mburst", **{f"mburst.{room}": room for room in ROOMS}},
    package_data={
        "mburst.agent": ["mburst.toml"],
        "mburst.capture": ["*.pyi", "py.typed"],
        "mburst.telemetry": ["*.pyi"],
        "mburst.telemetry.gnmi": ["vendors/*.toml"],
        "mburst.sql": ["*.sql", "schema/*.sql", "queries/*.sql"],
        "mburst.dashboards": ["static/*", "templates/*"],
    },
    ext_modules=[extension(ENGINE, "capture", ["pcap"]), extension("mburst.telemetry._exchange", "telemetry", [])],
    cmdclass={"build_ext": BuildEngine},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
