"""The interface for decoding and checking bodies by the schema of their topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.broker.model import Draft, Message
from penstock.engine.port import TopicMetadata


class Decoded(NamedTuple):
    schema: str  # name of the schema
    revision: str
    kind: str  # AVRO or PROTOCOL_BUFFER
    encoding: str  # JSON or BINARY
    text: str | None  # the body as JSON
    problem: str = ""  # why there is no text


class Decoder(Protocol):
    async def decode(self, topic: TopicMetadata, messages: Sequence[Message]) -> list[Decoded | None]:
        """Return a result for each message, or None for a message without a schema."""

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        """Return the drafts to publish. Raise an error unless all fit the schema of their topic."""

    def schema_of(self, topic: TopicMetadata) -> str:
        """Return the name of the topic's schema, or an empty string."""


class NoDecoder:
    """The decoder of a server without the packages that schemas need."""

    def __init__(self, sentence: str, mark: str) -> None:
        """`sentence`: the problem to report. `mark`: an attribute of every message with a schema."""
        self._sentence = sentence
        self._mark = mark

    async def decode(self, topic: TopicMetadata, messages: Sequence[Message]) -> list[Decoded | None]:
        names = (message.attributes.get(self._mark) for message in messages)
        return [None if name is None else Decoded(name, "", "", "", None, self._sentence) for name in names]

    async def validate(self, topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
        return drafts

    def schema_of(self, topic: TopicMetadata) -> str:
        return ""
