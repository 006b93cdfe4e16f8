"""What a kind of delivery declares: its name, its keys, and how it sends. docs/add-a-delivery.md adds one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..secrets import Secrets

if TYPE_CHECKING:
    from .digest import Digest


class NotDelivered(Exception):
    """It surely did not arrive: it can be sent again."""


class MaybeDelivered(Exception):
    """It may have arrived: it must not be sent again."""


@dataclass(frozen=True)
class Delivery:
    """Where reports go. `settings` are the keys of its kind; `site` is where the output folder is published, or ''."""

    name: str
    kind: str
    attempts: int
    wait_ns: int
    timeout_ns: int
    site: str
    when: str
    settings: Mapping[str, Any] = field(repr=False)  # with secrets
    secrets: Secrets = field(default_factory=Secrets)


@dataclass(frozen=True)
class SettingKey:
    """A key of [[deliver]]. `read(name, value)` checks a value and puts it into the form in which it is used
    (values.py); it raises UsageError with the name of the key, and without the value unless the key is literal."""

    name: str
    about: str  # for docs/operate.md
    read: Callable[[str, Any], Any]
    default: Any = None  # as it would be written in the file; None: there is none
    needed: bool = False
    secret: bool = False  # its value is hidden wherever it comes from
    literal: bool = False  # ${NAME} is not replaced in it
    folder: bool = False  # its value is a folder that is written to


def read_keys(keys: Iterable[SettingKey], values: Mapping[str, Any]) -> dict[str, Any]:
    """The VALUES of all KEYS in the form in which they are used; the default where there is none. Raises UsageError."""
    given = {key: values.get(key.name, key.default) for key in keys}
    return {key.name: None if value is None else key.read(key.name, value) for key, value in given.items()}


@dataclass(frozen=True)
class Kind:
    """A kind of delivery. `send` hands a digest over; it raises NotDelivered or MburstError where it surely did not
    arrive, and MaybeDelivered where it may have. `check` looks at all settings together and raises MburstError: what it
    needs is not installed, or keys exclude each other."""

    name: str
    about: str  # what arrives, for docs/operate.md
    keys: tuple[SettingKey, ...]
    send: Callable[[Digest, Delivery], None]
    check: Callable[[Mapping[str, Any]], None] = lambda settings: None

    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What `send` finds in a delivery. Raises UsageError for a wrong value, and what `check` raises."""
        settings = read_keys(self.keys, values)
        self.check(settings)
        return settings
