"""A target's session: connect, ask for capabilities, subscribe, and start again after every end.

Each subscription is read by a thread of its own (calls.py), which processes messages under the lock of the rows;
everything else runs in the event loop. A session survives its target: the stream of each subscription is read until it
ends for any reason, the reason is reported once, and after a jittered pause it restarts. Events become rows of
`gnmi_events`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from google.protobuf.message import DecodeError

from ...errors import MburstError
from . import limits, messages
from .calls import in_thread, subscribe
from .config import GnmiTarget, Subscription
from .credentials import channel_to, diagnose
from .decode import DeviceState, UpdateStream
from .path import PathName, as_message
from .rows import CollectionEnded
from .vendors import Tables, Vendor

FIRST_PAUSE_S = 0.5
STEADY_S = 10.0  # after a stream that lasted this long, pauses begin short again
LEAST_WATCH_S = 5.0
CLOSED = "the target closed the stream"
PREFERRED = ("PROTO", "JSON_IETF", "JSON")
REFUSALS = (
    "INVALID_ARGUMENT",
    "UNIMPLEMENTED",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
)
_WORDS = {"UNAUTHENTICATED": "user or password is refused", "PERMISSION_DENIED": "not permitted",
          "DEADLINE_EXCEEDED": "no answer: timed out", "UNIMPLEMENTED": "not implemented by the target",
          "RESOURCE_EXHAUSTED": "too much for the target, or a message beyond `mburst: message:`"}  # fmt: skip


@dataclass
class StreamEnd:
    """Why a stream ended. `refused` means that the target does not accept the request, and that trying again at once is
    useless."""

    reason: str
    refused: bool = False
    code: str = ""
    connected: bool = False  # of the end of a connection: whether it had been established


def request_for(subscription: Subscription, target: GnmiTarget, encoding: str, mode: str | None = None) -> Any:
    """The SubscribeRequest of a subscription. It never has an empty qos, which some targets refuse."""
    parts = []
    for item in subscription.items:
        part = messages.Subscription(
            path=as_message(item.path),
            mode=messages.STREAM_MODES.index(item.stream_mode),
            sample_interval=item.sample_ns,
            heartbeat_interval=item.heartbeat_ns,
            suppress_redundant=item.suppress_redundant,
        )
        parts.append(part)
    wanted = messages.SubscriptionList(
        subscription=parts,
        mode=messages.LIST_MODES.index(mode or subscription.mode),
        encoding=messages.ENCODINGS.index(encoding),
        updates_only=subscription.updates_only,
        use_models=[messages.ModelData(name=model) for model in subscription.models],
    )
    name = subscription.target or (target.name if subscription.set_target else "")
    if subscription.prefix or name:
        wanted.prefix.CopyFrom(as_message(subscription.prefix or PathName("", ())))
        wanted.prefix.target = name
    if subscription.qos is not None:
        wanted.qos.marking = subscription.qos
    return messages.SubscribeRequest(subscribe=wanted)


class DeviceSession:
    """One target. `say` is called, from any thread, with each line that a person should see; `now` is the clock of
    receipt."""

    def __init__(
        self,
        target: GnmiTarget,
        device: DeviceState,
        vendors: tuple[Vendor, ...],
        say: Callable[[str], None],
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.target, self.device, self.vendors, self.say, self.now = target, device, vendors, say, now
        self.by_address = target.by_address()  # `target` is the one that is tried or connected
        self.received = False  # whether any message ever came
        self.streams = {
            wanted.name: UpdateStream(device, wanted.name, wanted.interval_ns) for wanted in target.subscriptions
        }
        self.up: set[str] = set()  # subscriptions that are being received
        self.answered: set[str] = set()  # subscriptions in mode ONCE that are complete
        self.encodings: tuple[str, ...] = ()  # that the target reports to have; () if it does not report any
        self.refused_encodings: set[str] = set()
        self.ending = "the connection was lost"  # why a cancelled stream ends
        self._reasons: dict[str, str] = {}
        self._full_reported = False
        self._synced: set[str] = set()  # subscriptions whose sync is already in a row
        self._errors = 0  # that the target has reported since it was connected
        self._lost_ns: dict[str, int] = {}  # subscription → time of its last message before a gap
        self._heard_ns: dict[str, int] = {}  # the same, of CLOCK_MONOTONIC

    @property
    def done(self) -> bool:
        """Whether everything was requested once, and has come."""
        return len(self.answered) == len(self.target.subscriptions)

    # --- calls ------------------------------------------------------------------------------------------------------

    def metadata(self) -> list[tuple[str, str]]:
        """User, password and token, as targets expect them."""
        found = list(self.target.metadata)
        if self.target.username:
            found += [("username", self.target.username), ("password", self.target.password)]
        if self.target.token:
            found.append(("authorization", f"Bearer {self.target.token}"))
        return found

    async def capabilities(self, channel: Any) -> None:
        """Ask which models and encodings there are. A target that does not implement it is used without."""
        import grpc

        call = channel.unary_unary(messages.CAPABILITIES, messages.CapabilityRequest.SerializeToString,
                                   messages.CapabilityResponse.FromString)  # fmt: skip
        ask = {"metadata": self.metadata(), "timeout": self.target.timeout_s}

        def asked() -> tuple[Any, int]:
            call(messages.CapabilityRequest(), **ask)
            begin = time.monotonic_ns()  # of a second call, since the first one includes the begin of the connection
            return call(messages.CapabilityRequest(), **ask), time.monotonic_ns() - begin

        try:
            answer, rtt_ns = await in_thread(asked)
        except grpc.RpcError as error:
            if error.code().name != "UNIMPLEMENTED":
                raise
            self._detect([])
            return
        self.device.rtt_ns = min(rtt_ns, self.device.rtt_ns or rtt_ns)
        has = set(islice(answer.supported_encodings, limits.MODELS))
        self.encodings = tuple(name for number, name in enumerate(messages.ENCODINGS) if number in has)
        self._detect([(model.name, model.organization) for model in islice(answer.supported_models, limits.MODELS)])

    def _detect(self, models: list[tuple[str, str]]) -> None:
        """Choose the vendor's tables for the device: of the configured vendor, or of the one whose models it
        reports."""
        with self.device.rows.lock:
            self._read_by(models)

    def _read_by(self, models: list[tuple[str, str]]) -> None:
        name = self.target.vendor or next((vendor.name for vendor in self.vendors if vendor.made(models)), "")
        if name != self.device.tables.detected:
            self.device.tables = Tables(self.vendors, name)
            for wanted in self.target.subscriptions:
                self.streams[wanted.name].close()
                self.streams[wanted.name] = UpdateStream(self.device, wanted.name, wanted.interval_ns)

    def encoding_for(self, subscription: Subscription) -> str:
        """The encoding to request: the configured one, or the best that the target has and did not refuse."""
        if wanted := subscription.encoding or self.target.encoding:
            return wanted
        has = [name for name in PREFERRED if not self.encodings or name in self.encodings]
        return next((name for name in has if name not in self.refused_encodings), (has or list(PREFERRED))[0])

    # --- streams ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Collect until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            begun = time.monotonic()
            try:
                ended = await self._connection()
            except Exception as error:  # no failure of one target ends another
                ended = self._report("", StreamEnd(f"internal error: {type(error).__name__}"))
            if time.monotonic() - begun > STEADY_S:
                pause_s = FIRST_PAUSE_S
            if ended.refused:
                pause_s = self.target.retry_s
            await asyncio.sleep(_jittered(pause_s))
            pause_s = min(pause_s * 2, self.target.retry_s)

    async def _connection(self) -> StreamEnd:
        """Make one connection, to the first of the target's addresses that can be reached, until it is lost."""
        failed = []
        for target in self.by_address:
            self.target = target
            ended = await self._connected()
            if ended.connected:
                return ended
            failed.append(ended)
        return self._report("", _all_of(failed))

    async def _connected(self) -> StreamEnd:
        """Make one connection to the current address. If that fails, the caller reports why."""
        import grpc

        try:
            channel, note = await channel_to(self.target)
        except MburstError as error:
            return StreamEnd(str(error).removeprefix(f"{self.target.name}: "))
        if note:
            self.say(f"{self.target.name}: {note}")
        with channel:
            try:
                await self.capabilities(channel)
            except grpc.RpcError as error:
                return await self._explained(error)
            self.device.event("", "connect", self.now())
            self._errors = 0
            if self._reasons.pop("", None):
                self.say(f"{self.target.name}: connected")
            tasks = [asyncio.create_task(self._subscription(channel, wanted)) for wanted in self.target.subscriptions]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                return replace(next(iter(done)).result(), connected=True)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _subscription(self, channel: Any, subscription: Subscription) -> StreamEnd:
        """Run one subscription, again after every end, until the connection is lost."""
        pause_s = FIRST_PAUSE_S
        while True:
            begun = time.monotonic()
            encoding = self.encoding_for(subscription)
            try:
                ended = await self._stream(channel, subscription, encoding)
                if subscription.mode == "POLL" and ended.reason == CLOSED:
                    pause_s = FIRST_PAUSE_S
                    await self._next_poll(subscription, begun)
                    continue
            except asyncio.CancelledError:
                self._lost(subscription, StreamEnd(self.ending))
                raise
            if self._another_encoding(subscription, encoding, ended):
                continue
            self._lost(subscription, ended)
            if subscription.mode == "ONCE" and ended.reason == CLOSED:
                self.answered.add(subscription.name)
                await asyncio.Event().wait()
            self._report(subscription.name, ended)
            if ended.code == "UNAVAILABLE":
                return ended
            if time.monotonic() - begun > STEADY_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(_jittered(self.target.retry_s if ended.refused else pause_s))
            pause_s = min(pause_s * 2, self.target.retry_s)

    def _another_encoding(self, subscription: Subscription, refused: str, ended: StreamEnd) -> bool:
        """Whether the encoding was refused, and there is another one to request."""
        if not ended.refused or "encoding" not in ended.reason.lower() or subscription.encoding or self.target.encoding:
            return False
        self.refused_encodings.add(refused)
        return self.encoding_for(subscription) not in self.refused_encodings

    async def _next_poll(self, subscription: Subscription, begun: float) -> None:
        """Wait until the next poll. A polled subscription is requested in mode ONCE, and is complete each time."""
        await asyncio.sleep(begun + subscription.interval_ns / 1e9 - time.monotonic())
        with self.device.rows.lock:
            self.streams[subscription.name].poll(self.now())

    async def _stream(self, channel: Any, subscription: Subscription, encoding: str) -> StreamEnd:
        stream = self.streams[subscription.name]
        polled = subscription.mode == "POLL"
        request = request_for(subscription, self.target, encoding, "ONCE" if polled else None)
        call = subscribe(channel, request, self.metadata(), self.target.timeout_s if polled else None)
        reading = asyncio.create_task(in_thread(lambda: self._read(call, subscription, stream)))
        silence = asyncio.create_task(self._silence(subscription))
        try:
            done, _ = await asyncio.wait([reading, silence], return_when=asyncio.FIRST_COMPLETED)
        finally:
            silence.cancel()
            call.cancel()
            await asyncio.wait([reading])
            with self.device.rows.lock:
                stream.flush()
        if reading not in done:
            return StreamEnd("nothing came for three sample intervals")
        error = reading.result()
        return StreamEnd(CLOSED) if error is None else await self._explained(error)

    def _read(self, call: Any, subscription: Subscription, stream: UpdateStream) -> Any:
        """Process messages until the stream ends. Returns the RpcError, or None if the target or the collection ended
        it."""
        import grpc

        rows = self.device.rows
        try:
            for message in call:
                now_ns = self.now()
                with rows.lock:
                    rows.breathe()
                    kind = self._take_in(message, subscription, stream, now_ns)
                if self.device.overflowed and not self._full_reported:
                    self._full_reported = True
                    self.say(f"{self.target.name}: {self.device.full}: what is beyond is dropped (`mburst: paths:`)")
                if kind == "sync_response" and subscription.mode != "STREAM":
                    return None  # everything has come, though some targets do not end the call
        except grpc.RpcError as error:
            return error
        except CollectionEnded:
            return None
        return None

    def _take_in(self, message: bytes, subscription: Subscription, stream: UpdateStream, now_ns: int) -> str:
        """Process a message. Returns the kind of its response, '' for none."""
        try:
            response = messages.ReadResponse.FromString(message)
        except DecodeError:
            self.device.count(subscription.name, "not-understood", "a message that is no SubscribeResponse")
            return ""
        return self._receive(response, subscription, stream, now_ns)

    def _receive(self, response: Any, subscription: Subscription, stream: UpdateStream, now_ns: int) -> str:
        if subscription.name not in self.up:
            self._begin(subscription, stream, now_ns)
        self._lost_ns[subscription.name], self._heard_ns[subscription.name] = now_ns, time.monotonic_ns()
        kind = response.WhichOneof("response")
        if kind == "update":
            stream.feed(response.update, now_ns)
        elif kind == "sync_response":
            stream.sync()
            if subscription.name in self._synced:
                self.device.count(subscription.name, "sync")
            else:
                self._synced.add(subscription.name)
                self.device.event(subscription.name, "sync", now_ns)
        elif kind == "error":
            self._reported(subscription, response.error.message)
        return kind or ""

    def _reported(self, subscription: Subscription, text: str) -> None:
        """An error that the target reports in a stream that continues: only the first ones are reported."""
        self._errors += 1
        self.device.count(subscription.name, "not-understood", "an error that the target reports")
        if self._errors <= limits.ERRORS_REPORTED:
            self.say(f"{self.target.name}: {subscription.name}: {_short(text)}")

    def _begin(self, subscription: Subscription, stream: UpdateStream, now_ns: int) -> None:
        """The first message of a stream: it has been established, and a gap ends."""
        self.received = True
        self.up.add(subscription.name)
        before = self._lost_ns.get(subscription.name)
        if before is not None:
            self.device.event(subscription.name, "gap", before, until_ns=now_ns)
            stream.resume(now_ns)
        if self._reasons.pop(subscription.name, None):
            self.say(f"{self.target.name}: {subscription.name}: receives again")

    def _lost(self, subscription: Subscription, ended: StreamEnd) -> None:
        self._synced.discard(subscription.name)
        if subscription.name in self.up:
            self.up.discard(subscription.name)
            self.device.event(subscription.name, "disconnect", self.now(), detail=ended.reason)

    async def _silence(self, subscription: Subscription) -> None:
        """Wait until nothing came for three sample intervals, or for three heartbeats if nothing is sampled."""
        beat = max((item.heartbeat_ns for item in subscription.items), default=0)
        sampled = any(item.stream_mode == "SAMPLE" and item.sample_ns for item in subscription.items)
        interval_ns = subscription.interval_ns if sampled else beat
        if not interval_ns:
            await asyncio.Event().wait()
        limit_ns = max(int(LEAST_WATCH_S * 1e9), 3 * interval_ns)
        begun = time.monotonic_ns()
        while time.monotonic_ns() - max(begun, self._heard_ns.get(subscription.name, 0)) <= limit_ns:
            await asyncio.sleep(limit_ns / 4e9)

    # --- words ------------------------------------------------------------------------------------------------------

    def without_values(self) -> list[str]:
        """The subscriptions of which no value ever came, such as those to queues that the device does not have."""
        return [name for name, stream in self.streams.items() if not stream.values]

    def ports(self) -> set[str]:
        """The ports that the target has reported values of."""
        return set[str]().union(*(stream.ports() for stream in self.streams.values()))

    def why_nothing(self) -> str:
        """Why nothing was received so far, according to the last attempts."""
        return "; ".join(dict.fromkeys(self._reasons.values())) or "no answer yet"

    async def _explained(self, error: Any) -> StreamEnd:
        """The meaning of an RpcError."""
        code, detail = error.code().name, _short(error.details() or "")
        if code == "UNAVAILABLE":
            found = await in_thread(lambda: diagnose(self.target))
            return StreamEnd(f"{self.target.address}: {found or detail or 'connection lost'}", code=code)
        words = _WORDS.get(code, "")
        reason = f"{words}: {detail}" if words and detail else words or detail or code.lower().replace("_", " ")
        return StreamEnd(reason, refused=code in REFUSALS, code=code)

    def _report(self, subscription: str, ended: StreamEnd) -> StreamEnd:
        """Report why, unless the last report was the same."""
        if self._reasons.get(subscription) != ended.reason:
            self._reasons[subscription] = ended.reason
            where = f"{self.target.name}: {subscription}" if subscription else self.target.name
            self.say(f"{where}: {ended.reason}")
            if ended.refused:
                self.device.event(subscription, "refused", self.now(), detail=ended.reason)
            elif not subscription:
                self.device.event(subscription, "disconnect", self.now(), detail=ended.reason)
        return ended


