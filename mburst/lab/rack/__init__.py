"""The rack in a box: senders, a top-of-rack switch, a cache server and an API host on one Linux machine.

Real packets pass through a real queue. Every host is a network namespace, the switch is a bridge, and its port to the
cache server is a line-rate FIFO. The cache server asks all senders at once (scatter), and their answers collide at that
port (gather): an incast, with the truth of every round written to a file.

It is part of the package rather than of tests/, because `mburst demo` needs it where no tests are installed; the tests
import this code. It touches nothing outside its namespaces.

    with Rack(senders=40) as rack, rack.record_pcap(Path("cache.pcap")):
        rounds = rack.run_rounds(20, truth=Path("truth.csv"))

It is measured by mburst's own verbs (verbs.py). The truth comes from elsewhere: the senders and the cache server note
what they sent and received, the kernel counts at the port (`tc -s`), and tcpdump captures.
"""

from .errors import RackUnavailable
from .rack import Rack
from .record import RecordedExperiment, check_seconds, record_rack
from .rounds import Round, read_truth

__all__ = ["Rack", "RackUnavailable", "RecordedExperiment", "Round", "check_seconds", "read_truth", "record_rack"]
