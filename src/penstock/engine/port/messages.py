"""Publishing, and reading the log of a topic, as doors see them."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Sequence
from typing import Protocol

from penstock.broker.model import Draft, Message, SubscriptionOptions
from penstock.broker.publishing import Appended, Once


class Publishing(Protocol):
    def publish(
        self, topic_name: str, drafts: Sequence[Draft], once: Once | None = None, *, sizes: Sequence[int] | None = None
    ) -> Future[Appended]:
        """Publish all messages or none.

        `sizes`: the sizes of the drafts, if the caller has already checked them against limits at least as strict.
        """

    def send(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions,
        drafts: Sequence[Draft],
        *,
        sizes: Sequence[int] | None = None,
    ) -> Future[Appended]:
        """Publish to a queue. The topic and its subscription are created if they do not exist."""

    def sequences(self, topic_name: str, producer: str, epoch: int) -> Awaitable[list[int]]:
        """Return the sequence numbers of a producer's epoch whose publishes the topic would recognize as repeated."""

    def topics_of_producer(self, producer: str) -> Awaitable[list[str]]:
        """Return the topics that remember a publish of a producer."""

    def forget_producer(self, topic_name: str, producer: str) -> Future[None]:
        """Forget the publish-once answers of a producer that will not repeat a publish."""

    def publisher_receipt(self, subscription: int, offset: int) -> Awaitable[str]:
        """Return a receipt for a newly published message, valid on one subscription until its first delivery."""


class Log(Protocol):
    def read(self, topic_name: str, first: int, until: int, max_bytes: int = 0) -> Awaitable[list[Message]]:
        """Return the messages of a topic with first <= offset < until that are still kept. All of them are durable.

        With `max_bytes` the answer may stop early, so that it takes not much more memory than that.
        """

    def first_offset_at(self, topic_name: str, at: int) -> Future[int]:
        """Return the first kept offset that was published at or after an instant, or the tail."""
