"""Stored messages in, Arrow record batches out: the fast path of every scan.

The rule kept here: one schema, the canonical one, for every reader and for ever. No Python work per message beyond
decoding it: a column is made at once, and a column nobody asked for is not made at all.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.broker.names import log_key
from penstock.errors import DamagedStoreError
from penstock.journal.port import StoredBatch

ROWS_MAX = 10_000
BYTES_MAX = 4 << 20
SAMPLE = 64  # messages that tell whether attributes repeat
SMALL_BYTES = 400  # a body up to here is copied faster than it is pointed at

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("data", pa.binary()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("publish_time", pa.timestamp("us", "UTC")),
        ("ordering_key", pa.string()),
    ]
)


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
_attributes_of = msgspec.msgpack.Decoder(dict[str, str]).decode


class Run(NamedTuple):
    """Consecutive messages that become one record batch."""

    topic: str
    number: int
    first: int
    rows: list[Small] | list[Large]


def record_batches(
    topic: str,
    number: int,
    stored: Iterable[StoredBatch],
    first: int,
    until: int,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages with first <= offset < until of one topic, of whose stored batches there is no gap."""
    schema = chosen_schema(columns)
    for start, rows in _runs(stored, first, until):
        run = Run(topic, number, start, rows)
        yield pa.RecordBatch.from_arrays([_COLUMNS[name](run) for name in schema.names], schema=schema)


def chosen_schema(columns: Sequence[str] | None) -> pa.Schema:
    """The chosen columns, in canonical order."""
    return SCHEMA if columns is None else pa.schema([field for field in SCHEMA if field.name in columns])


def _runs(stored: Iterable[StoredBatch], first: int, until: int) -> Iterator[tuple[int, list[Any]]]:
    """Small batches are put together and large ones cut, so that a reader gets record batches of a useful size."""
    waiting: list[Any] = []
    start, size = first, 0
    for batch in stored:
        rows = _decoded(batch)[max(first - batch.first, 0) : max(until - batch.first, 0)]
        if not waiting:
            start = max(first, batch.first)
        waiting = waiting + rows if waiting else rows
        size += len(batch.body)
        if len(waiting) >= ROWS_MAX or size >= BYTES_MAX:
            yield from _cut(start, waiting, size)
            waiting, size = [], 0
    if waiting:
        yield from _cut(start, waiting, size)


def _cut(start: int, rows: list[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    pieces = max(-(-len(rows) // ROWS_MAX), size // (2 * BYTES_MAX), 1)
    length = -(-len(rows) // pieces)
    for place in range(0, len(rows), length):
        yield start + place, rows[place : place + length]


def _decoded(batch: StoredBatch) -> list[Any]:
    count = batch.until - batch.first
    decoder: Any = _small if len(batch.body) <= count * SMALL_BYTES else _large
    try:
        rows: list[Any] = decoder.decode(batch.body)
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"A batch of messages cannot be decoded: {error}.") from error
    if len(rows) != count:
        raise DamagedStoreError(f"A batch of {count} messages holds {len(rows)}.")
    return rows


# ---------------------------------------------------------------------- one function a column


def _topic(run: Run) -> pa.Array:
    return pa.repeat(pa.scalar(run.topic, pa.string()), len(run.rows))


def _offset(run: Run) -> pa.Array:
    return pc.add(_COUNT[: len(run.rows)], run.first)


def _message_id(run: Run) -> pa.Array:
    return pc.add(_COUNT[: len(run.rows)], log_key(run.number, run.first)).cast(pa.string())


def _data(run: Run) -> pa.Array:
    bodies = [row.data for row in run.rows]
    if type(bodies[0]) is bytes:
        return pa.array(bodies, pa.binary())
    buffers = [None, _offsets(bodies), pa.py_buffer(b"".join(bodies))]
    return pa.Array.from_buffers(pa.binary(), len(bodies), buffers)


def _attributes(run: Run) -> pa.Array:
    """Messages of one kind tend to have the same attributes, so what is equal is decoded once."""
    texts = [bytes(row.attributes) for row in run.rows]
    if len(set(texts[:SAMPLE])) > len(texts[:SAMPLE]) // 2:
        return _maps(texts)
    coded = pa.array(texts, pa.binary()).dictionary_encode()
    return _maps(coded.dictionary.to_pylist()).take(coded.indices)


def _maps(texts: list[bytes]) -> pa.Array:
    maps = [_attributes_of(text) for text in texts]
    offsets = pa.Array.from_buffers(pa.int32(), len(maps) + 1, [None, _offsets(maps)])
    keys = pa.array(list(chain.from_iterable(maps)), pa.string())
    values = pa.array(list(chain.from_iterable(map(dict.values, maps))), pa.string())
    return pa.MapArray.from_arrays(offsets, keys, values)


def _publish_time(run: Run) -> pa.Array:
    first, last = run.rows[0].publish_time, run.rows[-1].publish_time
    if first == last:  # then so are all between, as a topic's times never run backwards
        return pa.repeat(pa.scalar(first // 1000, pa.timestamp("us", "UTC")), len(run.rows))
    nanoseconds = pa.array([row.publish_time for row in run.rows], pa.int64())
    return pc.divide(nanoseconds, 1000).cast(pa.timestamp("us", "UTC"))


def _ordering_key(run: Run) -> pa.Array:
    keys = [row.ordering_key for row in run.rows]
    return pa.array(keys, pa.string()) if any(keys) else pa.repeat(_NO_KEY, len(keys))


def _offsets(things: Sequence[Any]) -> pa.Buffer:
    """Where each thing begins and the last ends, as Arrow wants it."""
    return pa.py_buffer(array("i", accumulate(map(len, things), initial=0)))


_NO_KEY = pa.scalar("", pa.string())
_COUNT = pa.array(range(ROWS_MAX), pa.int64())

_COLUMNS: dict[str, Callable[[Run], pa.Array]] = {
    "topic": _topic,
    "offset": _offset,
    "message_id": _message_id,
    "data": _data,
    "attributes": _attributes,
    "publish_time": _publish_time,
    "ordering_key": _ordering_key,
}
