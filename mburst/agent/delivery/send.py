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
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """Deliver a digest, unless it was, or may have been, delivered. Returns whether nothing is left to do. PAUSE waits
    between two tries; if it returns a true value, this process shall end, and no other try begins. Raises MburstError
    if the ledger cannot be written; then nothing is sent."""
    key = digest.key(to.name)
    if ledger.state(key) in (book.DONE, book.UNSURE):
        return True
    why = "no burst" if to.when == "bursts" and digest.is_calm else KINDS[to.kind].needless(digest, to)
    if why:
        if ledger.state(key) != book.NOTHING:
            ledger.say(key, book.NOTHING, why)
            report(f"{to.name}: nothing to send of {digest.report}, {digest.period}: {why}")
        return True
    for attempt in range(1, to.attempts + 1):
        state, reason = _try(digest, to, ledger)
        if state == book.DONE:
            ledger.say(key, state)
            report(f"{to.name}: delivered {digest.report}, {digest.period}")
            return True
        if state == book.UNSURE:
            ledger.say(key, state, f"{reason}: it may have arrived, and is not sent again")
            report(f"{to.name}: may not have been delivered: {reason}")
            return True
        reason += f" ({attempt} of {to.attempts} tries)"
        ledger.say(key, state, reason)
        report(f"{to.name}: not delivered: {reason}")
        if attempt < to.attempts and pause(to.wait_ns / 1e9 * 2 ** (attempt - 1)):
            break
    return False


def _try(digest: Digest, to: Delivery, ledger: DeliveryLedger) -> tuple[str, str]:
    """Try to deliver once. Returns the state of the delivery, and the reason of a failure."""
    begun = False

    def begin() -> None:
        nonlocal begun
        ledger.say(digest.key(to.name), book.SENDING)
        begun = True

    try:
        KINDS[to.kind].send(digest, to, begin)
    except (NotDelivered, MburstError) as error:
        return book.FAILED, _reason(error, to)
    except MaybeDelivered as error:
        return book.UNSURE, _reason(error, to)
    except Exception as error:  # unforeseen: once sending has begun, it is not known how far the delivery came
        return book.UNSURE if begun else book.FAILED, f"internal error: {type(error).__name__}"
    return book.DONE, ""


def _reason(error: Exception, to: Delivery) -> str:
    """Returns the reason of a failure as one line without secrets."""
    return short(to.secrets.hide(str(error)), MOST_REASON)
