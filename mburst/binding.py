"""Why a socket cannot be bound to an address, and what to do: the same for whatever listens, and for what probes."""

from __future__ import annotations

import errno
import os

from .errors import MburstError

_REMEDIES = {
    errno.EADDRNOTAVAIL: "no interface of this machine has that address: `ip address` lists those that they have",
    errno.EADDRINUSE: "another process is listening there",
    errno.EACCES: "ports below 1024 need root or CAP_NET_BIND_SERVICE",
}


def cannot_bind(what: str, error: OSError, instead: str = "") -> MburstError:
    """The error that WHAT ("cannot listen on 10.0.0.1 port 862") failed, with the remedy for its reason. INSTEAD: how
    another address is chosen."""
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return MburstError(f"{what}: {reason}", "; ".join(filter(None, [_REMEDIES.get(error.errno or 0), instead])))
