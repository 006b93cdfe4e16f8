"""Delivery of reports: to a folder, by mail, to a webhook, to Alertmanager. Retried, and never twice."""

from .digest import Digest
from .ledger import Ledger
from .send import deliver

__all__ = ["Digest", "Ledger", "deliver"]
