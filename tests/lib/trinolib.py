"""A Trino server from Trino's own release, fetched from Maven Central, over folders of results."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from waiting import wait_for

VERSION = "476"
LEAST_JAVA = 24  # for that version
_MAVEN = "https://repo.maven.apache.org/maven2/io/trino"
_SERVER, _HIVE = f"trino-server-core-{VERSION}", f"trino-hive-{VERSION}"
_SHA256 = {
    f"trino-server-core/{VERSION}/{_SERVER}.tar.gz": "0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158",
    f"trino-hive/{VERSION}/{_HIVE}.zip": "611bacdb07d9f3cf7b9d47f97ecc76fa2e7ff8bfe8a9728c3d06adc1bfb8662e",
}
_JVMS = Path("/usr/lib/jvm")
_START_S = 180.0
CATALOG, SCHEMA = "hive", "mburst"


class TrinoError(Exception):
    """Trino's message about a statement."""


class Trino:
    """A running server. FILES is the folder that `local:///` refers to."""

    def __init__(self, port: int, files: Path) -> None:
        self.files = files
        self._base = f"http://127.0.0.1:{port}"

    def is_started(self) -> bool:
        """Returns whether it answers statements."""
        try:
            with urllib.request.urlopen(f"{self._base}/v1/info", timeout=5) as answer:
                return not json.load(answer)["starting"]
        except OSError:
            return False

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement. Raises TrinoError."""
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": CATALOG, "X-Trino-Schema": SCHEMA}
        request = urllib.request.Request(f"{self._base}/v1/statement", statement.encode(), headers)
        found: list[tuple[Any, ...]] = []
        while True:
            with urllib.request.urlopen(request, timeout=60) as answer:
                page = json.load(answer)
            if "error" in page:
                raise TrinoError(page["error"]["message"])
            found += map(tuple, page.get("data", ()))
            if "nextUri" not in page:
                return found
            request = urllib.request.Request(page["nextUri"], headers=headers)


@contextmanager
def running(folder: Path) -> Iterator[Trino]:
    """Runs a server in FOLDER, which is new. Skips the test, with the reason, if there is no Java of the required
    version, or if the release is not available."""
    java = _java()
    home = _installed(folder)
    port, files = free_port(), folder / "files"
    files.mkdir()
    _configure(home, port, folder / "data", files)
    with (folder / "trino.log").open("w") as log:
        process = subprocess.Popen(
            [home / "bin" / "launcher", "run"],
            stdout=log,
            stderr=log,
            env={**os.environ, "JAVA_HOME": str(java), "PATH": f"{java / 'bin'}:{os.environ['PATH']}"},
        )
    try:
        trino = Trino(port, files)
        wait_for(lambda: trino.is_started() or process.poll() is not None, "Trino", _START_S)
        assert process.poll() is None, (folder / "trino.log").read_text()[-4000:]
        yield trino
    finally:
        process.terminate()
        process.wait(60)


def _java() -> Path:
    """Returns the home of a Java that is new enough."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    for home in [*homes, *sorted(_JVMS.glob("*"))]:
        release = home / "release"
        if release.is_file():
            version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE)
            if version and int(version[1]) >= LEAST_JAVA:
                return home
    pytest.skip(f"Trino {VERSION} needs a Java of {LEAST_JAVA} or later (JAVA_HOME, or below {_JVMS})")


def _installed(folder: Path) -> Path:
    """Returns the server with the one plugin that it needs, in FOLDER."""
    server, hive = [_fetched(name, folder) for name in _SHA256]
    subprocess.run(["tar", "-x", "-f", server, "-C", folder], check=True)
    with zipfile.ZipFile(hive) as content:
        content.extractall(folder)
    shutil.move(folder / _HIVE, folder / _SERVER / "plugin" / "hive")
    server.unlink()
    hive.unlink()
    return folder / _SERVER


def _fetched(name: str, folder: Path) -> Path:
    """Returns an archive of the release, in FOLDER."""
    path = folder / Path(name).name
    try:
        with urllib.request.urlopen(f"{_MAVEN}/{name}", timeout=60) as answer, path.open("wb") as out:
            shutil.copyfileobj(answer, out, 1 << 20)
    except OSError as error:
        pytest.skip(f"Trino cannot be fetched from Maven Central: {error}")
    with path.open("rb") as content:
        assert hashlib.file_digest(content, "sha256").hexdigest() == _SHA256[name]
    return path


def _configure(home: Path, port: int, data: Path, files: Path) -> None:
    """Configures one node that is coordinator and worker; a catalog of files, without a metastore service."""
    content = {
        "node.properties": {
            "node.environment": "test",
            "node.data-dir": str(data),
            "node.bind-ip": "127.0.0.1",
            "node.internal-address": "127.0.0.1",
        },
        "config.properties": {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": f"http://127.0.0.1:{port}",
        },
        f"catalog/{CATALOG}.properties": {
            "connector.name": "hive",
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": "local:///metastore",
            "fs.native-local.enabled": "true",
            "local.location": str(files),
        },
    }
    for name, settings in content.items():
        path = home / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    data.mkdir()
    (home / "etc" / "jvm.config").write_text(f"-Xmx2G\n-XX:+ExitOnOutOfMemoryError\n-Djava.io.tmpdir={data}\n")
