"""Messages decoded one by one, whatever they look like: the columns of a scan that is not cut where it lies.

The rule kept here: no Python work per message beyond decoding it, and a column nobody asks for is not made.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.packed import Packed
from penstock.errors import DamagedStoreError

SMALL_BYTES = 400  # a body up to here is copied faster than it is pointed at
SAMPLE = 64  # messages that tell whether attributes repeat
TIME = pa.timestamp("us", "UTC")


class Small(msgspec.Struct, array_like=True, gc=False):
    """The front of a broker Message; what follows in the store is skipped."""

    data: bytes
    attributes: msgspec.Raw
    ordering_key: str
    publish_time: int


class Large(msgspec.Struct, array_like=True, gc=False):
    """The same, pointing into the stored body instead of copying out of it."""

    data: memoryview
    attributes: msgspec.Raw
    ordering_key: str
    publish_time: int


_small = msgspec.msgpack.Decoder(list[Small])
_large = msgspec.msgpack.Decoder(list[Large])
_maps = msgspec.msgpack.Decoder(list[dict[str, str]])


class Decoded:
    """The columns of decoded messages."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    @classmethod
    def of(cls, packed: Packed) -> Decoded:
        decoder: Any = _small if len(packed.body) <= len(packed.rows) * SMALL_BYTES else _large
        try:
            return cls(decoder.decode(packed.body))
        except msgspec.DecodeError as error:
            raise DamagedStoreError(f"A batch of messages cannot be decoded: {error}.") from error

    def slice(self, place: int, length: int) -> Decoded:
        return Decoded(self._rows[place : place + length])

    def data(self) -> pa.Array:
        bodies = [row.data for row in self._rows]
        if type(bodies[0]) is bytes:
            return pa.array(bodies, pa.binary())
        buffers = [None, _offsets(bodies), pa.py_buffer(b"".join(bodies))]
        return pa.Array.from_buffers(pa.binary(), len(bodies), buffers)

    def attributes(self) -> pa.Array:
        texts = [row.attributes for row in self._rows]
        if len(texts) <= SAMPLE or len(set(map(bytes, texts[:SAMPLE]))) > SAMPLE // 2:
            return maps_of(len(texts), b"".join(texts))
        coded = pa.array(list(map(bytes, texts)), pa.binary()).dictionary_encode()  # what is equal is decoded once
        return maps_of(len(coded.dictionary), b"".join(coded.dictionary.to_pylist())).take(coded.indices)

    def publish_time(self) -> pa.Array:
        first, last = self._rows[0].publish_time, self._rows[-1].publish_time
        if first == last:  # then so are all between, as a topic's times never run backwards
            return pa.repeat(pa.scalar(first // 1000, TIME), len(self._rows))
        nanoseconds = pa.array([row.publish_time for row in self._rows], pa.int64())
        return pc.divide(nanoseconds, 1000).cast(TIME)

    def ordering_key(self) -> pa.Array:
        keys = [row.ordering_key for row in self._rows]
        return pa.array(keys, pa.string()) if any(keys) else pa.repeat(NO_KEY, len(keys))


def maps_of(count: int, packed: bytes) -> pa.MapArray:
    """So many maps, one after the other, as a column."""
    try:
        maps = _maps.decode(b"\xdd" + count.to_bytes(4, "big") + packed)
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"The attributes of messages cannot be decoded: {error}.") from error
    offsets = pa.Array.from_buffers(pa.int32(), count + 1, [None, _offsets(maps)])
    keys = pa.array(list(chain.from_iterable(maps)), pa.string())
    values = pa.array(list(chain.from_iterable(map(dict.values, maps))), pa.string())
    return pa.MapArray.from_arrays(offsets, keys, values)


def _offsets(things: Sequence[Any]) -> pa.Buffer:
    """Where each thing begins and the last ends, as Arrow wants it."""
    return pa.py_buffer(array("i", accumulate(map(len, things), initial=0)))


NO_KEY = pa.scalar("", pa.string())
