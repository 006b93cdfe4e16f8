"""The receiver of a configuration: gRPC, HTTP or both."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import suppress

from ..telemetry.otlp.config import OtlpConfig
from ..telemetry.otlp.intake import Intake
from .entries import opened
from .grpc_service import GrpcService
from .http import HttpService
from .reception import Reception
from .refusals import Refusals
from .service import OtlpService

# Modules that are imported at their first use. A process that serves may be a user by then who cannot read them.
LATER = ("grpc.aio", "grpc._utilities", "h11", "concurrent.futures.thread", "numpy.ma")
SERVICES = {"h2": GrpcService, "http/1.1": HttpService}


class OtlpReceiver:
    """Takes the messages of senders into an intake. `full` returns whether the store is behind; `say` gets lines for
    users. It listens once it is created, but takes no messages before `start`. Raises MburstError."""

    def __init__(
        self, config: OtlpConfig, intake: Intake, full: Callable[[], bool], say: Callable[[str], None]
    ) -> None:
        for name in LATER:
            with suppress(ImportError):  # who needs it reports that it is missing
                importlib.import_module(name)
        self._say, self.refusals = say, Refusals(say)
        reception = Reception(intake, config.token, full, self.refusals)
        self._opened = opened(config, say)
        self._services = [SERVICES[one.entry.protocol](one, reception, config.message_bytes) for one in self._opened]
        self._started: list[OtlpService] = []

    @property
    def socket_folders(self) -> list[str]:
        """The folders of Unix sockets, which are removed in the end."""
        paths = [one.listener.address.path for one in self._opened]
        return [os.path.dirname(path) or "." for path in paths if path]

    async def start(self) -> None:
        """Begin to serve."""
        for service, entry in zip(self._services, self._opened, strict=True):
            self._started.append(service)
            await service.start()
            self._say(str(entry))

    async def stop(self) -> None:
        """Answer running calls, and end."""
        for service in self._started:
            await service.stop()
        self.close()

    def close(self) -> None:
        """Stop listening."""
        for one in self._opened:
            one.listener.close()
