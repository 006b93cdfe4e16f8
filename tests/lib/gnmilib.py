"""gNMI in tests: notifications of a target, a scripted target, a collection, the agent, certificates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from bounded import next_line
from ports import free_port

from mburst.sql import StoreFolder
from mburst.telemetry.gnmi import messages
from mburst.telemetry.gnmi.decode import DeviceState, UpdateStream
from mburst.telemetry.gnmi.path import as_message, parse
from mburst.telemetry.gnmi.rows import CollectedRows
from mburst.telemetry.gnmi.vendors import Tables, built_in

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

T0 = 1_795_000_000_000_000_000
S = 10**9


def value(given: Any) -> Any:
    """Returns a TypedValue: int → uint_val, str → string_val, dict or list → json_ietf_val; a TypedValue stays."""
    if isinstance(given, messages.TypedValue):
        return given
    if isinstance(given, bool):
        return messages.TypedValue(bool_val=given)
    if isinstance(given, int):
        return messages.TypedValue(uint_val=given)
    if isinstance(given, str):
        return messages.TypedValue(string_val=given)
    return messages.TypedValue(json_ietf_val=json.dumps(given).encode())


def notification(
    ts_ns: int,
    updates: dict[str, Any],
    *,
    prefix: str = "",
    deletes: list[str] | None = None,
    atomic: bool = False,
    duplicates: int = 0,
    target: str = "",
) -> Any:
    """Returns a Notification of paths as text, and their values."""
    made = messages.Notification(
        timestamp=ts_ns,
        atomic=atomic,
        delete=[as_message(parse(path)) for path in deletes or []],
        update=[
            messages.Update(path=as_message(parse(path)), val=value(given), duplicates=duplicates)
            for path, given in updates.items()
        ],
    )
    if prefix or target:
        made.prefix.CopyFrom(as_message(parse(prefix or "/")))
        made.prefix.target = target
    return made


def read(made: Any) -> Any:
    """Returns a Notification as it is after transmission."""
    return messages.ReadNotification.FromString(made.SerializeToString())


class Fed:
    """A device that is fed notifications, and the resulting rows."""

    def __init__(self, vendor: str = "", interval_ns: int = S, speeds: dict[str, int] | None = None) -> None:
        self.rows = CollectedRows()
        self.device = DeviceState("tor", self.rows, "b", Tables(built_in(), vendor), "r1", speeds)
        self.stream = UpdateStream(self.device, "s", interval_ns)

    def feed(self, *made: Any, late_ns: int = 1000) -> Fed:
        for one in made:
            self.stream.feed(read(one), one.timestamp + late_ns)
        return self

    def take(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the rows of each table that has some."""
        self.stream.flush()
        self.device.report(T0)
        return {name: batch.to_pylist() for name, batch in self.rows.take()}


# --- a target that says what a test wants ---------------------------------------------------------------------------


Script = Callable[[Any, Any], AsyncIterator[Any]]


