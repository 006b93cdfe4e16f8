"""Errors of binding a socket to an address, with the remedy. Servers and probes share them."""

from __future__ import annotations

import errno
import os

from ..errors import MburstError

_REMEDIES = {
    errno.EADDRNOTAVAIL: "no interface of this machine has that address: `ip address` lists those that they have",
    errno.EADDRINUSE: "another process is listening there",
    errno.EACCES: "ports below 1024 need root or CAP_NET_BIND_SERVICE",
}


def cannot_bind(what: str, error: OSError, instead: str = "") -> MburstError:
    """Returns the error for WHAT, such as "cannot listen on 10.0.0.1 port 862", with the remedy for its reason. INSTEAD
    says how to choose another address."""
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return MburstError(f"{what}: {reason}", "; ".join(filter(None, [_REMEDIES.get(error.errno or 0), instead])))
