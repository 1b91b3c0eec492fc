"""The undecoded messages of stored batches: one MessagePack array, and each of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from penstock.errors import DamagedStoreError
from penstock.journal.port import StoredBatch

_rows = msgspec.msgpack.Decoder(list[msgspec.Raw])


class StoredRows(NamedTuple):
    body: bytes
    rows: list[msgspec.Raw]


def stored_rows(batches: Sequence[StoredBatch]) -> StoredRows:
    """Join the messages of consecutive batches. Raise DamagedStoreError if their number is wrong."""
    count = batches[-1].until - batches[0].first
    body = batches[0].body
    if len(batches) > 1:
        body = b"".join([b"\xdd", count.to_bytes(4, "big"), *map(_elements, batches)])
    try:
        rows = _rows.decode(body)
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"A batch of messages cannot be decoded: {error}.") from error
    if len(rows) != count:
        raise _count_error(count, len(rows))
    return StoredRows(body, rows)


def _elements(batch: StoredBatch) -> memoryview:
    """Return the elements of an array, without its head, which has their number."""
    head = batch.body[:5]
    if head[:1] == b"\xdd":
        length, count = 5, int.from_bytes(head[1:5], "big")
    elif head[:1] == b"\xdc":
        length, count = 3, int.from_bytes(head[1:3], "big")
    else:
        length, count = 1, head[0] - 0x90 if head else -1
    if count != batch.until - batch.first:
        raise _count_error(batch.until - batch.first, count)
    return memoryview(batch.body)[length:]


def _count_error(count: int, actual: int) -> DamagedStoreError:
    return DamagedStoreError(f"A batch of {count} messages holds {actual}.")
