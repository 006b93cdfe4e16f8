"""Tracks of a trace in Perfetto's format, written as a stream: slices, counters and instants, in Unix nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ... import extras
from ...errors import MburstError
from ...names import shown

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

SEQUENCE = 1  # all packets are of one writer


class TraceSlice(NamedTuple):
    """[start_ns, end_ns) with a name, and arguments for the details view."""

    start_ns: int
    end_ns: int
    name: str
    arguments: Mapping[str, Any]


class TraceTracks:
    """Writes tracks. Raises MburstError if the extra `perfetto` is not installed, and for times before 1970, which the
    format does not have."""

    def __init__(self, stream: BinaryIO, start_ns: int) -> None:
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
            from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
        except ModuleNotFoundError as error:
            raise extras.lacking("a trace needs", error.name, "perfetto") from error
        self._protos = protos
        self._builder = StreamingTraceProtoBuilder(stream)
        self._tracks = 0
        self._begin(start_ns)

    def _begin(self, start_ns: int) -> None:
        """State that all times are of the clock REALTIME: Unix nanoseconds."""
        packet = self._packet(start_ns)
        packet.sequence_flags = self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.clock_snapshot.primary_trace_clock = self._protos.BUILTIN_CLOCK_REALTIME
        packet.clock_snapshot.clocks.add(clock_id=self._protos.BUILTIN_CLOCK_REALTIME, timestamp=start_ns)
        self._builder.write_packet(packet)

    def _packet(self, at_ns: int) -> TracePacket:
        if at_ns < 0:
            raise MburstError("a trace has no times before 1970", "export what is later: --since 1970-01-01")
        packet = self._builder.create_packet()
        packet.timestamp = at_ns
        packet.timestamp_clock_id = self._protos.BUILTIN_CLOCK_REALTIME
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def track(self, name: str, parent: int = 0, about: str = "", unit: str = "") -> int:
        """Adds a track below PARENT, in the order of these calls. Returns its number. With a UNIT, it is a counter."""
        self._tracks += 1
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        described = packet.track_descriptor
        described.uuid, described.name = self._tracks, shown(name)
        if about:
            described.description = shown(about)
        if parent:
            described.parent_uuid = parent
        described.sibling_order_rank = self._tracks
        described.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        if unit:
            described.counter.unit_name = unit
        self._builder.write_packet(packet)
        return self._tracks

    def slices(self, name: str, parent: int, found: Iterable[TraceSlice], about: str = "") -> None:
        """Adds slices by their start. Overlapping ones are on tracks of the same name, which the viewer draws as
        one."""
        reached: dict[int, int] = {}  # ends, by track
        for one in found:
            track = next((track for track, end_ns in reached.items() if end_ns <= one.start_ns), None)
            if track is None:
                track = self.track(name, parent, about)
            reached[track] = one.end_ns
            self._event(one.start_ns, track, self._protos.TrackEvent.TYPE_SLICE_BEGIN, one.name, one.arguments)
            self._event(one.end_ns, track, self._protos.TrackEvent.TYPE_SLICE_END)

    def counter(self, name: str, parent: int, unit: str, points: Iterable[tuple[int, float]], about: str = "") -> None:
        """Adds a value that holds until the next one; no track if there is none."""
        track = 0
        for at_ns, value in points:
            track = track or self.track(name, parent, about, unit)
            packet = self._packet(at_ns)
            packet.track_event.type = self._protos.TrackEvent.TYPE_COUNTER
            packet.track_event.track_uuid = track
            if isinstance(value, int):
                packet.track_event.counter_value = value
            else:
                packet.track_event.double_counter_value = value
            self._builder.write_packet(packet)

    def instants(
        self, name: str, parent: int, found: Iterable[tuple[int, str, Mapping[str, Any]]], about: str = ""
    ) -> None:
        """Adds moments with a name and arguments; no track if there is none."""
        track = 0
        for at_ns, what, arguments in found:
            track = track or self.track(name, parent, about)
            self._event(at_ns, track, self._protos.TrackEvent.TYPE_INSTANT, what, arguments)

    def _event(
        self, at_ns: int, track: int, kind: int, name: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        packet = self._packet(at_ns)
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        if name:
            event.name = shown(name)
        for key, value in (arguments or {}).items():
            self._annotate(event.debug_annotations.add(name=key), value)
        self._builder.write_packet(packet)

    def _annotate(self, annotation: Any, value: Any) -> None:
        if isinstance(value, bool):
            annotation.bool_value = value
        elif isinstance(value, int):
            annotation.int_value = value
        elif isinstance(value, float):
            annotation.double_value = value
        elif isinstance(value, Mapping):
            for key, part in value.items():
                if part is not None:
                    self._annotate(annotation.dict_entries.add(name=key), part)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for part in value:
                self._annotate(annotation.array_values.add(), part)
        elif value is not None:
            annotation.string_value = shown(str(value))
