"""Log lines about full subscriptions, and about dead letters that are stuck or whose topic has no subscription.

A line is written when the condition begins, or at most once a minute. The counters are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from penstock.broker.facts import Published, Removed, Returned, SubscriptionChanged, SubscriptionCreated
from penstock.broker.model import SECOND
from penstock.broker.state import State
from penstock.broker.subscription import Subscription

PAUSE = 60 * SECOND
LINES_MAX = 10_000  # remembered, to limit repetitions
log = logging.getLogger("penstock")

DeadLetterFact: TypeAlias = Returned | Removed | SubscriptionCreated | SubscriptionChanged


class CapacityNotices:
    """Logs a line when a subscription first discards a message. A publish without discards resets it."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._full: dict[int, int] = {}  # subscription -> its topic

    def on_published(self, fact: Published) -> None:
        if not (fact.discards or self._full):
            return
        subscriptions, without = self._state().subscriptions, {number for number, _, _ in fact.discards}
        for number, topic in list(self._full.items()):
            if topic == fact.topic and number not in without:
                del self._full[number]
        for number in without:
            if number not in self._full and number in subscriptions:
                self._full[number] = fact.topic
                name = subscriptions[number].name
                log.warning("Subscription %s is full: messages are discarded until it has room", name)


class DeadLetterNotices:
    def __init__(self, state: Callable[[], State], now: Callable[[], int]) -> None:
        self._state = state
        self._now = now
        self._written: dict[tuple[int, str], tuple[int, int]] = {}  # subscription and line -> when, and the count

    def on_fact(self, fact: DeadLetterFact) -> None:
        """Log a dead letter problem. The state is already the one after all facts of the command."""
        state = self._state()
        subscription = state.subscriptions.get(fact.subscription)
        if subscription is None or not subscription.options.dead_letter_topic:
            return
        name, counts = subscription.options.dead_letter_topic, subscription.counts
        topic = state.topic_names.get(name)
        if topic is not None and topic.readers:
            return
        if isinstance(fact, SubscriptionCreated | SubscriptionChanged):
            trouble = "that does not exist" if topic is None else "without a subscription"
            log.warning("Subscription %s has a dead letter topic %s: %s", subscription.name, trouble, name)
        elif isinstance(fact, Returned):
            self._write(_STUCK, subscription, counts.dead_letter_failures)
        else:
            self._write(_UNREAD, subscription, counts.dead_letters_unread)

    def _write(self, line: str, subscription: Subscription, count: int) -> None:
        """Log a line if the count has grown and the same line was not logged in the last minute."""
        now = self._now()
        at, before = self._written.get((subscription.number, line), (now - PAUSE, 0))
        if count <= before or now - at < PAUSE:
            return
        log.warning(line, subscription.name, subscription.options.dead_letter_topic, count)
        if len(self._written) >= LINES_MAX:
            self._written.clear()
        self._written[subscription.number, line] = now, count


_STUCK = "A message of %s cannot be dead-lettered, there is no topic %s (%d so far)"
_UNREAD = "A dead letter of %s went to %s, which has no subscription (%d so far)"
