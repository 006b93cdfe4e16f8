"""The status of shipping: whether the data of a mburst.toml's [ship] can be shipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..agent.config import RunConfig, RunPart


@dataclass(frozen=True)
class ShippingStatus:
    """The status of a part [ship]. `refused` are hosts that are never shipped because they have no name or no rack,
    `cut` those that are not because names of files have only the beginning of theirs."""

    name: str
    store: str
    refused: list[str]
    cut: list[str]

    def unwell(self) -> list[str]:
        """Returns the problems, one sentence each."""
        from ..fleet.sealed import CUT, NO_NAMES

        reasons = [*((host, NO_NAMES) for host in self.refused), *((host, CUT) for host in self.cut)]
        return [f"{self.name}: {host} of {self.store} is not shipped: {reason}" for host, reason in reasons]


def parts_of(config: RunConfig) -> list[RunPart]:
    """Returns the parts that ship."""
    return [part for part in config.parts if part.argv[0] == "ship"]


def read(part: RunPart) -> ShippingStatus:
    """Read the store of a part. Raises MburstError if it cannot be read."""
    from ..cli import build_parser
    from ..cli.ship import settings_of
    from ..fleet.sealed import CUT, NO_NAMES, list_hosts
    from ..sql import StoreFolder

    arguments = build_parser("ship").parse_args(part.argv)
    store = StoreFolder.open(arguments.store)
    hosts = list_hosts(store.path, {"recordings", "bins"}, settings_of(arguments).own)
    refused, cut = (
        [found.shown for _, found in sorted(hosts.items()) if found.refused == reason] for reason in (NO_NAMES, CUT)
    )
    return ShippingStatus(part.name, arguments.store, refused, cut)
