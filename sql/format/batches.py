"""What a frame of a hot log may contain, whoever wrote it: rows of its table and nothing else.

A checksum shows that bytes are what somebody wrote, not that mburst wrote them. Arrow trusts indices and offsets and
would read memory outside the batch, so both are checked before a row is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from ...process import shortage
from ..tables import ORDER, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2  # Arrow's Message.fbs: MessageHeader
_HEADER_TYPE, _HEADER = 1, 2  # fields of a Message
_DATA = 1  # of a DictionaryBatch: its RecordBatch
_COMPRESSION = 3  # of a RecordBatch


def from_stream(payload: memoryview, table: str) -> pa.Table:
    """Returns the rows of TABLE in a verified frame; they share its memory. Raises ValueError (ArrowInvalid is one) for
    anything else."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as stream:
            if reason := not_of(table, stream.schema):
                raise ValueError(reason)
            if any(map(_is_compressed, _messages(payload))):
                raise ValueError("compressed, which mburst never writes")
            found = stream.read_all()
    except (pa.ArrowException, OSError, struct.error) as error:  # OSError: a length that exceeds the buffer
        shortage.refuse(error, f"cannot read rows of {table}")
        raise ValueError(str(error).splitlines()[0]) from error
    found.validate(full=True)
    _check_nulls(found, table)
    return found


@lru_cache(64)
def not_of(table: str, schema: pa.Schema) -> str:
    """Why rows of SCHEMA are not of TABLE in its present form, an earlier one or that of a newer mburst; '' if they
    are."""
    import pyarrow as pa

    wanted, names = arrow_schema(table), schema.names
    if ORDER[table][-1] not in names or wanted.names[: len(names)] != names[: len(wanted)]:
        return f"the rows are not of table {table}"
    for field in schema:
        index = wanted.get_field_index(field.name)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if index >= 0 and (kind != wanted.field(index).type or (kind != field.type and kind != pa.string())):
            return f"column {field.name} is of type {str(field.type)[:60]}"
        if index < 0 and pa.types.is_nested(kind):
            return f"the rows are not of table {table}"
    return "" if len(set(names)) == len(names) else f"the rows are not of table {table}"


def _check_nulls(rows: pa.Table, table: str) -> None:
    required = [field.name for field in arrow_schema(table) if not field.nullable]
    for name, column in zip(rows.column_names, rows.itercolumns(), strict=True):
        if (column.null_count and name in required) or any(
            chunk.dictionary.null_count for chunk in column.iterchunks() if hasattr(chunk, "dictionary")
        ):
            raise ValueError(f"NULL in column {name}")


def _messages(payload: memoryview) -> Iterator[memoryview]:
    """The metadata of each message of a stream."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(payload))
    with suppress(StopIteration):
        while True:
            yield memoryview(reader.read_next_message().metadata)


def _is_compressed(data: memoryview) -> bool:
    """Whether the buffers of a message are compressed: then a small frame may expand to any amount of memory. DATA, the
    metadata of the message, is a flatbuffer that Arrow has verified."""
    message = struct.unpack_from("<I", data)[0]
    kind, at = _field(data, message, _HEADER_TYPE), _field(data, message, _HEADER)
    if kind is None or at is None or data[kind] not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return False
    batch = at + struct.unpack_from("<I", data, at)[0]
    if data[kind] == _DICTIONARY_BATCH:
        inner = _field(data, batch, _DATA)
        if inner is None:
            return False
        batch = inner + struct.unpack_from("<I", data, inner)[0]
    return _field(data, batch, _COMPRESSION) is not None


def _field(data: memoryview, table: int, number: int) -> int | None:
    """The position of a field of a flatbuffer's table; None if the table does not have it."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    [size] = struct.unpack_from("<H", data, vtable)
    place = 4 + 2 * number
    [offset] = struct.unpack_from("<H", data, vtable + place) if place < size else [0]
    return table + offset if offset else None
