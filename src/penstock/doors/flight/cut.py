"""Messages cut into columns where they lie, by Arrow and not by Python: what most scans are made of.

A stored message is `array | data | attributes | ordering key | time | ...`, packed. Its data begins after a head of
three or four bytes which says how long it is; what follows the data begins with the attributes, and of those there are
few kinds in one topic, so each kind is looked for as a prefix. The rule kept here: a message that is laid out in any
other way (an ordering key, attributes of many kinds, very large data) is left to `decoded`, and its batch with it.
"""

from __future__ import annotations

import sys
from array import array
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight.decoded import NO_KEY, SAMPLE, TIME, Small, maps_of
from penstock.doors.flight.packed import Packed

KINDS_MAX = 16  # of attributes
ROWS_MIN = 200  # with fewer the calls cost more than they save
BODY_BYTES_MAX = 1 << 30  # places are numbers of 31 bits
ROW_BYTES_MIN = 6

SHORT, LONG = 0xC4, 0xC5  # data with a length of one byte, of two
NO_KEY_THEN_TIME = b"\xa0\xcf"

_front = msgspec.msgpack.Decoder(Small)


class Cut(NamedTuple):
    """Where things are in the stored bytes."""

    body: bytes
    rows: list[msgspec.Raw]
    begin: pa.Array  # of data
    end: pa.Array
    kinds: list[bytes]  # of attributes, packed
    kind: pa.Array  # of each message

    def slice(self, place: int, length: int) -> Cut:
        rows = self.rows[place : place + length]
        begin, end, kind = (each.slice(place, length) for each in (self.begin, self.end, self.kind))
        return Cut(self.body, rows, begin, end, self.kinds, kind)

    def data(self) -> pa.Array:
        return _between(self.body, self.begin, self.end)

    def attributes(self) -> pa.Array:
        return maps_of(len(self.kinds), b"".join(self.kinds)).take(self.kind)

    def publish_time(self) -> pa.Array:
        first, last = (_front.decode(self.rows[place]).publish_time for place in (0, -1))
        if first == last:  # then so are all between, as a topic's times never run backwards
            return pa.repeat(pa.scalar(first // 1000, TIME), len(self.begin))
        lengths = pa.array([len(kind) + len(NO_KEY_THEN_TIME) for kind in self.kinds], pa.int32())
        begin = pc.add(self.end, lengths.take(self.kind))
        nanoseconds = pc.binary_reverse(_between(self.body, begin, pc.add(begin, _int32(8))))
        times = pa.Array.from_buffers(pa.int64(), len(begin), [None, nanoseconds.buffers()[2]])
        return pc.divide(times, 1000).cast(TIME)

    def ordering_key(self) -> pa.Array:
        return pa.repeat(NO_KEY, len(self.begin))


def cut(packed: Packed, *, data_only: bool = False) -> Cut | None:
    """None: not like this. Where nobody asks for what follows the data, nobody looks at it."""
    if len(packed.rows) < ROWS_MIN or len(packed.body) > BODY_BYTES_MAX or sys.byteorder != "little":
        return None
    try:
        found = _data(packed) if _looks_simple(packed.rows[:SAMPLE]) else None
        kinds = None
        if found is not None:
            kinds = ([], found[0]) if data_only else _kinds(packed, *found)
    except msgspec.DecodeError:  # `decoded` says what is wrong
        return None
    return Cut(*packed, *found, *kinds) if found is not None and kinds is not None else None


def _looks_simple(rows: list[msgspec.Raw]) -> bool:
    fronts = [_front.decode(row) for row in rows]
    kinds = {bytes(front.attributes) for front in fronts}
    return len(kinds) <= KINDS_MAX and not any(front.ordering_key for front in fronts)


def _data(packed: Packed) -> tuple[pa.Array, pa.Array] | None:
    """Where the data of each message begins and ends."""
    count = len(packed.rows)
    lengths = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(array("i", map(len, packed.rows)))])
    ends = pc.cumulative_sum(lengths)
    ends = pc.add(ends, _int32(len(packed.body) - ends[-1].as_py()))
    begins = pc.subtract(ends, lengths)
    edges = pa.concat_arrays([begins[:1], ends])
    rows = pa.Array.from_buffers(pa.binary(), count, [None, edges.buffers()[1], pa.py_buffer(packed.body)])
    if pc.min(lengths).as_py() < ROW_BYTES_MIN:
        return None
    heads, codes = (pc.min_max(_bytes_at(rows, place)).as_py() for place in (0, 1))
    if heads["min"] < 0x94 or heads["max"] > 0x9F or codes["min"] < SHORT or codes["max"] > LONG:
        return None
    sizes, head = _bytes_at(rows, 2), _int32(3)
    if codes["max"] == LONG:
        is_long = pc.equal(_bytes_at(rows, 1), _int32(LONG))
        wide = pc.add(pc.multiply(sizes, _int32(256)), _bytes_at(rows, 3))
        sizes, head = pc.if_else(is_long, wide, sizes), pc.if_else(is_long, _int32(4), _int32(3))
    begin = pc.add(begins, head)
    end = pc.add(begin, sizes)
    return (begin, end) if pc.all(pc.less(end, ends)).as_py() else None


def _kinds(packed: Packed, begin: pa.Array, end: pa.Array) -> tuple[list[bytes], pa.Array] | None:
    """The kinds of attributes there are, and the kind of each message."""
    count = len(begin)
    rests = _between(packed.body, end, pa.concat_arrays([begin[1:], pa.array([len(packed.body)], pa.int32())]))
    kinds: list[bytes] = []
    kind = pa.repeat(_int32(0), count)
    known = pa.repeat(pa.scalar(False), count)
    while (row := pc.index(known, False).as_py()) >= 0:
        if len(kinds) == KINDS_MAX:
            return None
        text = bytes(_front.decode(packed.rows[row]).attributes)
        same = pc.starts_with(rests, text + NO_KEY_THEN_TIME)
        if not same[row].as_py():
            return None
        kind = pc.if_else(same, _int32(len(kinds)), kind) if kinds else kind
        known = pc.or_(known, same)
        kinds.append(text)
    return kinds, kind


# ---------------------------------------------------------------------- bytes


def _int32(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int32())


def _bytes_at(rows: pa.Array, place: int) -> pa.Array:
    """The byte at one place of each row, as a number; every row is long enough."""
    found = pc.binary_slice(rows, place, place + 1)
    return pa.Array.from_buffers(pa.uint8(), len(rows), [None, found.buffers()[2]]).cast(pa.int32())


def _between(body: bytes, begins: pa.Array, ends: pa.Array) -> pa.Array:
    """A column of the bytes from each begin to its end; none begins before the one before it has ended.

    In Arrow a value begins where the last one ended. So the gaps are values, too, every second one, and left out.
    """
    pairs = pc.bit_wise_or(begins.cast(pa.int64()), pc.shift_left(ends.cast(pa.int64()), 32))
    edges = pa.concat_arrays([pairs, pa.array([len(body)], pa.int64())])
    both = pa.Array.from_buffers(pa.binary(), 2 * len(begins), [None, edges.buffers()[1], pa.py_buffer(body)])
    evens = pc.cumulative_sum(pa.repeat(_int32(2), len(begins)), start=-2)
    return both.take(evens)
