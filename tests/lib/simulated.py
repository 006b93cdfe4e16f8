"""Small simulated cases of every kind that the simulator knows."""

from __future__ import annotations

from typing import Any

G = 10**9

SMALL: dict[str, Any] = {
    "rounds": 3,
    "senders": 6,
    "bytes_per_sender": 20_000,
    "period_ns": 20_000_000,
    "reaction_jitter_ns": 100_000,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ipv6": {"ip_version": 6},
    "vlan, routed, whole frames": {"vlan": 42, "routed": True, "snaplen": 0},
    "ipv6, vlan, snap length 64": {"ip_version": 6, "vlan": 4094, "snaplen": 64},
    "snap length 14": {"snaplen": 14},
    "drops": {"buffer_bytes": 40_000},
    "tcp": {"protocol": "tcp", "snaplen": 0},
    "tcp over ipv6 with drops": {"protocol": "tcp", "ip_version": 6, "buffer_bytes": 30_000, "rto_ns": 4_000_000},
    "marks": {"ecn_threshold_bytes": 30_000, "snaplen": 0},
    "marks on ipv6": {"ecn_threshold_bytes": 30_000, "ip_version": 6},
    "100M": {"link_bps": G // 10},
    "25G, jumbo": {"link_bps": 25 * G, "mtu": 9000, "bytes_per_sender": 10**6, "reaction_jitter_ns": 10_000},
    "100G": {"link_bps": 100 * G, "sender_bps": 25 * G, "reaction_jitter_ns": 1000, "period_ns": 2_000_000},
    "out of order": {"stamp_jitter_ns": 500_000},
    "one direction": {"both_directions": False},
    "tiny answers": {"bytes_per_sender": 3, "snaplen": 0},
    "quiet": {"rounds": 0},
}
