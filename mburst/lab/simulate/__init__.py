"""A seeded scatter/gather incast through a drop-tail port: a capture, its probes and queues, and the truth about them.

    case = simulate(Scenario(seed=7, link_bps=25 * 10**9))
    paths = case.write(Path("demo"))

numpy draws the times, scapy builds one frame of each kind. The same scenario gives the same bytes with the same release
of numpy.
"""

from .case import SimulatedCase, simulate
from .scenario import FrameKind, Scenario

__all__ = ["FrameKind", "Scenario", "SimulatedCase", "simulate"]
