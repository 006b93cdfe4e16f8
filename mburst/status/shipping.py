"""The status of shipping: whether the data of a mburst.toml's [ship] can be shipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..agent.config import RunConfig, RunPart


@dataclass(frozen=True)
class ShippingStatus:
    """The status of a part [ship]. `refused` are hosts that are never shipped, because they have no name or no rack."""

    name: str
    store: str
    refused: list[str]

    def unwell(self) -> list[str]:
        """Returns the problems, one sentence each."""
        return [f"{self.name}: {host} of {self.store} is not shipped: a fleet needs names" for host in self.refused]


def parts_of(config: RunConfig) -> list[RunPart]:
    """Returns the parts that ship."""
    return [part for part in config.parts if part.argv[0] == "ship"]


def read(part: RunPart) -> ShippingStatus:
    """Read the store of a part. Raises MburstError if it cannot be read."""
    from ..cli import build_parser
    from ..cli.ship import settings_of
    from ..fleet.sealed import is_named, list_hosts
    from ..sql import StoreFolder

    arguments = build_parser("ship").parse_args(part.argv)
    store = StoreFolder.open(arguments.store)
    hosts = list_hosts(store.path, {"recordings", "bins"}, settings_of(arguments).own)
    return ShippingStatus(part.name, arguments.store, [str(name) for name in sorted(hosts) if not is_named(name)])
