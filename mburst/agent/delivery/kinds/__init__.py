"""The kinds of delivery: each has a file, and an entry in KINDS."""

from ..kind import Kind
from . import alertmanager, folder, smtp, webhook

KINDS: dict[str, Kind] = {kind.name: kind for kind in (folder.KIND, smtp.KIND, webhook.KIND, alertmanager.KIND)}
