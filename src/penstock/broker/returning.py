"""Leases that end without an ack, messages that expire, and dead letters.

A message moves to another topic in one command, so in one commit. It is always in exactly one of the two places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.broker.facts import Removed, Returned, SubscriptionDeleted
from penstock.broker.leases import Timer
from penstock.broker.ledger import Ledger
from penstock.broker.limits import SECONDS_MAX
from penstock.broker.log import Need
from penstock.broker.model import FOREVER, SECOND, Draft, Message
from penstock.broker.publishing import append
from penstock.broker.retry import Source, backoff, is_spent, stuck_backoff
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic

SETTLE_AT_ONCE = 10_000  # leases settled by one command, so that it stays short


def expire_unused(ledger: Ledger, now: int, name: str) -> None:
    """Delete a subscription unused for its time to live, before housekeeping does."""
    subscription = ledger.state.subscription_names.get(name)
    if subscription is not None and subscription.is_unused(now):
        ledger.emit(SubscriptionDeleted(subscription.number))


def settle_due(ledger: Ledger, topic: Topic, subscription: Subscription, now: int) -> Need | None:
    """Return leases that ended, wake messages whose delay is over, and move or drop expired messages."""
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
    # Not in the order in which leases were given, because snapshots do not keep it.
    lapsed.sort(key=lambda offset: (entries[offset].due, offset))
    expired.sort(key=lambda offset: (entries[offset].expires_at, offset))
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
    """End leases, and move messages that used up their attempts to the dead letter topic.

    Return the offsets of such messages that are not in memory, with the range to read. They stay leased. With message
    ordering all messages wait with them, because a return would include the missing ones.
    """
    options, entries = subscription.options, subscription.outstanding
    spent: list[int] = []  # without a dead letter topic, a spent message is delivered again, not dropped
    if options.dead_letter_topic in ledger.state.topic_names:
        spent = [offset for offset in offsets if is_spent(options, entries[offset].attempts)]
    messages, missing, need = _bodies(ledger, topic, spent)
    move(ledger, topic, subscription, now, messages, options.dead_letter_topic, "dead-letter")
    if missing and options.ordering:
        return [offset for offset in offsets if offset in entries], need
    leaving = set(spent)
    failed = dict.fromkeys(offset for offset in offsets if offset not in leaving)
    if failed:
        returned = _with_later_of_key(subscription, failed)
        dues = [_due(subscription, now, o, by_holder, delay_seconds) if o in failed else now for o in returned]
        at_once = all(due == now for due in dues)
        ledger.emit(Returned(subscription.number, now, returned, [] if at_once else dues, by_holder))
        subscription.counts.returned += len(returned)
        if options.dead_letter_topic:  # the dead letter topic of spent messages that are still here does not exist
            stuck = sum(is_spent(options, entries[offset].attempts) for offset in failed)
            subscription.counts.dead_letter_failures += stuck
    return missing, need


def put_back(ledger: Ledger, subscription: Subscription, now: int, offsets: Iterable[int]) -> None:
    """End leases of messages that reached no program, without an attempt, a backoff or a dead letter."""
    unseen = dict.fromkeys(offsets)
    if unseen:
        returned = _with_later_of_key(subscription, unseen)
        ledger.emit(Returned(subscription.number, now, sorted(unseen), [], True, unseen=True))
        later = [offset for offset in returned if offset not in unseen]
        if later:
            ledger.emit(Returned(subscription.number, now, later, [], True))
        subscription.counts.returned += len(returned)


def end_endless_leases(ledger: Ledger, time_of: Callable[[str], int]) -> None:
    """End leases without a deadline after a restart, when they have no holder.

    No attempt counts, because the messages did not fail. `time_of` gives the time of a topic by its name.
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
        return now + int(min(delay_seconds, SECONDS_MAX) * SECOND)
    options, entry = subscription.options, subscription.outstanding[offset]
    since = now if by_holder or entry.due >= FOREVER else entry.due  # a lease ends at its deadline, not when noticed
    wait = backoff(options, entry.attempts)
    # The dead letter topic of a spent message that is still here does not exist. The end of a lease was wait enough.
    if by_holder and is_spent(options, entry.attempts):
        wait = max(wait, stuck_backoff(options, entry.attempts))
    return since + wait


# ---------------------------------------------------------------------- leaving for good


def expire(ledger: Ledger, topic: Topic, subscription: Subscription, now: int, messages: Sequence[Message]) -> None:
    """Move or drop outstanding messages whose time to live is over."""
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
    """Return the messages up to the first that is not in memory, the offsets from there on, and the range to read."""
    messages: list[Message] = []
    missing: list[int] = []
    need: Need | None = None
    for offset in offsets:
        message = ledger.look_up(topic, offset) if need is None else need
        if isinstance(message, Need):  # later messages wait, too, because a move keeps their order
            missing.append(offset)
            need = need or message
        else:
            messages.append(message)
    return messages, missing, need
