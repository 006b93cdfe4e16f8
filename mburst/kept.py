"""A cache for results that are slow to compute from files of this package or of a library, and never change.

They are kept next to the bytecode of the module that computes them, under the same conditions: a user who may write
there may also change this package; if nobody may, or Python writes no bytecode, they are computed each time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_CHECK = hashlib.sha256().digest_size


class KeptFile:
    """The result that MODULE (its __file__) computes from SOURCE, or from something with SOURCE as its hash. NAME
    identifies the result and the version of a library."""

    def __init__(self, module: str, name: str, source: bytes) -> None:
        self.name = name
        digest = hashlib.sha256(source).hexdigest()[:16]
        self.path = Path(importlib.util.cache_from_source(module)).with_name(f"{name}.{digest}")

    def read(self) -> bytes | None:
        """Returns the content that `write` kept, None if there is none or it is damaged."""
        try:
            kept = self.path.read_bytes()
        except OSError:
            return None
        content = kept[_CHECK:]
        return content if hashlib.sha256(content).digest() == kept[:_CHECK] else None

    def write(self, content: bytes) -> None:
        """Keep CONTENT, after its SHA-256, by which `read` verifies it."""

        def write(draft: Path) -> None:
            draft.write_bytes(hashlib.sha256(content).digest() + content)

        self.replace(write)

    def replace(self, make: Callable[[Path], None]) -> None:
        """Let MAKE write the file, and remove results of other sources. If MAKE cannot write it and raises OSError,
        nothing is kept."""
        if sys.dont_write_bytecode:
            return
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        with suppress(OSError):
            draft.parent.mkdir(exist_ok=True)
            try:
                make(draft)
                draft.replace(self.path)
            finally:
                self._remove_others()

    def _remove_others(self) -> None:
        """Remove files of other sources, and drafts of this process, if its disk is full, or of a killed one."""
        for other in self.path.parent.glob(f"{self.name}.*"):
            if other != self.path:
                other.unlink(missing_ok=True)
