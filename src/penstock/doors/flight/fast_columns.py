"""Arrow columns that Arrow cuts out of the stored bytes without decoding messages. Most scans use them.

A stored batch is a MessagePack array of messages, and each message is an array of its fields:

    99  c4 05  68 65 6c 6c 6f  81 a1 61 a1 62  a0  cf 17 f3 5a 00 00 00 00 00  ...
    |   |  |   |               |               |   |  |                        |
    |   |  |   data: "hello"   |               |   |  publish_time, in ns      offset, position, size ...
    |   |  length of the data  attributes:     |   8 bytes follow, big-endian
    |   c4: length in 1 byte   {"a": "b"}      ordering_key: ""
    |   c5: length in 2 bytes
    array of 9 fields

Arrow reads the bytes before the data of all rows at once, which tell where each row's data begins and ends. The
attributes follow. A topic has few different maps of attributes, so each map is searched as a prefix, together with the
`a0 cf` behind it. A batch with a message of any other layout (an ordering key, many different maps, data above 64 KiB)
is left to `slow_columns`.
"""

from __future__ import annotations

import sys
from array import array
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.slow_columns import NO_KEY, SAMPLE, TIME, StoredRow, map_column
from penstock.doors.flight.stored_rows import StoredRows

MAPS_MAX = 16  # different maps of attributes
ROWS_MIN = 200  # with fewer rows the calls cost more than they save
BODY_BYTES_MAX = 1 << 30  # positions are 31-bit numbers
ROW_BYTES_MIN = 6

BIN8, BIN16 = 0xC4, 0xC5
NO_KEY_THEN_TIME = b"\xa0\xcf"

_row = msgspec.msgpack.Decoder(StoredRow[bytes])


class FastColumns(NamedTuple):
    """The positions of fields in the stored bytes."""

    body: bytes
    rows: list[msgspec.Raw]
    begin: pa.Array  # of data
    end: pa.Array
    maps: list[bytes]  # the different attributes, still MessagePack
    map_index: pa.Array  # index into `maps`, by row

    def slice(self, start: int, length: int) -> FastColumns:
        rows = self.rows[start : start + length]
        begin, end, map_index = (array.slice(start, length) for array in (self.begin, self.end, self.map_index))
        return FastColumns(self.body, rows, begin, end, self.maps, map_index)

    def data(self) -> pa.Array:
        return _between(self.body, self.begin, self.end)

    def attributes(self) -> pa.Array:
        return map_column(len(self.maps), b"".join(self.maps)).take(self.map_index)

    def publish_time(self) -> pa.Array:
        first, last = (_row.decode(self.rows[index]).publish_time for index in (0, -1))
        if first == last:  # then all times between are the same, because the times of a topic never decrease
            return pa.repeat(pa.scalar(first // 1000, TIME), len(self.begin))
        lengths = pa.array([len(entry) + len(NO_KEY_THEN_TIME) for entry in self.maps], pa.int32())
        begin = pc.add(self.end, lengths.take(self.map_index))
        nanoseconds = pc.binary_reverse(_between(self.body, begin, pc.add(begin, _int32(8))))
        times = pa.Array.from_buffers(pa.int64(), len(begin), [None, nanoseconds.buffers()[2]])
        return pc.divide(times, 1000).cast(TIME)

    def ordering_key(self) -> pa.Array:
        return pa.repeat(NO_KEY, len(self.begin))


def fast_columns(stored: StoredRows, *, data_only: bool = False) -> FastColumns | None:
    """Return the columns, or None if the layout is another. With `data_only` the fields after the data are ignored."""
    if len(stored.rows) < ROWS_MIN or len(stored.body) > BODY_BYTES_MAX or sys.byteorder != "little":
        return None
    try:
        sample = [_row.decode(row) for row in stored.rows[:SAMPLE]]
        if any(row.ordering_key for row in sample) or len({bytes(row.attributes) for row in sample}) > MAPS_MAX:
            return None
        data = _data(stored)
        if data is None:
            return None
        maps = ([], data[0]) if data_only else _maps(stored, *data)
    except msgspec.DecodeError:  # slow_columns raises the error
        return None
    return FastColumns(*stored, *data, *maps) if maps is not None else None


def _data(stored: StoredRows) -> tuple[pa.Array, pa.Array] | None:
    """Return where the data of each message begins and ends. None if the layout is another."""
    count = len(stored.rows)
    lengths = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(array("i", map(len, stored.rows)))])
    ends = pc.cumulative_sum(lengths)
    ends = pc.add(ends, _int32(len(stored.body) - ends[-1].as_py()))
    begins = pc.subtract(ends, lengths)
    edges = pa.concat_arrays([begins[:1], ends])
    rows = pa.Array.from_buffers(pa.binary(), count, [None, edges.buffers()[1], pa.py_buffer(stored.body)])
    if pc.min(lengths).as_py() < ROW_BYTES_MIN:
        return None
    arrays, types = (pc.min_max(_byte_of(rows, index)).as_py() for index in (0, 1))
    if arrays["min"] < 0x94 or arrays["max"] > 0x9F or types["min"] < BIN8 or types["max"] > BIN16:
        return None
    sizes, head = _byte_of(rows, 2), _int32(3)
    if types["max"] == BIN16:
        is_wide = pc.equal(_byte_of(rows, 1), _int32(BIN16))
        wide = pc.add(pc.multiply(sizes, _int32(256)), _byte_of(rows, 3))
        sizes, head = pc.if_else(is_wide, wide, sizes), pc.if_else(is_wide, _int32(4), _int32(3))
    begin = pc.add(begins, head)
    end = pc.add(begin, sizes)
    return (begin, end) if pc.all(pc.less(end, ends)).as_py() else None


