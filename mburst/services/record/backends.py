"""The capture backends by name, the words of the options that they have in common, and what a recorder must know of
each backend in addition to what the engine reports."""

from __future__ import annotations

from typing import Literal

Backend = Literal["auto", "file", "ebpf", "afpacket", "libpcap", "pfring"]  # the order of capture/backend/backend.c
Direction = Literal["in", "out", "both"]
Stamps = Literal["auto", "hw", "sw"]
Hook = Literal["tc", "xdp"]
Sources = Literal["busy", "all"]

# Backends that see every packet that the interface counts: its counters show what was missed while nobody recorded.
SEE_ALL = ("afpacket", "libpcap")
# Backends that count by themselves, and not all that the engine counts in frames (MB_UNCOUNTED).
COUNT_LESS = ("ebpf",)
# Backends that open files of their choice, as libraries of network cards do: such a recording is not confined.
OPEN_FILES = ("pfring",)
# Backends that record one interface at a time.
ONE_INTERFACE = ("pfring",)
# Backends with targets of the form MODULE:NAME, such as pcap:FILE or zc:eth0, which need not exist as files.
DEVICES_OF_MODULES = ("pfring",)
