"""Certificates: those of this host, and the CA of the certificates that clients must present."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import MburstError


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    certificate: Path
    key: Path
    client_ca: Path | None = None  # if given, clients need a certificate from this CA

    def folders(self) -> list[str]:
        """Returns the folders to read if files may be replaced: of each file, and of what it links to."""
        return folders_of(path for path in (self.certificate, self.key, self.client_ca) if path)

    def stamp(self) -> tuple[tuple[int, ...] | None, ...]:
        """Returns values that change when a file is replaced; None for a file that this process may not access."""
        return tuple(_stamp(path) for path in (self.certificate, self.key, self.client_ca) if path)


def folders_of(files: Iterable[str | Path]) -> list[str]:
    """Returns the folders of FILES, and of what they link to, each once."""
    named = (place for file in files for place in (os.fspath(file), os.path.realpath(file)))
    return sorted({os.path.dirname(place) or "." for place in named})


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class RenewedContext:
    """A TLS context with certificates that may be replaced during use: a connection gets those that exist when it is
    accepted. If they cannot be used, `say` gets a line, and the previous ones stay in use. Raises MburstError."""

    def __init__(self, files: Certificates, protocol: str, say: Callable[[str], None]) -> None:
        self._files, self._protocol, self._say = files, protocol, say
        self._stamp, self._context = files.stamp(), context(files, protocol)

    def __call__(self) -> ssl.SSLContext:
        stamp = self._files.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = context(self._files, self._protocol)
            except MburstError as error:
                self._say(f"{error}: the certificates that were there before are still used")
        return self._context


def context(files: Certificates, protocol: str = "h2") -> ssl.SSLContext:
    """Returns a context for TLS 1.2 or later, for gRPC or the protocol with the given ALPN name. Raises MburstError,
    which names the invalid file and the reason."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols([protocol])
    _check(files.certificate, "CERTIFICATE", "certificate")
    _check(files.key, "PRIVATE KEY", "private key")
    if "ENCRYPTED" in _read(files.key):
        raise MburstError(f"{files.key}: the key is encrypted", "write it out without its password")
    try:
        made.load_cert_chain(files.certificate, files.key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise MburstError(f"the key {files.key} does not belong to the certificate {files.certificate}") from None
        raise MburstError(f"{files.certificate} and {files.key} cannot be used: {_reason(error)}") from None
    if files.client_ca:
        _check(files.client_ca, "CERTIFICATE", "certificate")
        try:
            made.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            raise MburstError(f"{files.client_ca}: cannot be used: {_reason(error)}") from None
        made.verify_mode = ssl.CERT_REQUIRED
    return made


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from None


def _check(path: Path, label: str, what: str) -> None:
    text = _read(path)
    if "-----BEGIN " not in text or f"{label}-----" not in text:
        raise MburstError(f"{path}: not a {what} in PEM")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
