"""Subscriptions, seeking and queues, as doors see them."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Sequence
from typing import Protocol

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.broker.replay import SeekPreview
from penstock.engine.views import QueueNumbers, SubscriptionMetadata


class Subscriptions(Protocol):
    def create_subscription(
        self, name: str, topic_name: str, options: SubscriptionOptions | None = None
    ) -> Future[SubscriptionMetadata]: ...

    def create_subscription_at(
        self, name: str, topic_name: str, offset: int, options: SubscriptionOptions | None = None
    ) -> Future[SubscriptionMetadata]:
        """Create a subscription whose first message is at an offset, or the next one still kept, in one step."""

    def change_subscription(self, name: str, options: SubscriptionOptions) -> Future[SubscriptionMetadata]: ...

    def delete_subscription(self, name: str) -> Future[None]: ...

    def detach_subscription(self, name: str) -> Future[None]: ...

    def touch_subscription(self, name: str) -> Future[None]:
        """Record that a subscription is in use, so that it does not expire."""

    def find_subscription(self, key: str | int) -> Awaitable[SubscriptionMetadata | None]:
        """Find a subscription by its name or its number."""

    def subscriptions(self, topic_name: str | None = None) -> Awaitable[list[SubscriptionMetadata]]:
        """Return the subscriptions of a topic, or all subscriptions."""

    def find_subscriptions(self, names: Sequence[str]) -> Awaitable[list[SubscriptionMetadata]]:
        """Return the subscriptions with these names. Names that do not exist are left out."""


class Seeking(Protocol):
    def preview_seek(self, name: str, *, offset: int = 0, snapshot: str = "") -> Awaitable[SeekPreview]:
        """Return the changes of a seek to an offset, or to a snapshot if one is named."""

    def seek_to_offset(self, name: str, offset: int) -> Future[None]: ...

    def seek_to_time(self, name: str, at: int) -> Future[None]: ...

    def seek_to_snapshot(self, name: str, snapshot: str) -> Future[None]: ...

    def purge(self, name: str) -> Future[None]:
        """Ack everything that was published so far."""


class Queues(Protocol):
    """Operations on a queue, which is a topic and the one subscription that reads it."""

    def provide_queue(
        self,
        topic_name: str,
        name: str,
        options: SubscriptionOptions | None = None,
        topic_options: TopicOptions | None = None,
    ) -> Future[bool]:
        """Create the topic and the subscription if they do not exist. Return whether anything was created."""

    def remove_queue(self, topic_name: str, name: str) -> Future[None]: ...

    def find_queue(self, topic_name: str, name: str) -> Awaitable[QueueNumbers | None]:
        """Return the numbers of a queue, or None unless the topic exists and the subscription reads it."""