class Target:
    """A gNMI server in a thread. `script(request, context)` yields responses; when it returns, the stream ends."""

    def __init__(
        self,
        script: Script,
        port: int = 0,
        credentials: Any = None,
        encodings: list[str] | None = None,
        models: list[str] | None = None,
    ) -> None:
        self.script, self.port, self.credentials = script, port or free_port(), credentials
        self.encodings, self.models = encodings, models or []
        self.requests: list[Any] = []
        self.metadata: list[dict[str, Any]] = []
        self.requests_ended = 0  # clients that announced that no other request follows
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Target:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        import grpc

        self._stopped = asyncio.Event()
        server = grpc.aio.server()
        handlers = {
            "Subscribe": grpc.stream_stream_rpc_method_handler(
                self._subscribe, messages.SubscribeRequest.FromString, lambda made: made.SerializeToString()
            )
        }
        if self.encodings is not None:
            handlers["Capabilities"] = grpc.unary_unary_rpc_method_handler(
                self._capabilities, messages.CapabilityRequest.FromString, lambda made: made.SerializeToString()
            )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(messages.SERVICE, handlers),))
        address = f"127.0.0.1:{self.port}"
        if self.credentials:
            server.add_secure_port(address, self.credentials)
        else:
            server.add_insecure_port(address)
        await server.start()
        self._ready.set()
        await self._stopped.wait()
        await server.stop(0)

    async def _capabilities(self, request: Any, context: Any) -> Any:
        return messages.CapabilityResponse(
            supported_models=[messages.ModelData(name=name) for name in self.models],
            supported_encodings=[messages.ENCODINGS.index(name) for name in self.encodings or ()],
        )

    async def _subscribe(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        self.metadata.append(dict(context.invocation_metadata()))
        request = await anext(aiter(requests))
        self.requests.append(request)
        listening = asyncio.create_task(self._listen(requests))
        try:
            async for made in self.script(request, context):
                yield made
        finally:
            listening.cancel()

    async def _listen(self, requests: Any) -> None:
        async for _ in requests:
            pass
        self.requests_ended += 1


def updated(made: Any) -> Any:
    return messages.SubscribeResponse(update=made)


SYNC = messages.SubscribeResponse(sync_response=True)


# --- a collection ---------------------------------------------------------------------------------------------------


SUBSCRIPTION = "subscriptions: {q: {paths: [/qos/interfaces], stream-mode: sample, sample-interval: 100ms}}\n"


def config(**targets: str) -> str:
    """Returns a configuration with targets of the given YAML."""
    return "targets:\n" + "".join(f"  {name}: {text}\n" for name, text in targets.items()) + SUBSCRIPTION


def collect(folder: Path, text: str, until: Callable[[Any], bool], timeout_s: float = 60) -> list[str]:
    """Collects as TEXT configures into folder/store until UNTIL(collector) holds. Returns the lines that users would
    see."""
    from mburst.services.collector import Collector
    from mburst.telemetry.gnmi.gnmic_file import load

    path = folder / "gnmi.yaml"
    path.write_text(text)
    lines: list[str] = []

    async def work() -> None:
        collector = Collector(load(str(path)), StoreFolder.create(folder / "store"), lines.append)
        task = asyncio.create_task(collector.run())
        deadline = time.monotonic() + timeout_s
        while not until(collector) and not task.done():
            if time.monotonic() > deadline:
                collector.stopped.set()
                await task
                raise AssertionError(f"it did not come about in {timeout_s} s; said {lines}")
            await asyncio.sleep(0.02)
        collector.stopped.set()
        await task

    asyncio.run(work())
    return lines


def heard(collector: Any, name: str) -> int:
    """Returns how many values have come from the target of that name."""
    [session] = [session for session in collector.sessions if session.target.name == name]
    return int(session.device.values)


def lines_so_far(collector: Any) -> list[str]:
    """Returns the lines that `collect` returns at the end."""
    return collector.say.__self__  # type: ignore[no-any-return]


def query(folder: Path, text: str) -> list[tuple[Any, ...]]:
    return StoreFolder.open(folder / "store").connect().execute(text).fetchall()


# --- the agent as a process -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def agent(
    *arguments: str, env: dict[str, str] | None = None, namespace: str = "", errors: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs `mburst switch-agent` as a process on the loopback: (address, process). It is killed at the end. ERRORS gets
    its standard error."""
    if not any(argument.startswith("--listen") for argument in arguments):
        arguments = (*arguments, "--listen=127.0.0.1:0")
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    process = subprocess.Popen(
        [*inside, sys.executable, "-m", "mburst", "switch-agent", *arguments],
        stdout=subprocess.PIPE,
        stderr=errors.open("w") if errors else None,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        line = next_line(process)
        assert " on " in line, line
        yield line.partition(" on ")[2].split()[0], process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
