"""A target that is a bucket of S3, GCS, Azure or a compatible service (obstore). Credentials come only from the
environment, and never appear in a message."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from .. import __version__, extras
from ..agent.secrets import Secrets
from ..names import MOST_REASON, short
from .target import FleetTarget, NoSuchObject, StoredObject, TargetError, content_of

# Limits of one request, and of its retries after 429, 5xx and lost connections, by number and in total.
REQUEST_S, CONNECT_S = 60, 5
LARGE_BYTES, LARGE_S = 4 << 20, 600  # limits for larger objects, and for objects that may be larger
RETRIES, RETRY_S, LONGEST_WAIT_S = 8, 120, 10
CONFLICTS = 5  # attempts of a create that conflicts with another one, if no object exists afterwards
PIECE = 8 << 20
NO_OBJECT = "mburst.no-such-object"  # no object has this key
LATER = "what has arrived stays; try again later"
_RIGHTS = "check the credentials in the environment, and what they may do (docs/fleet.md)"
_REFUSED = "check the address, and what the environment says (docs/fleet.md)"
_HINTS = {"400": _REFUSED, "401": _RIGHTS, "403": _RIGHTS, "404": "make the bucket first"}
_S3_HINTS = {"400": "check the region"}  # Amazon's answer to a request that was signed for another region

_SECRET = re.compile(r"(AWS|AZURE|GOOGLE)\w*(KEY|SECRET|TOKEN|SAS|PASSWORD)\w*", re.IGNORECASE)
_NO_SECRET = re.compile(r"\w*(FILE|PATH|URI|URL|ENDPOINT)", re.IGNORECASE)
_ENDPOINT = re.compile(r"(AWS|AZURE|GOOGLE)_\w*(ENDPOINT\w*|BASE_URL)")  # http:// in these variables is intended
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_REQUEST = re.compile(r"^.*? in [\d.]+(?:ns|µs|ms|s)\b.*? - ")  # what precedes the cause in the library's errors
_TRIES = re.compile(r", after (\d+) retries")
_STATUS = re.compile(r"Server returned (?:non-2xx status code|error response): (\d{3} [A-Za-z ]*)")
_BENEATH = re.compile(  # the cause in the library's details
    r'(?:message|error): "(?P<system>[^"]+)"|InvalidCertificate\(\s*(?P<certificate>\w+)|kind: Time(?:d)?[oO]ut\b'
)
_QUERY = re.compile(r"\?\S*")  # the query of an address, which may contain a signature
_ANSWER = re.compile(r"<(Code|Message)>([^<]*)</")


class BucketTarget(FleetTarget):
    """Objects of a bucket below a prefix. Creating is conditional (If-None-Match), so that it replaces nothing."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._hints = {**_HINTS, **(_S3_HINTS if address.startswith("s3") else {})}
        self._secrets = secrets_of(os.environ)
        self._store = _connect(address, self._secrets, REQUEST_S)
        self._large = _connect(address, self._secrets, LARGE_S)

    def put_new(self, key: str, data: bytes | Path) -> bool:
        import obstore

        content = content_of(data)
        store = self._large if len(content) > LARGE_BYTES else self._store
        for _ in range(CONFLICTS):
            try:
                with self._failing(key, "write"):
                    obstore.put(store, key, content, mode="create", use_multipart=False)
                return True
            except _Exists:
                if self._head(key) is not None:
                    return False
        raise TargetError(
            f"{self.place(key)}: cannot write: other requests to the same object have kept this one from it",
            "try again later",
        )

    def replace(self, key: str, content: bytes) -> None:
        import obstore

        store = self._large if len(content) > LARGE_BYTES else self._store
        with self._failing(key, "write"):
            obstore.put(store, key, content, use_multipart=False)

    def get(self, key: str) -> bytes:
        return b"".join(self.pieces(key))

    def pieces(self, key: str) -> Iterator[bytes]:
        import obstore

        with self._failing(key, "read"):
            for piece in obstore.get(self._large, key).stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        import obstore

        is_empty = True
        with self._failing(prefix, "list"):
            for batch in obstore.list(self._store, prefix.rstrip("/") or None):
                for meta in batch:
                    is_empty = False
                    yield StoredObject(meta["path"], meta["size"])
        if is_empty:
            self._check_answers(prefix)

    def _check_answers(self, prefix: str) -> None:
        """Raise TargetError if the server does not deny an object that nobody makes. The library takes any XML that
        lists no objects for an empty list, such as the page of a proxy."""
        hint = "check that the address is that of a bucket, and that no proxy answers in its place"
        try:
            if self._head(NO_OBJECT) is None:
                return
            why = "the server has every object"
        except TargetError as error:
            why = str(error).removeprefix(f"{self.place(NO_OBJECT)}: ")
            if why.startswith("cannot read: 403"):  # S3's answer to who may list only some prefixes
                return
            if re.match(r"cannot read: \d{3}\b", why):  # a status, which has a hint of its own
                hint = error.hint
        raise TargetError(f"{self.place(prefix)}: cannot list: an empty list, but {why}", hint)

    def holds(self, key: str, content: bytes) -> bool | None:
        """S3 reports the MD5 of an object, unless it is encrypted with a KMS key. Otherwise the object is read and
        compared."""
        meta = self._head(key)
        if meta is None:
            return None
        if meta["size"] != len(content):
            return False
        stated = _MD5.fullmatch(meta["e_tag"] or "")
        if stated and stated[1] == hashlib.md5(content, usedforsecurity=False).hexdigest():
            return True
        return self.sha256(key) == hashlib.sha256(content).hexdigest()

    def _head(self, key: str) -> Any:
        import obstore

        try:
            with self._failing(key, "read"):
                return obstore.head(self._store, key)
        except NoSuchObject:
            return None

    @contextmanager
    def _failing(self, key: str, doing: str) -> Iterator[None]:
        """Convert the library's exceptions in the context to a TargetError of one line."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except FileNotFoundError as error:
            if doing == "write":
                raise TargetError(f"{self.name}: there is no such bucket", "make it first") from error
            raise NoSuchObject(f"{self.place(key)}: no such object") from error
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, AlreadyExistsError) and doing == "write":
                raise _Exists from error
            why = reason(str(error), self._secrets)
            hint = next((hint for status, hint in self._hints.items() if why.startswith(status)), LATER)
            raise TargetError(f"{self.place(key)}: cannot {doing}: {why}", hint) from None


class _Exists(Exception):
    """The object exists, or another request was creating it."""


def _connect(address: str, secrets: Secrets, request_s: float) -> Any:
    """Returns the library's store for an address; a request may take REQUEST_S. Raises MburstError if the library is
    missing or refuses the address."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise extras.lacking("shipping to a bucket needs", "obstore", "ship") from None
    options: dict[str, Any] = {
        "client_options": {
            "timeout": timedelta(seconds=request_s),
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "user_agent": f"mburst/{__version__}",
            "allow_http": any(
                value.lower().startswith("http://") for name, value in os.environ.items() if _ENDPOINT.fullmatch(name)
            ),
        },
        "retry_config": {
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_S),
            "backoff": {
                "init_backoff": timedelta(seconds=0.2),
                "max_backoff": timedelta(seconds=LONGEST_WAIT_S),
                "base": 2,
            },
        },
    }
    try:
        return from_url(address, **options)
    except (BaseError, ValueError) as error:
        raise TargetError(
            f"{address}: cannot connect: {reason(str(error), secrets)}", "docs/fleet.md has what the environment needs"
        ) from None


def secrets_of(environment: Mapping[str, str]) -> Secrets:
    """Returns the values of the environment that are hidden wherever they appear."""
    return Secrets(
        value for name, value in environment.items() if _SECRET.fullmatch(name) and not _NO_SECRET.fullmatch(name)
    )


def reason(text: str, secrets: Secrets) -> str:
    """Returns the message of a library's error as one line without secrets. Of a server's answer it keeps only the
    status, and the code and message of S3, because servers repeat what was sent to them."""
    first = text.strip().partition("\n")[0]
    cause = _REQUEST.sub("", first)
    tries = _TRIES.search(first)
    if status := _STATUS.match(cause):
        cause = ": ".join([status[1], *(found[1].strip() for found in _ANSWER.findall(text)[:2])])
    elif beneath := _BENEATH.search(text):
        invalid = beneath["certificate"] and f"invalid certificate: {beneath['certificate']}"
        cause = f"{cause}: {beneath['system'] or invalid or 'timed out'}"
    return short(secrets.hide(_QUERY.sub("?…", cause)), MOST_REASON) + (f" ({tries[1]} retries)" if tries else "")
