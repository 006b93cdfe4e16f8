"""The declaration of a kind of delivery: its name, its keys, and its way of sending. docs/add-a-delivery.md adds
one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..secrets import Secrets

if TYPE_CHECKING:
    from .digest import Digest


Begin = Callable[[], None]  # notes that a digest is being sent; raises MburstError if the ledger cannot be written


class NotDelivered(Exception):
    """The digest certainly did not arrive; it can be sent again."""


class MaybeDelivered(Exception):
    """The digest may have arrived; it must not be sent again."""


@dataclass(frozen=True)
class Delivery:
    """A destination of reports. `settings` are the keys of its kind; `site` is the address at which the output folder
    is published, or ''."""

    name: str
    kind: str
    attempts: int
    wait_ns: int
    timeout_ns: int
    site: str
    when: str
    settings: Mapping[str, Any] = field(repr=False)  # contains secrets
    secrets: Secrets = field(default_factory=Secrets)

    def by_value(self) -> tuple[object, ...]:
        """Returns all of it, secrets too, as values that are equal if and only if the deliveries are. For digests, and
        never for messages."""
        plain = [getattr(self, one.name) for one in fields(self) if one.name not in ("settings", "secrets")]
        return (*plain, sorted(self.settings.items()), sorted(self.secrets.values))


@dataclass(frozen=True)
class SettingKey:
    """A key of [[deliver]]. `read(name, value)` checks a value and returns it in the form in which it is used
    (values.py). It raises UsageError with the name of the key; the error contains the value only if the key is
    literal."""

    name: str
    about: str  # for docs/operate.md
    read: Callable[[str, Any], Any]
    default: Any = None  # as written in the file; None: there is no default
    needed: bool = False
    secret: bool = False  # its value is hidden, wherever it comes from
    literal: bool = False  # ${NAME} is not replaced in it
    folder: bool = False  # its value is a folder that is written


def read_keys(keys: Iterable[SettingKey], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the VALUES of all KEYS in the form in which they are used, or their defaults. Raises UsageError."""
    given = {key: values.get(key.name, key.default) for key in keys}
    return {key.name: None if value is None else key.read(key.name, value) for key, value in given.items()}


@dataclass(frozen=True)
class Kind:
    """A kind of delivery. `send` hands a digest over. If sending it twice does harm, `send` calls its third argument
    right before the first byte with which the digest could arrive: the ledger then has that it may have arrived, even
    if this process is killed. It raises NotDelivered or MburstError if the digest certainly did not arrive, and
    MaybeDelivered if it may have; any other error means the first before that call, and the second after it.
    `check` checks the settings together: it raises MburstError if something that it needs is not installed, and
    UsageError if keys exclude each other. `needless` returns why nothing of a digest would be sent, '' if something
    is."""

    name: str
    about: str  # the form of the report, for docs/operate.md
    keys: tuple[SettingKey, ...]
    send: Callable[[Digest, Delivery, Begin], None]
    check: Callable[[Mapping[str, Any]], None] = lambda settings: None
    needless: Callable[[Digest, Delivery], str] = lambda digest, to: ""

    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings that `send` finds in a delivery. Raises UsageError for an invalid value, and what
        `check` raises."""
        settings = read_keys(self.keys, values)
        self.check(settings)
        return settings
