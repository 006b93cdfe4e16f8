"""Receipts: the files that a host has shipped, with the checksum of each, and the time until which none is missing.

A receipt is an object `shipped/rack=RACK/host=HOST/TIME-DIGEST.json` of the target. TIME is when it was written (UTC);
DIGEST is the first 16 hexadecimal digits of the SHA-256 of its content. Receipts are only added. A file may be in
several receipts, always with the same checksum. Each names those before it, so that a removed one is noticed."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ..errors import MburstError
from ..sql.format.filenames import SHIPPED, rack_folder, rack_of
from ..typed import is_typed
from .target import FleetTarget

FORMAT = 1
AHEAD_NS = 600 * 10**9  # longest time by which a host's clock may be ahead; beyond it, its watermark is meaningless
MOST_BYTES = 1 << 26  # largest receipt: some 150,000 files
HINT = "remove it from the target once you know who changed it; `mburst ship` then states the files again"

_NAME = re.compile(
    rf"{SHIPPED}/(?P<rack>rack=[^/]*)/host=(?P<host>[^/]*)/(?P<time>\d{{8}}T\d{{6}}Z)-(?P<digest>[0-9a-f]{{16}})\.json",
    re.ASCII,
)


class ShippedFile(NamedTuple):
    """A file that has arrived. The times of its rows are in [min_ns, max_ns], in Unix nanoseconds."""

    table: str
    key: str
    bytes: int
    sha256: str
    rows: int
    min_ns: int
    max_ns: int


class Receipt(NamedTuple):
    """The files that one host shipped. Times are Unix nanoseconds.

    until_ns: every bin, sender and other measurement of this host before this time that its store had has arrived,
    except `missing`. since_ns: the first time in `files`, or until_ns if there are none. definition: the definition of
    bursts, if the level ships bursts. every_ns: the interval in which the host ships; None: on demand. replaces: keys
    of files that these files replace, and that no longer count. missing: damaged files that cannot be shipped, each
    with its reason. compacted_ns: the first and last time of rows of the host's rack that were compacted before the
    host first shipped and therefore do not arrive; None: there are none. previous: the receipts of the host before this
    one, without those that one of them names. restates: removed receipts all of whose files are in receipts again."""

    rack: str
    host: str
    level: str
    tables: tuple[str, ...]
    definition: dict[str, Any] | None
    since_ns: int
    until_ns: int
    written_ns: int
    every_ns: int | None
    version: str
    files: tuple[ShippedFile, ...]
    replaces: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    compacted_ns: tuple[int, int] | None = None
    previous: tuple[str, ...] = ()
    restates: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Returns the content of the receipt's object; equal receipts give equal bytes."""
        facts = {**self._asdict(), "format": FORMAT, "files": [file._asdict() for file in self.files]}
        return (json.dumps(facts, ensure_ascii=False, indent=0, sort_keys=True) + "\n").encode("utf-8", "surrogatepass")

    @classmethod
    def from_json(cls, content: bytes) -> Receipt:
        """Returns the receipt in an object. Raises ValueError if it is not a receipt."""
        facts = json.loads(content.decode("utf-8", "surrogatepass"))
        try:
            if facts.pop("format") != FORMAT:
                raise ValueError("of another format")
            files = tuple(ShippedFile(**file) for file in facts.pop("files"))
            lists: dict[str, Any] = {name: tuple(facts.pop(name)) for name in ("tables", "replaces", "missing")}
            lists |= {name: tuple(facts.pop(name, ())) for name in ("previous", "restates")}
            compacted = facts.pop("compacted_ns", None)
            receipt = cls(files=files, **lists, compacted_ns=compacted and tuple(compacted), **facts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("not a receipt") from error
        if not is_typed(receipt):
            raise ValueError("not a receipt")
        return receipt


class ReceiptName(NamedTuple):
    """The parts of a receipt's key."""

    key: str
    rack: str
    host: str
    written_ns: int  # truncated to the second
    digest: str

    @classmethod
    def parse(cls, key: str) -> ReceiptName | None:
        """Returns the parts of KEY, None if it is not the key of a receipt."""
        match = _NAME.fullmatch(key)
        try:
            written = datetime.strptime(match["time"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) if match else None
        except ValueError:
            return None
        if match is None or written is None:
            return None
        rack, host = rack_of(match["rack"]), unquote(match["host"])
        return cls(key, rack, host, int(written.timestamp()) * 10**9, match["digest"])


def folder_of(rack: str | None = None, host: str | None = None) -> str:
    """Returns the prefix of the receipts of a rack and host; None selects all."""
    parts = [SHIPPED] + ([rack_folder(rack)] if rack is not None else [])
    parts += [f"host={quote(host, safe='')}"] if rack is not None and host is not None else []
    return "/".join(parts) + "/"


def key_of(receipt: Receipt, content: bytes) -> str:
    """Returns the key of a receipt with this CONTENT."""
    written = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(receipt.written_ns // 10**9))
    return f"{folder_of(receipt.rack, receipt.host)}{written}-{_digest(content)}.json"


def write_receipt(target: FleetTarget, receipt: Receipt) -> str:
    """Put a receipt, and return its key. Raises TargetError."""
    content = receipt.to_json()
    key = key_of(receipt, content)
    target.put_new(key, content)
    return key


def list_receipts(target: FleetTarget, rack: str | None = None, host: str | None = None) -> Iterator[ReceiptName]:
    """Yields the existing receipts, of a rack and host if they are given, by rack, host and time. Raises
    TargetError."""
    for stored in target.list(folder_of(rack, host)):
        name = ReceiptName.parse(stored.key)
        if name is not None and host in (None, name.host):
            yield name


def read_receipt(target: FleetTarget, name: ReceiptName) -> Receipt:
    """Returns a receipt whose content matches its key. Raises TargetError, and DamagedReceipt."""
    content = b""
    for piece in target.pieces(name.key):
        content += piece
        if len(content) > MOST_BYTES:
            raise DamagedReceipt(f"{target.place(name.key)}: damaged: larger than {MOST_BYTES:,} bytes", HINT)
    if _digest(content) != name.digest:
        raise DamagedReceipt(f"{target.place(name.key)}: damaged: the content does not match its checksum", HINT)
    try:
        receipt = Receipt.from_json(content)
    except (ValueError, RecursionError) as error:
        raise DamagedReceipt(f"{target.place(name.key)}: damaged: {error}", HINT) from error
    if (receipt.rack, receipt.host) != (name.rack, name.host):
        raise DamagedReceipt(f"{target.place(name.key)}: damaged: of another rack or host than its key", HINT)
    return receipt


class DamagedReceipt(MburstError):
    """A receipt whose content is not what was written."""


def age(of: ReceiptName | Receipt, now_ns: int) -> tuple[bool, int]:
    """Orders receipts, the newest last. Those of a clock that was ahead at NOW_NS come first: they say nothing of their
    time."""
    return not is_ahead(of, now_ns), of.written_ns


def is_ahead(of: ReceiptName | Receipt, now_ns: int) -> bool:
    """Whether a clock that was ahead wrote a receipt: it is later than NOW_NS."""
    return of.written_ns > now_ns + AHEAD_NS


def believed(receipt: Receipt, now_ns: int) -> Receipt:
    """Returns a receipt, without its watermark if a clock that was ahead wrote it."""
    return receipt._replace(until_ns=0) if is_ahead(receipt, now_ns) else receipt


def newest_receipt(
    target: FleetTarget,
    names: Iterable[ReceiptName],
    now_ns: int,
    damaged: Callable[[DamagedReceipt], None] = lambda _: None,
) -> Receipt | None:
    """Returns the newest undamaged receipt of one host's receipts NAMES, by `age`. Within a second, the time in the
    receipts decides. DAMAGED is called for each damaged one. Raises TargetError."""
    newest: Receipt | None = None
    for name in sorted(names, key=lambda name: age(name, now_ns), reverse=True):
        if newest is not None and age(name, now_ns) < (age(newest, now_ns)[0], newest.written_ns // 10**9 * 10**9):
            break
        try:
            receipt = read_receipt(target, name)
        except DamagedReceipt as error:
            damaged(error)
            continue
        if newest is None or age(receipt, now_ns) > age(newest, now_ns):
            newest = receipt
    return newest


def shipped_until(target: FleetTarget, rack: str, host: str, now_ns: int) -> int:
    """Returns the watermark of a host at TARGET, 0 if it has none. Raises TargetError."""
    newest = newest_receipt(target, list_receipts(target, rack, host), now_ns)
    return believed(newest, now_ns).until_ns if newest else 0


def read_receipts(
    target: FleetTarget,
    rack: str | None = None,
    host: str | None = None,
    written_since_ns: int | None = None,
    damaged: Callable[[DamagedReceipt], None] | None = None,
) -> Iterator[Receipt]:
    """Yields the receipts of a rack and host, or of all, that were written from WRITTEN_SINCE_NS on. DAMAGED is called
    with each damaged receipt; without it, the first is raised. Raises TargetError."""
    for name in list_receipts(target, rack, host):
        if written_since_ns is not None and name.written_ns < written_since_ns // 10**9 * 10**9:
            continue
        try:
            yield read_receipt(target, name)
        except DamagedReceipt as error:
            if damaged is None:
                raise
            damaged(error)


def removed_receipts(receipts: Collection[Receipt], there: Collection[str]) -> Iterator[tuple[ReceiptName, str]]:
    """Yields the receipts that RECEIPTS name, that are not THERE and that no other one restates, each with its host.
    What they state is not known, and neither is what those before them do."""
    accounted = {*there}.union(*(receipt.restates for receipt in receipts))
    for receipt in receipts:
        for name in map(ReceiptName.parse, receipt.previous):
            if name is not None and name.key not in accounted:
                yield name, receipt.host


def files_of(
    receipts: Iterable[Receipt], damaged: Callable[[DamagedReceipt, ShippedFile], None] | None = None
) -> dict[str, ShippedFile]:
    """Returns the files in RECEIPTS by key, without files that were replaced. A file for which two receipts state
    different content is left out, and DAMAGED is called for it; without DAMAGED, an error is raised."""
    found: dict[str, ShippedFile] = {}
    replaced: set[str] = set()
    for receipt in receipts:
        replaced.update(receipt.replaces)
        for file in receipt.files:
            if (before := found.setdefault(file.key, file)).sha256 != file.sha256 and file.key not in replaced:
                replaced.add(file.key)
                stated = f"receipts of host {receipt.host} state SHA-256 {before.sha256} and {file.sha256}"
                error = DamagedReceipt(f"{file.key}: {stated}", "somebody has changed the file or a receipt")
                if damaged is None:
                    raise error
                damaged(error, file)
    return {key: file for key, file in found.items() if key not in replaced}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
