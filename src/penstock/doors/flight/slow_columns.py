"""Arrow columns of messages of any layout, which are decoded one by one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.stored_rows import StoredRows
from penstock.errors import DamagedStoreError

Data = TypeVar("Data", bytes, memoryview)

COPIED_BYTES = 400  # up to this size copying a row is faster than pointing at it
SAMPLE = 64  # rows that show whether attributes repeat
TIME = pa.timestamp("us", "UTC")
NO_KEY = pa.scalar("", pa.string())


class StoredRow(msgspec.Struct, Generic[Data], array_like=True, gc=False):
    """The first fields of a stored message. The data is a copy, or a view of the stored bytes."""

    data: Data
    attributes: msgspec.Raw
    ordering_key: str
    publish_time: int


_copied = msgspec.msgpack.Decoder(list[StoredRow[bytes]])
_viewed = msgspec.msgpack.Decoder(list[StoredRow[memoryview]])
_maps = msgspec.msgpack.Decoder(list[dict[str, str]])


class SlowColumns:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    @classmethod
    def of(cls, stored: StoredRows) -> SlowColumns:
        decoder: Any = _copied if len(stored.body) <= len(stored.rows) * COPIED_BYTES else _viewed
        try:
            return cls(decoder.decode(stored.body))
        except msgspec.DecodeError as error:
            raise DamagedStoreError(f"A batch of messages cannot be decoded: {error}.") from error

    def slice(self, start: int, length: int) -> SlowColumns:
        return SlowColumns(self._rows[start : start + length])

    def data(self) -> pa.Array:
        bodies = [row.data for row in self._rows]
        if type(bodies[0]) is bytes:
            return pa.array(bodies, pa.binary())
        buffers = [None, _offsets(bodies), pa.py_buffer(b"".join(bodies))]
        return pa.Array.from_buffers(pa.binary(), len(bodies), buffers)

    def attributes(self) -> pa.Array:
        texts = [row.attributes for row in self._rows]
        if len(texts) <= SAMPLE or len(set(map(bytes, texts[:SAMPLE]))) > SAMPLE // 2:
            return map_column(len(texts), b"".join(texts))
        coded = pa.array(list(map(bytes, texts)), pa.binary()).dictionary_encode()  # equal maps are decoded once
        return map_column(len(coded.dictionary), b"".join(coded.dictionary.to_pylist())).take(coded.indices)

    def publish_time(self) -> pa.Array:
        first, last = self._rows[0].publish_time, self._rows[-1].publish_time
        if first == last:  # then all times between are the same, because the times of a topic never decrease
            return pa.repeat(pa.scalar(first // 1000, TIME), len(self._rows))
        nanoseconds = pa.array([row.publish_time for row in self._rows], pa.int64())
        return pc.divide(nanoseconds, 1000).cast(TIME)

    def ordering_key(self) -> pa.Array:
        keys = [row.ordering_key for row in self._rows]
        return pa.array(keys, pa.string()) if any(keys) else pa.repeat(NO_KEY, len(keys))


def map_column(count: int, body: bytes) -> pa.MapArray:
    """Return a column of `count` maps from consecutive MessagePack maps."""
    try:
        maps = _maps.decode(b"\xdd" + count.to_bytes(4, "big") + body)
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"The attributes of messages cannot be decoded: {error}.") from error
    offsets = pa.Array.from_buffers(pa.int32(), count + 1, [None, _offsets(maps)])
    keys = pa.array(list(chain.from_iterable(maps)), pa.string())
    values = pa.array(list(chain.from_iterable(map(dict.values, maps))), pa.string())
    return pa.MapArray.from_arrays(offsets, keys, values)


def _offsets(values: Sequence[Any]) -> pa.Buffer:
    """Return the offsets of the values, as an Arrow buffer."""
    return pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))
