"""Delivery of reports to a folder, by mail, to a webhook, or to Alertmanager. It is retried, but never
repeated."""

from .destinations import delivery_of, folders_of
from .digest import Digest
from .kind import Delivery
from .ledger import DeliveryKey, DeliveryLedger
from .send import deliver

__all__ = ["Delivery", "DeliveryKey", "DeliveryLedger", "Digest", "deliver", "delivery_of", "folders_of"]
