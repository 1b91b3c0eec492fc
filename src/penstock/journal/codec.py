"""Facts, messages and dumps as bytes: what every durable journal writes.

What was written can be read for ever. A fact is stored as [number, fields] with the number from
`broker.facts.FACTS`; an array that is shorter than today's record (it was written before a field was added) takes
the defaults; bytes that do not fit their record are a DamagedStoreError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from penstock.broker.dump import StateDump
from penstock.broker.facts import FACTS, Fact
from penstock.broker.model import Message
from penstock.errors import DamagedStoreError

_Record = TypeVar("_Record")

_NUMBERS: dict[type[Any], int] = {kind: number for number, kind in FACTS.items()}
_encode = msgspec.msgpack.Encoder().encode
_facts = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]])
_fact = {number: msgspec.msgpack.Decoder(kind) for number, kind in FACTS.items()}
_messages = msgspec.msgpack.Decoder(list[Message])
_dump = msgspec.msgpack.Decoder(StateDump)


def encode_facts(facts: Sequence[Fact]) -> bytes:
    return _encode([(_NUMBERS[type(fact)], fact) for fact in facts])


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
