"""Targets to which stores, and the results of a fleet, are written: a bucket of S3, GCS or Azure, or a folder. Objects
are written as a whole. Objects of stores are created once and never changed.

docs/fleet.md has the layout of a target. `open_target` opens one by its address; its kinds are in folder.py and
bucket.py."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from .. import files
from ..errors import MburstError, UsageError

BUCKETS = ("s3", "gs", "az")
EXAMPLES = "examples: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, /mnt/archive"


class TargetError(MburstError):
    """A target cannot be read or written now."""


class NoSuchObject(TargetError):
    """There is no object with that key."""


class StoredObject(NamedTuple):
    """An object of a target."""

    key: str
    bytes: int


class FleetTarget(ABC):
    """Objects by key, such as `bins/date=2026-11-20/rack=r1/NAME.parquet`. Every method raises TargetError. `name` is
    the address as it was given."""

    def __init__(self, name: str) -> None:
        self.name = name

    def place(self, key: str) -> str:
        """Returns the address of an object, for messages."""
        return f"{self.name.rstrip('/')}/{key}"

    @abstractmethod
    def put_new(self, key: str, data: bytes | Path) -> bool:
        """Create an object, completely or not at all. Returns False, without a change, if it already exists."""

    @abstractmethod
    def replace(self, key: str, content: bytes) -> None:
        """Write an object, completely or not at all, and replace any earlier one."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """Returns the content of an object. Raises NoSuchObject."""

    @abstractmethod
    def pieces(self, key: str) -> Iterator[bytes]:
        """Yields the content of an object in pieces that fit into memory. Raises NoSuchObject."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yields the objects below PREFIX, which ends in / or is empty, sorted by key."""

    @abstractmethod
    def holds(self, key: str, content: bytes) -> bool | None:
        """Whether the object with that key has this CONTENT; None if it does not exist."""

    def folders(self) -> Sequence[Path]:
        """Create the folders of this machine to which objects are written, and return them; none for a bucket."""
        return ()

    def fetch(self, key: str, path: Path) -> None:
        """Write the content of an object to a new file at PATH, or leave no file if that fails. Raises NoSuchObject,
        and MburstError if the file cannot be written."""
        try:
            with path.open("xb") as file:
                try:
                    for piece in self.pieces(key):
                        file.write(piece)
                except BaseException:
                    path.unlink()
                    raise
        except OSError as error:
            raise MburstError(f"{path}: cannot write: {error.strerror}") from error

    def sha256(self, key: str) -> str:
        """Returns the SHA-256 of an object's content in hexadecimal digits. Raises NoSuchObject."""
        digest = hashlib.sha256()
        for piece in self.pieces(key):
            digest.update(piece)
        return digest.hexdigest()


def content_of(data: bytes | Path) -> bytes:
    """Returns the bytes of DATA. Raises MburstError if the file cannot be read."""
    if isinstance(data, bytes):
        return data
    try:
        return data.read_bytes()
    except OSError as error:
        raise MburstError(f"{data}: cannot read: {error.strerror}") from error


def open_target(address: str | os.PathLike[str]) -> FleetTarget:
    """Returns the target at ADDRESS: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, or a folder, which
    is created by the first object. Raises UsageError for an invalid address (without the address if it may contain a
    secret), and MburstError if a library is missing."""
    text = os.fspath(address)
    check_address(text)
    if not files.is_address(text):
        from .folder import FolderTarget

        return FolderTarget(Path(text))
    from .bucket import BucketTarget

    return BucketTarget(text)


def check_address(address: str) -> None:
    """Raise UsageError unless ADDRESS is that of a bucket or a folder."""
    if not address:
        raise UsageError("an empty name of a target", EXAMPLES)
    if not files.is_address(address):
        return
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or set("@?#") & set(address):  # credentials, or a signature
        raise UsageError(
            "invalid target: the address has more than a bucket and a prefix",
            f"credentials come from the environment; {EXAMPLES}",
        )
    if parts.scheme not in BUCKETS:
        raise UsageError(f"invalid target: unknown kind {parts.scheme!r}", EXAMPLES)
    if not parts.netloc or not address.isprintable():
        raise UsageError(f"invalid target {address!r}", EXAMPLES)
