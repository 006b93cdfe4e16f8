"""Certificates: those of this host, and the CA of the certificates that clients must present."""

from __future__ import annotations

import errno
import os
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import MburstError
from ..process import privileges

RETRY_S = 10.0  # time after which certificates that could not be used are read again, even if they look the same
Stamps = tuple[tuple[int, ...], ...]
_HIDDEN = (errno.EACCES,)  # the stamp of a file in a folder that this process may not look into


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    certificate: Path
    key: Path
    client_ca: Path | None = None  # if given, clients need a certificate from this CA

    @property
    def paths(self) -> list[Path]:
        """All files."""
        return [path for path in (self.certificate, self.key, self.client_ca) if path]

    def folders(self) -> list[str]:
        """Returns what to read if files may be replaced: the folder of each file, and of what it links to."""
        return folders_of(self.paths)

    def stamp(self) -> Stamps:
        """Returns values that change when a file is replaced, or when who may read it changes."""
        return tuple(_stamp(path) for path in self.paths)


def folders_of(files: Iterable[str | Path]) -> list[str]:
    """Returns the folders of FILES, and of what they link to, each once. / and /etc are replaced by the file itself, as
    in `privileges.lasting`: such a file can be read, but not one that is renamed to it."""
    return sorted({os.fspath(privileges.lasting(place)) for file in files for place in (file, os.path.realpath(file))})


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class RenewedContext:
    """A TLS context with certificates that may be replaced during use: a connection gets those that exist when it is
    accepted. If they cannot be used, `say` gets a line, and the previous ones stay in use; another line says when that
    is over. Raises MburstError."""

    def __init__(self, files: Certificates, protocol: str, say: Callable[[str], None]) -> None:
        self._files, self._protocol, self._say = files, protocol, say
        self._stamp, self._context = files.stamp(), context(files, protocol)
        self._failed, self._said = False, ""
        self._again = 0.0  # when to try again, monotonic

    def __call__(self) -> ssl.SSLContext:
        known, self._stamp = self._stamp, self._files.stamp()
        if self._stamp != known:
            self._said = ""
            if hidden := self._only_hidden(known):
                self._say(f"{hidden}: cannot be seen with the rights of this process: restart mburst if it is renewed")
            else:
                self._renew()
        elif self._failed and time.monotonic() >= self._again:
            self._renew()
        return self._context

    def _only_hidden(self, known: Stamps) -> Path | None:
        """Returns a file that this process can no longer see, as when it gave up the rights of its start, if nothing
        else changed since KNOWN: it may be the same file."""
        entries = zip(self._files.paths, known, self._stamp, strict=True)
        changed = [(path, now) for path, before, now in entries if now != before]
        return changed[0][0] if all(now == _HIDDEN for _, now in changed) else None

    def _renew(self) -> None:
        """Read the files. Says once what fails, until they change."""
        try:
            self._context = context(self._files, self._protocol)
        except MburstError as error:
            if str(error) != self._said:
                self._say(f"{error}: the certificates that were there before are still used")
            self._failed, self._said, self._again = True, str(error), time.monotonic() + RETRY_S
            return
        if self._failed:
            self._say(f"{self._files.certificate}: the new certificate is used now")
        self._failed = False


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
    except OSError as error:
        raise MburstError(f"{files.certificate} and {files.key} cannot be used: {error.strerror}") from None
    if files.client_ca:
        _check(files.client_ca, "CERTIFICATE", "certificate")
        try:
            made.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            raise MburstError(f"{files.client_ca}: cannot be used: {_reason(error)}") from None
        except OSError as error:
            raise MburstError(f"{files.client_ca}: cannot be used: {error.strerror}") from None
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
