"""Rows with a checksum: how facts, batches and snapshots are sealed before they are written and checked when read.

The checksum covers the table, the key columns and the body, so that a row that changed, moved or was swapped with
another is noticed. What fails the check is a DamagedStoreError, never an empty answer.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias
from zlib import crc32

from penstock.broker.dump import StateDump
from penstock.broker.facts import Fact
from penstock.broker.model import Batch, Message
from penstock.broker.names import MAX_OFFSET, OFFSET_BITS, log_key
from penstock.errors import DamagedStoreError
from penstock.journal import codec

Row: TypeAlias = tuple[Any, ...]

_FACTS, _BATCHES, _SNAPSHOTS = b"f", b"b", b"s"
_key = Struct(">cqqq").pack


def seal_facts(seq: int, body: bytes) -> Row:
    return seq, _checksum(_FACTS, seq, body), body


def seal_snapshot(seq: int, body: bytes) -> Row:
    return seq, _checksum(_SNAPSHOTS, seq, body), body


def seal_batch(batch: Batch) -> Row:
    topic, first, messages = batch
    body = codec.encode_messages(messages)
    key, until, last_at = log_key(topic, first), first + len(messages), messages[-1].publish_time
    return key, until, last_at, _checksum(_BATCHES, key, body, until, last_at), body


def open_facts(row: Row) -> list[Fact]:
    seq, crc, body = row
    _check(_FACTS, f"the facts of commit {seq}", crc, body, seq)
    return codec.decode_facts(body)


def open_snapshot(row: Row) -> StateDump:
    seq, crc, body = row
    _check(_SNAPSHOTS, f"the snapshot of commit {seq}", crc, body, seq)
    return codec.decode_dump(body)


def open_batch(row: Row) -> list[Message]:
    check_batch(row)
    return codec.decode_messages(row[4])


def check_batch(row: Row) -> None:
    key, until, last_at, crc, body = row
    _check(_BATCHES, f"messages {first_of(key)} and later of topic {topic_of(key)}", crc, body, key, until, last_at)


def require_between(key: int, low: int, high: int) -> None:
    """A damaged tree can lead the engine to a whole row in the wrong place, which is no answer to the question."""
    if not low <= key <= high:
        raise DamagedStoreError(f"The store is damaged: row {key} was found where {low} to {high} belong.")


def topic_of(key: int) -> int:
    return key >> OFFSET_BITS


def first_of(key: int) -> int:
    return key & MAX_OFFSET


def _checksum(kind: bytes, seq: int, body: bytes, until: int = 0, last_at: int = 0) -> int:
    return crc32(body, crc32(_key(kind, seq, until, last_at)))


def _check(kind: bytes, what: str, crc: int, body: bytes, seq: int, until: int = 0, last_at: int = 0) -> None:
    try:
        if _checksum(kind, seq, body, until, last_at) == crc:
            return
    except (TypeError, StructError):  # a flipped bit can turn a blob into a text and a number into a fraction
        pass
    raise DamagedStoreError(f"The store is damaged: {what} do not match their checksum. Restore a backup.")
