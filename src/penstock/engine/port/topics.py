"""Topics and the names of resources, as doors see them."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Sequence
from typing import Protocol

from penstock.broker.model import TopicOptions
from penstock.engine.views import Kind, NamePage, TopicMetadata


class Topics(Protocol):
    def create_topic(self, name: str, options: TopicOptions | None = None) -> Future[TopicMetadata]: ...

    def change_topic(self, name: str, options: TopicOptions) -> Future[TopicMetadata]: ...

    def delete_topic(self, name: str) -> Future[None]: ...

    def purge_topic(self, name: str) -> Future[int]:
        """Purge every subscription of a topic and forget its messages. Return how many messages the topic had."""

    def find_topic(self, key: str | int) -> Awaitable[TopicMetadata | None]:
        """Find a topic by its name or its number."""

    def topics(self) -> Awaitable[list[TopicMetadata]]: ...

    def find_topics(self, names: Sequence[str]) -> Awaitable[list[TopicMetadata]]:
        """Return the topics with these names. Names that do not exist are left out."""


class NameLists(Protocol):
    def names(
        self, kind: Kind, prefix: str = "", after: str | None = None, most: int = 0, *, descending: bool = False
    ) -> Awaitable[NamePage]:
        """Return at most `most` sorted names that begin with a prefix and follow `after`. 0 means all.

        The cost depends on the number of names returned, not on the number of names in the store.
        """

    def numbered_names(self, kind: Kind, most: int | None = None) -> Awaitable[dict[int, str]]:
        """Return names by the numbers of their resources: all names, or those of the oldest `most` resources."""

    def reader_names(self, topic_name: str) -> Awaitable[list[str]]:
        """Return the names of the subscriptions of a topic, in no particular order."""
