"""Counts of topics and subscriptions, as doors see them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from penstock.engine.statistics import SubscriptionStatistics, TopicStatistics
from penstock.engine.views import Backlog


class Counts(Protocol):
    def topic_statistics(self, names: Sequence[str]) -> Awaitable[list[TopicStatistics]]:
        """Return the statistics of these topics. Names that do not exist are left out."""

    def subscription_statistics(self, names: Sequence[str]) -> Awaitable[list[SubscriptionStatistics]]:
        """Return the statistics of these subscriptions. Names that do not exist are left out."""

    def backlog_messages(self, names: Sequence[str]) -> Awaitable[dict[str, int]]:
        """Return the number of unacked messages by subscription. Subscriptions without any are left out."""

    def backlog(self, name: str) -> Awaitable[Backlog]: ...
