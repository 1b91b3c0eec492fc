"""Returning: leases that end without an ack, messages that outlive their time, and dead letters.

A message that leaves a subscription for another topic does both in one command, so in one commit: it is never in
neither place, and never in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.broker.facts import Removed, Returned, SubscriptionDeleted
from penstock.broker.leases import Timer
from penstock.broker.ledger import Ledger
from penstock.broker.log import Need
from penstock.broker.model import FOREVER, SECOND, Draft, Message
from penstock.broker.publishing import append
from penstock.broker.retry import Source, backoff, is_spent, stuck_backoff
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic

SETTLE_AT_ONCE = 10_000  # leases settled in one look at the timers, so that one command stays short


def expire_unused(ledger: Ledger, now: int, name: str) -> None:
    """A subscription unused for its time to live is gone, also before housekeeping comes to it."""
    subscription = ledger.state.subscription_names.get(name)
    if subscription is not None and subscription.is_unused(now):
        ledger.emit(SubscriptionDeleted(subscription.number))


def settle_due(ledger: Ledger, topic: Topic, subscription: Subscription, now: int) -> Need | None:
    """Let time act: leases that ended, waits that are over, lives that are over."""
    lapsed: list[int] = []
    expired: list[int] = []
    taken: list[Timer] = []
    entries = subscription.outstanding
    while len(lapsed) + len(expired) < SETTLE_AT_ONCE:
        timer = subscription.timers.take_due(now)
        if timer is None:
            break
        taken.append(timer)
        for offset in list(timer.offsets):
            entry = entries.get(offset)
            if entry is None or entry.timer is not timer:
                continue
            if 0 < entry.expires_at <= now:
                expired.append(offset)
            elif entry.leased:
                lapsed.append(offset)
            else:
                subscription.wake(offset, now)
    if not taken:
        return None
    lapsed.sort(key=lambda offset: (entries[offset].due, offset))  # not the order in which leases were given:
    expired.sort(key=lambda offset: (entries[offset].expires_at, offset))  # no snapshot knows it
    need, destination = None, subscription.options.expired_topic
    if destination in ledger.state.topic_names:
        messages, _, need = _bodies(ledger, topic, expired)
        move(ledger, topic, subscription, now, messages, destination, "expired")
    else:
        drop(ledger, subscription, now, expired, "expired")
    need = give_back(ledger, topic, subscription, now, lapsed, by_holder=False)[1] or need
    for timer in taken:
        if timer.live:  # its messages have to be read before they can be moved
            subscription.timers.put_back(timer)
    return need


def give_back(
    ledger: Ledger,
    topic: Topic,
    subscription: Subscription,
    now: int,
    offsets: Sequence[int],
    by_holder: bool,
    delay_seconds: float | None = None,
) -> tuple[list[int], Need | None]:
    """End leases; messages that failed once too often leave for the dead letter topic.

    Those among them that are not in memory stay as they are: they are named in the answer, with what to read.
    Where order counts the others wait with them, or a return would take the missing ones along.
    """
    options, entries = subscription.options, subscription.outstanding
    spent: list[int] = []  # without a topic to go to, a spent message is better delivered again than dropped
    if options.dead_letter_topic in ledger.state.topic_names:
        spent = [offset for offset in offsets if is_spent(options, entries[offset].attempts)]
    messages, missing, need = _bodies(ledger, topic, spent)
    move(ledger, topic, subscription, now, messages, options.dead_letter_topic, "dead-letter")
    if missing and options.ordering:
        return [offset for offset in offsets if offset in entries], need
    left = set(spent)
    failed = dict.fromkeys(offset for offset in offsets if offset not in left)
    if failed:
        returned = _with_later_of_key(subscription, failed)
        dues = [_due(subscription, now, o, by_holder, delay_seconds) if o in failed else now for o in returned]
        at_once = all(due == now for due in dues)
        ledger.emit(Returned(subscription.number, now, returned, [] if at_once else dues, by_holder))
        subscription.counts.returned += len(returned)
        if options.dead_letter_topic:  # those that are spent and still here have no topic to go to
            stuck = sum(is_spent(options, entries[offset].attempts) for offset in failed)
            subscription.counts.dead_letter_failures += stuck
    return missing, need


def put_back(ledger: Ledger, subscription: Subscription, now: int, offsets: Iterable[int]) -> None:
    """End leases of messages that reached no program: no attempt, no backoff, no dead letter."""
    unseen = dict.fromkeys(offsets)
    if unseen:
        returned = _with_later_of_key(subscription, unseen)
        ledger.emit(Returned(subscription.number, now, sorted(unseen), [], True, unseen=True))
        later = [offset for offset in returned if offset not in unseen]
        if later:
            ledger.emit(Returned(subscription.number, now, later, [], True))
        subscription.counts.returned += len(returned)


def end_endless_leases(ledger: Ledger, time_of: Callable[[str], int]) -> None:
    """After a restart there is no holder of a lease that was to last as long as the process.

    Whether their messages had reached a program is not known, and it was not they who failed: no attempt counts.
    `time_of`: of a topic by its name.
    """
    for subscription in ledger.state.subscriptions.values():
        endless = [o for o, e in subscription.outstanding.items() if e.leased and e.due >= FOREVER]
        put_back(ledger, subscription, time_of(subscription.topic_name), endless)


def _with_later_of_key(subscription: Subscription, failed: dict[int, None]) -> list[int]:
    returned = dict(failed)
    for offset in failed if subscription.lanes else ():
        lane = subscription.lanes.get(subscription.outstanding[offset].key)
        if lane is not None:
            returned.update(dict.fromkeys(lane.later_leased(offset)))
    return sorted(returned)


def _due(subscription: Subscription, now: int, offset: int, by_holder: bool, delay_seconds: float | None) -> int:
    if delay_seconds is not None:
        return now + int(delay_seconds * SECOND)
    options, entry = subscription.options, subscription.outstanding[offset]
    since = now if by_holder or entry.due >= FOREVER else entry.due  # a lease ended when it ended, not when seen
    wait = backoff(options, entry.attempts)
    # Spent and still here: its dead letter topic is not there. A lease that ended has waited long enough by itself.
    if by_holder and is_spent(options, entry.attempts):
        wait = max(wait, stuck_backoff(options, entry.attempts))
    return since + wait


# ---------------------------------------------------------------------- leaving for good


def expire(ledger: Ledger, topic: Topic, subscription: Subscription, now: int, messages: Sequence[Message]) -> None:
    """Outstanding messages whose time to live is over are moved or dropped."""
    destination = subscription.options.expired_topic
    if destination in ledger.state.topic_names:
        move(ledger, topic, subscription, now, messages, destination, "expired")
    else:
        drop(ledger, subscription, now, [message.offset for message in messages], "expired")


def drop(ledger: Ledger, subscription: Subscription, now: int, offsets: Sequence[int], reason: str) -> None:
    if offsets:
        ledger.emit(Removed(subscription.number, now, list(offsets), reason))
        subscription.counts.drop(reason, len(offsets))


def move(
    ledger: Ledger,
    topic: Topic,
    subscription: Subscription,
    now: int,
    messages: Sequence[Message],
    destination: str,
    reason: str,
) -> None:
    """Publish outstanding messages to another topic and remove them here."""
    if not messages:
        return
    drafts = []
    for message in messages:
        entry = subscription.outstanding[message.offset]
        source = Source(subscription.name, topic.name, entry.attempts, message.publish_time)
        attributes = {**message.attributes, **ledger.describe_source(source)}
        data = message.data if entry.body is None else entry.body
        drafts.append(Draft(data, attributes, message.ordering_key))
    target = ledger.state.topic_names[destination]
    append(ledger, target, ledger.time_at(destination, now), drafts, [_size(draft) for draft in drafts])
    ledger.emit(Removed(subscription.number, now, [message.offset for message in messages], reason))
    if reason == "dead-letter":
        subscription.counts.dead_lettered += len(messages)
        subscription.counts.dead_letters_unread += 0 if target.readers else len(messages)
    else:
        subscription.counts.drop(reason, len(messages))


def _size(draft: Draft) -> int:
    attributes = sum(len(key.encode()) + len(value.encode()) for key, value in draft.attributes.items())
    return len(draft.data) + attributes + len(draft.ordering_key.encode())


def _bodies(ledger: Ledger, topic: Topic, offsets: Iterable[int]) -> tuple[list[Message], list[int], Need | None]:
    """The messages in memory up to the first that is not, the offsets from there on, and what to read for it."""
    messages: list[Message] = []
    missing: list[int] = []
    need: Need | None = None
    for offset in offsets:
        found = ledger.look_up(topic, offset) if need is None else need
        if isinstance(found, Need):  # the later ones wait with it: moving keeps their order
            missing.append(offset)
            need = need or found
        else:
            messages.append(found)
    return messages, missing, need
