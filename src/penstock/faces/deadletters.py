"""What the log says of dead letters that have nowhere to go, or go where nobody reads.

When a subscription is made or changed, and each time it happens, but at most one line a minute for a subscription:
the counters are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from penstock.broker.facts import Fact, Removed, Returned, SubscriptionChanged, SubscriptionCreated
from penstock.broker.model import SECOND
from penstock.broker.returning import stuck
from penstock.broker.state import State
from penstock.broker.subscription import Subscription

PAUSE = 60 * SECOND
SUBSCRIPTIONS_MAX = 10_000  # whose last line is remembered
log = logging.getLogger("penstock")


class DeadLetterWatch:
    def __init__(self) -> None:
        self._said: dict[int, int] = {}  # subscription -> when

    def note(self, facts: Iterable[Fact], state: State, now: Callable[[], int]) -> None:
        for fact in facts:
            if type(fact) in _LOOKED_AT:
                subscription = state.subscriptions.get(fact.subscription)  # type: ignore[union-attr]  # see the table
                if subscription is not None and subscription.options.dead_letter_topic:
                    self._look(fact, subscription, state, now())

    def _look(self, fact: Fact, subscription: Subscription, state: State, now: int) -> None:
        name = subscription.options.dead_letter_topic
        topic = state.topic_names.get(name)
        if topic is not None and topic.readers:
            return
        if isinstance(fact, SubscriptionCreated | SubscriptionChanged):
            trouble = "that does not exist" if topic is None else "without a subscription"
            log.warning("Subscription %s has a dead letter topic %s: %s", subscription.name, trouble, name)
        elif now - self._said.get(subscription.number, -PAUSE) >= PAUSE:
            self._say(fact, subscription, name, missing=topic is None, now=now)

    def _say(self, fact: Fact, subscription: Subscription, topic: str, *, missing: bool, now: int) -> None:
        name, counts = subscription.name, subscription.counts
        if missing and isinstance(fact, Returned) and not fact.unseen and stuck(subscription, fact.offsets):
            count = counts.dead_letter_failures
            log.warning("A message of %s cannot be dead-lettered, there is no topic %s (%d so far)", name, topic, count)
        elif isinstance(fact, Removed) and fact.reason == "dead-letter":
            count = counts.dead_letters_unread
            log.warning("A dead letter of %s went to %s, which has no subscription (%d so far)", name, topic, count)
        else:
            return
        if len(self._said) >= SUBSCRIPTIONS_MAX:
            self._said.clear()
        self._said[subscription.number] = now


_LOOKED_AT = frozenset({Returned, Removed, SubscriptionCreated, SubscriptionChanged})
