"""Receipts: deliveries are acked, handed back, extended or renewed. An old receipt is an answer, not an error.

The caller says whether its receipts are strict. A strict receipt is good until its deadline. Any other is good until
the message is delivered again, or until its lease has ended where messages are delivered in order. With exactly-once
delivery all receipts are strict.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.consuming import Renewed, Settled
from penstock.broker.facts import Acked, Adopted, Extended, Rewritten
from penstock.broker.leases import NO_RECEIPT, Entry, deadline_of
from penstock.broker.ledger import Ledger
from penstock.broker.log import Need
from penstock.broker.names import parse_receipt, publisher_stamp, receipt
from penstock.broker.ranges import is_inside
from penstock.broker.returning import give_back, put_back
from penstock.broker.subscription import Subscription
from penstock.errors import InvalidArgumentError


def ack(ledger: Ledger, now: int, receipts: Iterable[str], lapsed: bool = False, *, strict: bool = True) -> Settled:
    """Messages are done with. `lapsed`: as for `extend`."""
    good, settled = _sort(ledger, now, receipts, strict, lapsed)
    if settled.need is not None:
        return settled
    for number, offsets in good.items():
        ledger.emit(Acked(number, now, list(offsets)))
        ledger.state.subscriptions[number].counts.acked += len(offsets)
    return settled


def ack_delivered(ledger: Ledger, now: int, number: int, places: Iterable[tuple[int, ...]]) -> int:
    """Ack for a holder that kept its deliveries and needs no receipts; how many were good.

    A place begins with offset and stamp; what follows is the holder's own.
    """
    subscription = ledger.state.subscriptions.get(number)
    if subscription is None:
        return 0
    entries = subscription.outstanding
    good: dict[int, None] = {}
    for place in places:
        entry = entries.get(place[0])
        if entry is not None and _is_good(subscription, entry, place[1], now, strict=False):
            good[place[0]] = None
    if good:
        ledger.emit(Acked(number, now, list(good)))
        subscription.counts.acked += len(good)
    return len(good)


def nack(
    ledger: Ledger,
    now: int,
    receipts: Iterable[str],
    delay_seconds: float | None = None,
    unseen: bool = False,
    *,
    strict: bool = True,
) -> Settled:
    """Hand messages back, to be delivered again after the retry backoff or the given delay.

    `unseen`: they only waited on the way to a program. They are ready at once, and the attempt does not count.
    """
    good, settled = _sort(ledger, now, receipts, strict)
    if settled.need is not None:
        return settled
    pending, need = settled.pending, settled.need
    for number, offsets in good.items():
        subscription = ledger.state.subscriptions[number]
        leased = [offset for offset in offsets if subscription.outstanding[offset].leased]
        if unseen:
            put_back(ledger, subscription, now, leased)
            continue
        topic = ledger.state.topics[subscription.topic]
        missing, unread = give_back(ledger, topic, subscription, now, leased, True, delay_seconds)
        pending = pending + [receipt(number, o, subscription.outstanding[o].stamp) for o in missing]
        need = need or unread
    return settled._replace(pending=pending, need=need)


def extend(
    ledger: Ledger,
    now: int,
    receipts: Iterable[str],
    seconds: float,
    lapsed: bool = False,
    *,
    strict: bool = True,
) -> Settled:
    """Let leases end `seconds` from now; 0 hands the messages back.

    `lapsed`: also leases whose end has passed unnoticed, for a holder that works on the messages all the time and
    could not say so: it kept the very process busy in which the broker runs.
    """
    if seconds < 0:
        raise InvalidArgumentError("A lease cannot be extended by a negative time")
    if seconds == 0:
        return nack(ledger, now, receipts, strict=strict)
    good, settled = _sort(ledger, now, receipts, strict, lapsed)
    if settled.need is not None:
        return settled
    deadline = deadline_of(now, seconds)
    for number, offsets in good.items():
        ledger.emit(Extended(number, now, list(offsets), deadline))
    return settled


def examine(ledger: Ledger, now: int, receipts: Iterable[str]) -> Settled:
    """Return which receipts are not good if they are strict, without acting on the others."""
    return _sort(ledger, now, receipts, strict=True)[1]


def renew(
    ledger: Ledger, now: int, text: str, seconds: float, data: bytes | None = None, *, strict: bool = True
) -> Renewed:
    """Exchange a receipt for a new one with a new deadline, and the body for another if one is given."""
    good, settled = _sort(ledger, now, [text], strict)
    if settled.need is not None or not good:
        return Renewed("", 0, settled.need)
    number, offsets = next(iter(good.items()))
    offset, deadline = next(iter(offsets)), deadline_of(now, seconds)
    if data is not None:
        ledger.emit(Rewritten(number, offset, data))
    stamp = ledger.draw()
    ledger.emit(Extended(number, now, [offset], deadline, restamp=True, stamp=stamp))
    return Renewed(receipt(number, offset, stamp), deadline)


def publisher_receipt(ledger: Ledger, number: int, offset: int) -> str:
    """A receipt for a message that was just published, good on one subscription until it is first delivered."""
    return receipt(number, offset, publisher_stamp(ledger.state.secret, number, offset))


def _sort(
    ledger: Ledger, now: int, receipts: Iterable[str], strict: bool, lapsed: bool = False
) -> tuple[dict[int, dict[int, None]], Settled]:
    """Good receipts by subscription and offset, and the others."""
    good: dict[int, dict[int, None]] = {}
    settled = Settled([], [])
    asked = list(receipts)
    for text in asked:
        parsed = parse_receipt(text)
        if parsed is None:
            settled.malformed.append(text)
            continue
        number, offset, stamp = parsed
        subscription = ledger.state.subscriptions.get(number)
        entry = subscription.outstanding.get(offset) if subscription is not None else None
        if entry is None or not entry.stamp:  # never delivered: only its publisher has a receipt
            stamp = 0 if stamp == publisher_stamp(ledger.state.secret, number, offset) else NO_RECEIPT
        if entry is None and stamp == 0 and subscription is not None and not strict:
            need = _adopt(ledger, subscription, now, offset)
            if need is not None:
                return {}, Settled([], [], asked, need)
            entry = subscription.outstanding.get(offset)
        offsets = good.setdefault(number, {}) if entry is not None else {}
        if entry is None or offset in offsets or not _is_good(subscription, entry, stamp, now, strict, lapsed):
            settled.stale.append(text)
        else:
            offsets[offset] = None
    return {number: offsets for number, offsets in good.items() if offsets}, settled


def _adopt(ledger: Ledger, subscription: Subscription, now: int, offset: int) -> Need | None:
    """Give an entry to a message that its publisher named by receipt before the cursor came to it, if it may."""
    topic = ledger.state.read_topic(subscription)
    options = subscription.options
    if topic is None or options.exactly_once or options.ordering:
        return None
    if not max(subscription.cursor, topic.head) <= offset < topic.tail or is_inside(subscription.skips, offset):
        return None
    message = ledger.look_up(topic, offset)
    if isinstance(message, Need):
        return message
    if subscription.accepts is None or subscription.accepts(message.attributes):
        due = message.visible_at or now
        ledger.emit(Adopted(subscription.number, now, offset, message.size, due, message.expires_at))
    return None


def _is_good(
    subscription: Subscription | None, entry: Entry, stamp: int, now: int, strict: bool, lapsed: bool = False
) -> bool:
    """Whether a receipt is still good for an outstanding message."""
    if subscription is None or entry.stamp != stamp or 0 < entry.expires_at <= now:
        return False
    if strict or subscription.options.exactly_once:
        return entry.leased and (lapsed or entry.due > now) and stamp > 0
    return entry.leased or not subscription.options.ordering
