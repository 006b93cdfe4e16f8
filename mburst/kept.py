"""What takes long to make of files of this package, or of a library, and is always the same: made once, and kept.

It is kept beside the bytecode of the module that makes it, and like bytecode: whoever may write there may change this
package as well, and where nobody may, or Python is not to write bytecode, it is made each time.
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
    """What the MODULE (its __file__) makes of SOURCE, or of what has SOURCE as its hash. NAME says of what and by which
    version of a library."""

    def __init__(self, module: str, name: str, source: bytes) -> None:
        self.name = name
        digest = hashlib.sha256(source).hexdigest()[:16]
        self.path = Path(importlib.util.cache_from_source(module)).with_name(f"{name}.{digest}")

    def read(self) -> bytes | None:
        """What `write` wrote; None where there is nothing, or it is damaged."""
        try:
            kept = self.path.read_bytes()
        except OSError:
            return None
        content = kept[_CHECK:]
        return content if hashlib.sha256(content).digest() == kept[:_CHECK] else None

    def write(self, content: bytes) -> None:
        """Keep CONTENT, with a SHA-256 in front, by which `read` knows that it is whole."""

        def write(draft: Path) -> None:
            draft.write_bytes(hashlib.sha256(content).digest() + content)

        self.replace(write)

    def replace(self, make: Callable[[Path], None]) -> None:
        """Let MAKE write the file, and remove what was made of other sources. Where it cannot be written, which MAKE
        says by an OSError, do without."""
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
        """Of other sources, and drafts: of this process, whose disk is full, or of one that was killed."""
        for other in self.path.parent.glob(f"{self.name}.*"):
            if other != self.path:
                other.unlink(missing_ok=True)
