"""Sending of a digest to one destination: retries, waits, and entries in the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...errors import MburstError
from ...names import MOST_REASON, short
from . import ledger as book
from .digest import Digest
from .kind import Delivery, MaybeDelivered, NotDelivered
from .kinds import KINDS
from .ledger import DeliveryLedger


def deliver(
    digest: Digest,
    to: Delivery,
    ledger: DeliveryLedger,
    report: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Deliver a digest, unless it was, or may have been, delivered. Returns whether nothing is left to do. Raises
    MburstError if the ledger cannot be written; then nothing is sent."""
    key = digest.key(to.name)
    if ledger.state(key) in (book.DONE, book.UNSURE):
        return True
    if to.when == "bursts" and not digest.bursting and not digest.troubles:
        return True
    send = KINDS[to.kind].send
    for attempt in range(1, to.attempts + 1):
        ledger.say(key, book.SENDING)
        try:
            send(digest, to)
        except (NotDelivered, MburstError) as error:
            reason = f"{_reason(error, to)} ({attempt} of {to.attempts} tries)"
            ledger.say(key, book.FAILED, reason)
            report(f"{to.name}: not delivered: {reason}")
            if attempt < to.attempts:
                sleep(to.wait_ns / 1e9 * 2 ** (attempt - 1))
        except Exception as error:  # MaybeDelivered, or an unforeseen error: it is not known how far the delivery came
            reason = (
                _reason(error, to) if isinstance(error, MaybeDelivered) else f"internal error: {type(error).__name__}"
            )
            ledger.say(key, book.UNSURE, f"{reason}: it may have arrived, and is not sent again")
            report(f"{to.name}: may not have been delivered: {reason}")
            return True
        else:
            ledger.say(key, book.DONE)
            report(f"{to.name}: delivered {digest.report}, {digest.period}")
            return True
    return False


def _reason(error: Exception, to: Delivery) -> str:
    """Returns the reason of a failure as one line without secrets."""
    return short(to.secrets.hide(str(error)), MOST_REASON)
