"""The kinds of delivery: a file and a line each."""

from ..kind import Kind
from . import alertmanager, folder, smtp, webhook

KINDS: dict[str, Kind] = {kind.name: kind for kind in (folder.KIND, smtp.KIND, webhook.KIND, alertmanager.KIND)}
