"""The encoding of facts, messages and dumps in every durable journal.

Each release can read the rows of all earlier ones. A fact is stored as [number, fields] with the number from
`broker.facts.FACTS`. An array that is shorter than today's record was written before a field was added, and the new
fields get their defaults. Bytes that do not fit their record are a DamagedStoreError.

A row is sealed by a checksum over its kind, its key columns and its body, so that a row that was changed, moved or
swapped with another is a DamagedStoreError, never an empty answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from penstock.broker.dump import StateDump
from penstock.broker.facts import (
    FACTS,
    Acked,
    Delayed,
    Delivered,
    Extended,
    Fact,
    Forgotten,
    Held,
    Passed,
    Published,
    Returned,
    Touched,
)
from penstock.broker.model import Batch, Message
from penstock.broker.names import MAX_OFFSET, OFFSET_BITS, log_key
from penstock.errors import DamagedStoreError

Row: TypeAlias = tuple[Any, ...]
_Record = TypeVar("_Record")

_NUMBERS: dict[type[Any], int] = {kind: number for number, kind in FACTS.items()}
FACTS_ROW, BATCH_ROW, SNAPSHOT_ROW = b"f", b"b", b"s"
PART_BYTES, PART_MESSAGES = 64 << 20, 1 << 20  # of a row, not counting its last message
# Facts that hold only numbers of the broker, and values that were checked with their messages: those of the hot path.
COMPUTED = frozenset({Published, Forgotten, Touched, Delivered, Passed, Held, Delayed, Acked, Returned, Extended})
_PLAIN: dict[type[Any], Callable[[Any], object]] = {str: str.__str__, int: int.__int__, float: float.__float__}
_key = Struct(">cqqq").pack
_facts = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]])
_fact = {number: msgspec.msgpack.Decoder(kind) for number, kind in FACTS.items()}
_messages = msgspec.msgpack.Decoder(list[Message])
_dump = msgspec.msgpack.Decoder(StateDump)


def _plain(value: object) -> object:
    """Return a value of a subclass, such as numpy's texts and numbers, as the plain type that is stored."""
    for kind, plain in _PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    raise TypeError(f"A {type(value).__name__} cannot be stored")


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def encode_facts(facts: Sequence[Fact]) -> bytes:
    return _encode([(_NUMBERS[type(fact)], fact) for fact in facts])


def check_facts(facts: Sequence[Fact]) -> None:
    """Raise an exception if a fact with a caller's values cannot be encoded, or ValueError if it cannot be read back.

    A store with such a fact would never open again. Facts of the kinds in COMPUTED are not looked at.
    """
    if not COMPUTED.issuperset(map(type, facts)):
        try:
            decode_facts(encode_facts(facts))
        except DamagedStoreError as error:
            raise ValueError("A fact could not be read back") from error


def decode_facts(body: bytes) -> list[Fact]:
    try:
        return [_fact[number].decode(fields) for number, fields in _facts.decode(body)]
    except KeyError as error:
        raise DamagedStoreError(
            f"The journal holds a fact of the unknown kind {error.args[0]}: it was written by a newer release."
        ) from error
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"The facts of a commit cannot be decoded: {error}.") from error


def encode_messages(messages: list[Message]) -> bytes:
    return _encode(messages)


def decode_messages(body: bytes) -> list[Message]:
    return _decode(_messages, body, "A batch of messages")


def encode_dump(dump: StateDump) -> bytes:
    return _encode(dump)


def decode_dump(body: bytes) -> StateDump:
    return _decode(_dump, body, "A snapshot")


def _decode(decoder: msgspec.msgpack.Decoder[_Record], body: bytes, what: str) -> _Record:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise DamagedStoreError(f"{what} cannot be decoded: {error}.") from error


# ---------------------------------------------------------------------- rows


def seal_facts(seq: int, body: bytes) -> Row:
    return seq, _checksum(FACTS_ROW, seq, body), body


def seal_snapshot(seq: int, body: bytes) -> Row:
    return seq, _checksum(SNAPSHOT_ROW, seq, body), body


def parts(batch: Batch) -> Iterator[Batch]:
    """Yield a batch in parts that fit into a row, because many publishes may share a commit."""
    topic, first, messages = batch
    begin, end = 0, messages[0].position + PART_BYTES
    if len(messages) > PART_MESSAGES or messages[-1].position > end:
        for index, message in enumerate(messages):
            if index - begin >= PART_MESSAGES or message.position > end:
                yield Batch(topic, first + begin, messages[begin:index])
                begin, end = index, message.position + PART_BYTES
    yield Batch(topic, first + begin, messages[begin:]) if begin else batch


def seal_batch(batch: Batch) -> Row:
    topic, first, messages = batch
    body = encode_messages(messages)
    key, until, last_at = log_key(topic, first), first + len(messages), messages[-1].publish_time
    return key, until, last_at, _checksum(BATCH_ROW, key, body, until, last_at), body


def open_facts(row: Row) -> list[Fact]:
    seq, crc, body = row
    _check(FACTS_ROW, f"the facts of commit {seq}", crc, body, seq)
    return decode_facts(body)


def open_snapshot(row: Row) -> StateDump:
    seq, crc, body = row
    _check(SNAPSHOT_ROW, f"the snapshot of commit {seq}", crc, body, seq)
    return decode_dump(body)


def open_batch(row: Row) -> list[Message]:
    check_batch(row)
    return decode_messages(row[4])


def check_batch(row: Row) -> None:
    key, until, last_at, crc, body = row
    _check(BATCH_ROW, f"messages {first_of(key)} and later of topic {topic_of(key)}", crc, body, key, until, last_at)


def require_between(key: int, low: int, high: int) -> None:
    """Raise DamagedStoreError if a key is out of range: a damaged tree can lead the engine to a row elsewhere."""
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