def _all_of(ends: list[StreamEnd]) -> StreamEnd:
    """The reasons why none of a target's addresses could be reached, as one."""
    reason = "; ".join(dict.fromkeys(ended.reason for ended in ends))
    return StreamEnd(reason, refused=all(ended.refused for ended in ends), code=ends[0].code)


def _jittered(pause_s: float) -> float:
    """A time between half of a pause and all of it, so that collectors do not come back in step."""
    return pause_s * random.uniform(0.5, 1.0)


def _short(text: str) -> str:
    """The first line of a text from a target, limited in length and without control characters of a terminal."""
    line = (text[:1000].strip().splitlines() or [""])[0][:300]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


async def once(session: DeviceSession, take: Callable[[Any], None]) -> list[str]:
    """Subscribe in the mode ONCE; TAKE is called with each ReadNotification, and may raise LimitExceeded. Returns what
    went wrong, a line each."""
    failed = []
    for target in session.by_address:
        session.target = target
        reason, ends = await _once_at(session, take)
        if not reason:
            return [line for line in ends if line]
        failed.append(reason)
    return ["; ".join(dict.fromkeys(failed))]


async def _once_at(session: DeviceSession, take: Callable[[Any], None]) -> tuple[str, list[str]]:
    """Returns (why the current address cannot be reached, or '', and what went wrong with each subscription)."""
    import grpc

    try:
        channel, note = await channel_to(session.target)
    except MburstError as error:
        return str(error).removeprefix(f"{session.target.name}: "), []
    if note:
        session.say(f"{session.target.name}: {note}")
    with channel:
        try:
            await session.capabilities(channel)
        except grpc.RpcError as error:
            return (await session._explained(error)).reason, []
        return "", [await _once(session, channel, wanted, take) for wanted in session.target.subscriptions]


async def _once(session: DeviceSession, channel: Any, subscription: Subscription, take: Callable[[Any], None]) -> str:
    import grpc

    request = request_for(subscription, session.target, session.encoding_for(subscription), "ONCE")
    call = subscribe(channel, request, session.metadata(), session.target.timeout_s)

    def read() -> None:
        for message in call:
            response = messages.ReadResponse.FromString(message)
            kind = response.WhichOneof("response")
            if kind == "update":
                take(response.update)
            elif kind == "sync_response":
                break

    try:
        await in_thread(read)
    except DecodeError:
        return f"{subscription.name}: what came is no SubscribeResponse"
    except grpc.RpcError as error:
        return f"{subscription.name}: {(await session._explained(error)).reason}"
    except limits.LimitExceeded as error:
        return f"{subscription.name}: {error}"
    except Exception as error:
        return f"{subscription.name}: what came is not understood: {type(error).__name__}"
    finally:
        call.cancel()
    return ""
