"""Bodies and the schema of their topic: what a door that knows schemas says of a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.broker.model import Draft, Message
from penstock.engine.port import TopicMetadata


class Decoded(NamedTuple):
    schema: str  # its name
    revision: str
    kind: str  # AVRO or PROTOCOL_BUFFER
    encoding: str  # JSON or BINARY
    text: str | None  # the body as JSON
    problem: str = ""  # why there is none


class Decoder(Protocol):
    async def decode(self, topic: TopicMetadata, messages: Sequence[Message]) -> list[Decoded | None]:
        """One for each; None where there is no schema to decode by."""

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        """As they are to be published, if all of them fit the schema of their topic."""

    def schema_of(self, topic: TopicMetadata) -> str:
        """The name of the schema that its messages have to fit; empty without one."""


class NoDecoder:
    """Where the packages that read schemas are not installed."""

    def __init__(self, sentence: str, mark: str) -> None:
        """`mark`: the attribute that a message with a schema has."""
        self._sentence = sentence
        self._mark = mark

    async def decode(self, topic: TopicMetadata, messages: Sequence[Message]) -> list[Decoded | None]:
        named = (each.attributes.get(self._mark) for each in messages)
        return [None if name is None else Decoded(name, "", "", "", None, self._sentence) for name in named]

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        return drafts

    def schema_of(self, topic: TopicMetadata) -> str:
        return ""
