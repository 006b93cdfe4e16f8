"""Sources of names: files of each format as their makers write them, and one line for each fault."""

from __future__ import annotations

import json
import random

import pytest
from dnslib import answering

from mburst.errors import MburstError, UsageError
from mburst.telemetry.naming.files import names_in
from mburst.telemetry.naming.reverse_dns import ask
from mburst.telemetry.naming.rows import NamedPrefix, canonical

CSV = """address,name,service,rack,owner,from,until
# a comment
10.1.7.0/24,,db-shard,r7,storage,,
10.1.7.3,"db, three",,,,2026-11-20,2026-11-21T12:00
10.1.7.3,db-3,,,,2026-11-21T12:00,

2001:DB8::1,six,,,,,
02-00-00-00-00-01,mac,,,,,
"""
KUBECTL = {
    "kind": "List",
    "items": [
        {
            "kind": "Pod",
            "metadata": {"name": "db-0", "namespace": "prod", "labels": {"app": "db", "tier": "1"}},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running", "podIP": "10.244.0.7", "podIPs": [{"ip": "10.244.0.7"}, {"ip": "fd00::7"}]},
        },
        {
            "kind": "Pod",
            "metadata": {"name": "proxy", "namespace": "kube-system", "labels": {"app": "proxy"}},
            "spec": {"hostNetwork": True},
            "status": {"phase": "Running", "podIP": "192.168.0.1"},
        },
        {
            "kind": "Pod",
            "metadata": {"name": "job", "namespace": "prod"},
            "spec": {},
            "status": {"phase": "Succeeded", "podIP": "10.244.0.7"},
        },
        {
            "kind": "Pod",
            "metadata": {"name": "lone", "namespace": "dev", "labels": {"app.kubernetes.io/name": "tool"}},
            "spec": {},
            "status": {"phase": "Running", "podIP": "10.244.0.8"},
        },
        {"kind": "Pod", "metadata": {"name": "new", "namespace": "dev"}, "spec": {}, "status": {"phase": "Pending"}},
        {
            "kind": "Service",
            "metadata": {"name": "shard", "namespace": "prod"},
            "spec": {"selector": {"app": "db"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"hostname": "lb.example"}]}},
        },
        {
            "kind": "Service",
            "metadata": {"name": "a-headless", "namespace": "dev"},
            "spec": {"selector": {"app": "db"}, "clusterIP": "None", "clusterIPs": ["None"]},
            "status": {"loadBalancer": {}},
        },
        {
            "kind": "Node",
            "metadata": {"name": "node-1"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}, {"type": "Hostname", "address": ""}]
            },
        },
    ],
}
CONSUL = [
    {"Node": "n1", "Address": "10.0.0.1", "ServiceName": "db", "ServiceAddress": "", "NodeMeta": {"rack": "r7"}},
    {"Node": "n1", "Address": "10.0.0.1", "ServiceName": "cache", "ServiceAddress": "", "NodeMeta": {"rack": "r7"}},
    {"Node": "n2", "Address": "10.0.0.2", "ServiceName": "db", "ServiceAddress": "10.9.0.2"},
    {"Node": "n3", "Address": "n3.example", "ServiceName": "db"},
]


