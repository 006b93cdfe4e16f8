"""Names from `kubectl get pods,services,nodes -A -o json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .rows import LONGEST, NamedPrefix, canonical, is_address

OVER = ("Succeeded", "Failed")  # phases of pods whose addresses may be reused
APP = ("app.kubernetes.io/name", "app")  # labels that name the service of a pod if no Service selects it


def names_of(items: Sequence[Mapping[str, Any]]) -> list[NamedPrefix]:
    """Returns pods by the Service that selects them, Services by their addresses, nodes by theirs. A service is called
    NAME.NAMESPACE as in the cluster's DNS, and the namespace is the owner. Pods in the network of their node have no
    address of their own. Raises KeyError and TypeError for content that kubectl does not write."""
    services = sorted((one for one in items if one["kind"] == "Service"), key=_called)
    found: list[NamedPrefix] = []
    for one in items:
        if one["kind"] == "Pod" and not one["spec"].get("hostNetwork") and one["status"].get("phase") not in OVER:
            found += _rows(one, _pod_addresses(one["status"]), _service(one, services))
        elif one["kind"] == "Service":
            found += _rows(one, _service_addresses(one), _called(one))
        elif one["kind"] == "Node":
            known = one["status"].get("addresses", [])
            found += [NamedPrefix(canonical(of["address"]), _cut(one["metadata"]["name"])) for of in known
                      if of["type"] in ("InternalIP", "ExternalIP") and is_address(of["address"])]  # fmt: skip
    return found


def _called(one: Mapping[str, Any]) -> str:
    return f"{one['metadata']['name']}.{one['metadata']['namespace']}"


def _cut(text: str) -> str:
    return str(text)[:LONGEST]


def _rows(one: Mapping[str, Any], addresses: Iterator[str], service: str) -> list[NamedPrefix]:
    own = {canonical(address) for address in addresses if is_address(address)}
    return [
        NamedPrefix(address, _cut(_called(one)), _cut(service), "", _cut(one["metadata"]["namespace"]))
        for address in sorted(own)
    ]


def _service(pod: Mapping[str, Any], services: Sequence[Mapping[str, Any]]) -> str:
    """The first Service by name whose selector matches the labels of the pod, or the application that a label names."""
    about = pod["metadata"]
    labels = about.get("labels") or {}
    for service in services:
        selector = service["spec"].get("selector")
        if selector and service["metadata"]["namespace"] == about["namespace"] and selector.items() <= labels.items():
            return _called(service)
    app = next((labels[label] for label in APP if label in labels), "")
    return f"{app}.{about['namespace']}" if app else ""


def _pod_addresses(status: Mapping[str, Any]) -> Iterator[str]:
    yield from (one["ip"] for one in status.get("podIPs") or [] if "ip" in one)
    yield status.get("podIP") or ""


def _service_addresses(service: Mapping[str, Any]) -> Iterator[str]:
    spec = service["spec"]
    yield from spec.get("clusterIPs") or [spec.get("clusterIP") or ""]
    yield from spec.get("externalIPs") or []
    for one in (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or []:
        yield one.get("ip") or ""
