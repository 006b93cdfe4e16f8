"""The receiver as a configuration asks for it: gRPC, HTTP or both."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..telemetry.otlp.config import OtlpConfig
from ..telemetry.otlp.intake import Intake
from .entries import opened
from .grpc_service import GrpcService
from .http import HttpService
from .reception import Reception
from .refusals import Refusals
from .service import OtlpService

SERVICES = {"h2": GrpcService, "http/1.1": HttpService}


class OtlpReceiver:
    """Takes what senders send into an intake. `full` says whether the store is behind, `say` gets lines for people.
    Listens from the beginning on, and takes nothing before it is started. Raises MburstError."""

    def __init__(
        self, config: OtlpConfig, intake: Intake, full: Callable[[], bool], say: Callable[[str], None]
    ) -> None:
        self._say, self.refusals = say, Refusals(say)
        reception = Reception(intake, config.token, full, self.refusals)
        self._opened = opened(config, say)
        self._services = [SERVICES[one.entry.protocol](one, reception, config.message_bytes) for one in self._opened]
        self._started: list[OtlpService] = []

    @property
    def socket_folders(self) -> list[str]:
        """Where Unix sockets are, which are removed in the end."""
        paths = [one.listener.address.path for one in self._opened]
        return [os.path.dirname(path) or "." for path in paths if path]

    async def start(self) -> None:
        """Serve."""
        for service, entry in zip(self._services, self._opened, strict=True):
            self._started.append(service)
            await service.start()
            self._say(str(entry))

    async def stop(self) -> None:
        """Answer what is under way, and end."""
        for service in self._started:
            await service.stop()
        self.close()

    def close(self) -> None:
        """Listen no more."""
        for one in self._opened:
            one.listener.close()
