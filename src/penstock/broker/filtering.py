"""Filters compared ahead of the cursor, so that a backlog counts only messages that can be delivered.

A publish compares new messages with the filters of a bounded number of subscriptions. The others, and subscriptions
after a seek, are compared here, a slice at a time.
"""

from __future__ import annotations

from penstock.broker.facts import Compared, Passed
from penstock.broker.ledger import Ledger
from penstock.broker.log import Need
from penstock.broker.ranges import find_outside
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic

FILTER_SLICE = 1000  # messages that are compared in one step


def compare_filter(
    ledger: Ledger, now: int, topic: Topic, subscription: Subscription, most: int = FILTER_SLICE
) -> Need | None:
    """Compare the filter of a subscription with the next `most` messages of the log.

    Messages that do not match count as acked. Return the range to read if the first message is not in memory.
    """
    accepts, offset, need = subscription.accepts, subscription.front, None
    if accepts is None or subscription.detached:
        return None
    passed = passed_bytes = ahead = ahead_bytes = 0
    cursor, is_at_cursor = subscription.cursor, offset == subscription.cursor
    for _ in range(most):
        offset = find_outside(subscription.skips, offset)
        if offset >= topic.tail:
            break
        message = ledger.look_up(topic, offset)
        if isinstance(message, Need):
            need = message
            break
        offset += 1
        if accepts(message.attributes):
            is_at_cursor = False
        elif is_at_cursor:
            passed, passed_bytes, cursor = passed + 1, passed_bytes + message.size, offset
        else:
            ahead, ahead_bytes = ahead + 1, ahead_bytes + message.size
    subscription.counts.filtered += passed + ahead
    if passed:
        ledger.emit(Passed(subscription.number, now, cursor, passed, passed_bytes, passed))
    if offset > subscription.front:
        ledger.emit(Compared(subscription.number, offset, ahead, ahead_bytes))
        return None
    return None if passed else need
