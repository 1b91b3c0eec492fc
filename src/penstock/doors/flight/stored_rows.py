"""The messages of stored batches, not decoded: one MessagePack array of them, and each of its elements."""

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
    """The messages of consecutive batches, in one array. DamagedStoreError: they are not as many as they should be."""
    count = batches[-1].until - batches[0].first
    body = batches[0].body
    if len(batches) > 1:
        body = b"".join([b"\xdd", count.to_bytes(4, "big"), *map(_elements, batches)])
    try:
        rows = _rows.decode(body)
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"A batch of messages cannot be decoded: {error}.") from error
    if len(rows) != count:
        raise _miscounted(count, len(rows))
    return StoredRows(body, rows)


def _elements(batch: StoredBatch) -> memoryview:
    """What follows the head of an array, which has the number of elements."""
    head = batch.body[:5]
    if head[:1] == b"\xdd":
        length, count = 5, int.from_bytes(head[1:5], "big")
    elif head[:1] == b"\xdc":
        length, count = 3, int.from_bytes(head[1:3], "big")
    else:
        length, count = 1, head[0] - 0x90 if head else -1
    if count != batch.until - batch.first:
        raise _miscounted(batch.until - batch.first, count)
    return memoryview(batch.body)[length:]


def _miscounted(count: int, found: int) -> DamagedStoreError:
    return DamagedStoreError(f"A batch of {count} messages holds {found}.")
