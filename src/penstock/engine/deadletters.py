"""What the log says of dead letters that have nowhere to go, or go where nobody reads.

When a subscription is made or changed, and each time it happens, but the same line at most once a minute for a
subscription: the counters are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from penstock.broker.facts import Removed, Returned, SubscriptionChanged, SubscriptionCreated
from penstock.broker.model import SECOND
from penstock.broker.state import State
from penstock.broker.subscription import Subscription

PAUSE = 60 * SECOND
LINES_MAX = 10_000  # remembered
log = logging.getLogger("penstock")

LookedAt: TypeAlias = Returned | Removed | SubscriptionCreated | SubscriptionChanged


class DeadLetterWatch:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._said: dict[tuple[int, str], tuple[int, int]] = {}  # subscription and line -> when, and the count

    def note(self, fact: LookedAt, state: State) -> None:
        """The state is the one after all facts of a command: a message that was returned may be gone by now."""
        subscription = state.subscriptions.get(fact.subscription)
        if subscription is not None and subscription.options.dead_letter_topic:
            self._look(fact, subscription, state, self._now())

    def _look(self, fact: LookedAt, subscription: Subscription, state: State, now: int) -> None:
        name, counts = subscription.options.dead_letter_topic, subscription.counts
        topic = state.topic_names.get(name)
        if topic is not None and topic.readers:
            return
        if isinstance(fact, SubscriptionCreated | SubscriptionChanged):
            trouble = "that does not exist" if topic is None else "without a subscription"
            log.warning("Subscription %s has a dead letter topic %s: %s", subscription.name, trouble, name)
        elif isinstance(fact, Returned):
            self._say(_STUCK, subscription, counts.dead_letter_failures, now)
        else:
            self._say(_UNREAD, subscription, counts.dead_letters_unread, now)

    def _say(self, line: str, subscription: Subscription, count: int, now: int) -> None:
        """If there are more than when it was last said, and that was a while ago."""
        at, before = self._said.get((subscription.number, line), (now - PAUSE, 0))
        if count <= before or now - at < PAUSE:
            return
        log.warning(line, subscription.name, subscription.options.dead_letter_topic, count)
        if len(self._said) >= LINES_MAX:
            self._said.clear()
        self._said[subscription.number, line] = now, count


_STUCK = "A message of %s cannot be dead-lettered, there is no topic %s (%d so far)"
_UNREAD = "A dead letter of %s went to %s, which has no subscription (%d so far)"