def _maps(stored: StoredRows, begin: pa.Array, end: pa.Array) -> tuple[list[bytes], pa.Array] | None:
    """Return the different attributes, and for each message the index of its attributes."""
    count = len(begin)
    rests = _between(stored.body, end, pa.concat_arrays([begin[1:], pa.array([len(stored.body)], pa.int32())]))
    maps: list[bytes] = []
    map_index = pa.repeat(_int32(0), count)
    known = pa.repeat(pa.scalar(False), count)
    while (row := pc.index(known, False).as_py()) >= 0:
        if len(maps) == MAPS_MAX:
            return None
        text = bytes(_row.decode(stored.rows[row]).attributes)
        same = pc.starts_with(rests, text + NO_KEY_THEN_TIME)
        if not same[row].as_py():
            return None
        map_index = pc.if_else(same, _int32(len(maps)), map_index) if maps else map_index
        known = pc.or_(known, same)
        maps.append(text)
    return maps, map_index


def _int32(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int32())


def _byte_of(rows: pa.Array, index: int) -> pa.Array:
    """Return one byte of each row as a number. Every row is long enough."""
    found = pc.binary_slice(rows, index, index + 1)
    return pa.Array.from_buffers(pa.uint8(), len(rows), [None, found.buffers()[2]]).cast(pa.int32())


def _between(body: bytes, begins: pa.Array, ends: pa.Array) -> pa.Array:
    """Return a column of the bytes from each begin to its end. The ranges are in order and do not overlap.

    In Arrow a value begins where the last value ended, so the gaps are values as well: value, gap, value, gap ...

        offsets   begin[0]   end[0]   begin[1]   end[1]  ...   len(body)
        values          data      gap        data      gap

    A begin and an end side by side, 32 bits each, are one number of 64 bits. Every second value is taken.
    """
    pairs = pc.bit_wise_or(begins.cast(pa.int64()), pc.shift_left(ends.cast(pa.int64()), 32))
    edges = pa.concat_arrays([pairs, pa.array([len(body)], pa.int64())])
    both = pa.Array.from_buffers(pa.binary(), 2 * len(begins), [None, edges.buffers()[1], pa.py_buffer(body)])
    evens = pc.cumulative_sum(pa.repeat(_int32(2), len(begins)), start=-2)
    return both.take(evens)
