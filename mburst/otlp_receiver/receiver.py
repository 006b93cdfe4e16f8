"""The receiver as a configuration asks for it: gRPC, HTTP or both."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from ..gnmi_target import tls
from ..gnmi_target.listening import parse
from ..telemetry.otlp.config import OtlpConfig
from ..telemetry.otlp.intake import Intake
from .http import HttpService
from .reception import Reception
from .service import GrpcService


class OtlpReceiver:
    """Takes what senders send into an intake. `full` says whether the store is behind, `say` gets lines for people."""

    def __init__(
        self, config: OtlpConfig, intake: Intake, full: Callable[[], bool], say: Callable[[str], None]
    ) -> None:
        self._say = say
        reception = Reception(intake, config.token, full, say)
        services = ((GrpcService, config.listen), (HttpService, config.http))
        self._services = [
            kind(parse(address), context(config), reception, config.message_bytes, say)
            for kind, address in services
            if address
        ]

    async def start(self) -> None:
        """Serve. Raises MburstError."""
        for service in self._services:
            self._say(await service.start())

    async def stop(self) -> None:
        """Answer what is under way, and end."""
        for service in self._services:
            await service.stop()


def context(config: OtlpConfig) -> ssl.SSLContext | None:
    """TLS as it is configured; None without. Raises MburstError."""
    if not config.tls_cert:
        return None
    client_ca = Path(config.tls_client_ca) if config.tls_client_ca else None
    return tls.context(tls.Certificates(Path(config.tls_cert), Path(config.tls_key), client_ca))