def test_csv() -> None:
    found = names_in(CSV, "names.csv")
    assert found.kind == "csv"
    moved = 1_795_262_400 * 10**9  # 2026-11-21T12:00
    assert found.names == [
        NamedPrefix("10.1.7.0/24", "", "db-shard", "r7", "storage"),
        NamedPrefix("10.1.7.3", "db, three", from_ns=moved - 36 * 3600 * 10**9, until_ns=moved),
        NamedPrefix("10.1.7.3", "db-3", from_ns=moved),
        NamedPrefix("2001:db8::1", "six"),
        NamedPrefix("02:00:00:00:00:01", "mac"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("address,nmae\n", "f:1: unknown column 'nmae'"),
        ("name,rack\n", "f:1: no column address"),
        ("address,name,name\n", "f:1: a column is there twice"),
        ("address,name\n10.0.0.300,a\n", "f:2: invalid address '10.0.0.300'"),
        ("address,name\n10.0.0.1/24,a\n", "f:2: invalid network '10.0.0.1/24': address bits beyond the prefix"),
        ("address,name\n10.0.0.1,\n", "f:2: 10.0.0.1 has no name, service, rack or owner"),
        ("address,name\n10.0.0.1,a,b\n", "f:2: 1 more cells than columns"),
        ("name,address\na\n", "f:2: invalid address ''"),
        ("address,name,from\n10.0.0.1,a,soon\n", "f:2: invalid time 'soon'"),
        ("address,name,from,until\n10.0.0.1,a,2026-01-02,2026-01-01\n", "f:2: until is not after from"),
        ("address,name\n10.0.0.1,a\n\n10.0.0.1,b\n", "f:4: 10.0.0.1 is in line 2 too, for the same time"),
        ("address,name\n10.0.0.1,\"a\n", "f:2: invalid CSV"),
        (f"address,name\n10.0.0.1,{'a' * 254}\n", "f:2: text longer than 253 characters"),
        ("nonsense\n", "f:1: invalid address 'nonsense'"),
        ("10.0.0.1\n", "f:1: 10.0.0.1 has no name"),
        ("{", "f: invalid JSON"),
        ('{"a": 1}', "f: unknown kind of JSON"),
        ('{"items": [{"kind": "Pod"}]}', "f: not as kubectl or Consul write it"),
        ('{"items": ["x"]}', "f: not as kubectl or Consul write it"),
        ('[{"Address": "10.0.0.1"}]', "f: not as kubectl or Consul write it"),
        ("[" * 100_000, "f: invalid JSON"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_one_line(text: str, message: str) -> None:
    with pytest.raises(MburstError) as caught:
        names_in(text, "f")
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_hosts() -> None:
    text = "127.0.0.1 localhost\n\n10.0.0.1\tdb-1.example db-1 # first\n10.0.0.1 again\nfe80::1%lo0 x\n::1 localhost\n"
    found = names_in(text, "/etc/hosts")
    names = [("10.0.0.1", "db-1.example"), ("127.0.0.1", "localhost"), ("::1", "localhost")]
    assert found == ("hosts", [NamedPrefix(*one) for one in names])


def test_kubernetes() -> None:
    found = names_in(json.dumps(KUBECTL, indent=4), "-")
    assert found.kind == "kubernetes"
    assert found.names == [
        NamedPrefix("10.244.0.7", "db-0.prod", "shard.prod", "", "prod"),
        NamedPrefix("10.244.0.8", "lone.dev", "tool.dev", "", "dev"),
        NamedPrefix("10.96.0.9", "shard.prod", "shard.prod", "", "prod"),
        NamedPrefix("192.168.0.1", "node-1"),
        NamedPrefix("203.0.113.9", "shard.prod", "shard.prod", "", "prod"),
        NamedPrefix("fd00::7", "db-0.prod", "shard.prod", "", "prod"),
    ]


def test_consul() -> None:
    assert names_in(json.dumps(CONSUL), "-") == (
        "consul",
        [NamedPrefix("10.0.0.1", "n1", "db, cache", "r7"), NamedPrefix("10.9.0.2", "n2", "db")],
    )


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("::FFFF:A00:1", "::ffff:10.0.0.1"),
        ("::ffff:10.0.0.1/128", "::ffff:10.0.0.1"),
        ("2001:0DB8::1", "2001:db8::1"),
        ("10.0.0.1/32", "10.0.0.1"),
    ],
)
def test_addresses_are_written_as_the_engine_does(text: str, stored: str) -> None:
    assert canonical(text) == stored


def test_reverse_dns() -> None:
    """A name, no name, and no answer are distinguished."""
    asked = ["10.0.0.1", "2001:db8::1", "10.0.0.2", "10.0.0.9", "02:00:00:00:00:01"]
    random.Random(1).shuffle(asked)
    with answering({"10.0.0.1": "db-1.example.", "2001:db8::1": "six.example.", "10.0.0.9": None}) as server:
        found = ask(asked, server.address, timeout_s=0.7)
    assert sorted(found.names) == [NamedPrefix("10.0.0.1", "db-1.example"), NamedPrefix("2001:db8::1", "six.example")]
    assert (found.nameless, found.unanswered) == (["10.0.0.2"], ["10.0.0.9"])
    assert len(set(server.asked)) == 4


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        *(
            (one, False)
            for one in ("10.9.9.9.", ".", "10.9.9.9/32.", "010.009.009.009.", "fe80::1%eth0.", "[fe80::1].")
        ),
        *((one, True) for one in ("1.2.3.", "xn--bcher-kva.example.", "host/1.", "10.9.9.9.example.")),
    ],
)
def test_an_address_or_an_empty_name_in_dns_names_nothing(answer: str, named: bool) -> None:
    """A sender would otherwise be shown as another address: whoever has the zone of an address decides on its names."""
    with answering({"10.0.0.1": answer}) as server:
        found = ask(["10.0.0.1"], server.address, timeout_s=10)
    assert found == (([NamedPrefix("10.0.0.1", answer.removesuffix("."))], [], []) if named else ([], ["10.0.0.1"], []))


@pytest.mark.parametrize("server", ["x", "10.0.0.1:0", "10.0.0.1:99999", "[::1]:x", "example.com:53"])
def test_a_dns_server_must_be_an_address(server: str) -> None:
    with pytest.raises(UsageError, match="invalid DNS server"):
        ask(["10.0.0.1"], server)
