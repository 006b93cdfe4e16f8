"""Get: the present values of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ..telemetry.gnmi import messages
from ..telemetry.gnmi.path import Steps, as_text
from .encoding import notification, path, subtree, typed
from .requests import GetRequest
from .schema import LeafModel, RequestRefused, is_exact, matched
from .tree import LeafSelection, ServedLeaf, Tree, Value
from .watermarks import DepthWindows

# This agent serves only state: everything is "config false" in the models.
_OF_TYPE: dict[str, Callable[[LeafModel], bool]] = {
    "ALL": lambda kind: True,
    "CONFIG": lambda kind: False,
    "STATE": lambda kind: True,
    "OPERATIONAL": lambda kind: kind.operational,
}


def taken(tree: Tree, asked: GetRequest, windows: list[DepthWindows]) -> Iterator[Any]:
    """Yields a Notification for each path of a GetRequest, in its order, with the time of its values (gNMI
    specification 3.3.2). In PROTO an update is a leaf; in JSON it is everything at or below one node that the path
    names. Raises RequestRefused."""
    for selected, depths in zip(asked.paths, windows, strict=True):
        found = [(leaf, value) for leaf in tree.leaves(selected, depths) if (value := leaf.read()) is not None]
        now_ns = time.time_ns()
        if not found and is_exact(selected.steps):
            raise RequestRefused(f"{as_text(selected.steps)} does not exist here", "NOT_FOUND")
        found = [(leaf, value) for leaf, value in found if _OF_TYPE[asked.type](leaf.kind)]
        yield notification(now_ns, list(_updates(selected, found, asked.encoding)), asked.target)


def _updates(selected: LeafSelection, found: list[tuple[ServedLeaf, Value]], encoding: str) -> Iterator[Any]:
    if encoding == "PROTO":
        for leaf, value in found:
            yield messages.Update(path=path(leaf.steps), val=typed(value, leaf.kind, encoding))
        return
    nodes: dict[Steps, list[tuple[ServedLeaf, Value]]] = {}
    for leaf, value in found:
        nodes.setdefault(leaf.steps[: matched(selected.steps, leaf.steps)], []).append((leaf, value))
    for node, below in nodes.items():
        yield messages.Update(path=path(node), val=subtree(node, below, encoding))
