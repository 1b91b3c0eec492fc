"""Commands that ack, hand back, extend or renew deliveries by receipt. An old receipt is not an error.

The caller says whether its receipts are strict. A strict receipt is valid until its deadline. Any other is valid until
the message is delivered again, or with message ordering until its lease has ended. With exactly-once delivery all
receipts are strict.
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
    """Ack messages. `lapsed` is as for `extend`."""
    valid, settled = _sort(ledger, now, receipts, strict, lapsed)
    if settled.need is not None:
        return settled
    for number, offsets in valid.items():
        ledger.emit(Acked(number, now, list(offsets)))
        ledger.state.subscriptions[number].counts.acked += len(offsets)
    return settled


def ack_delivered(ledger: Ledger, now: int, number: int, deliveries: Iterable[tuple[int, ...]]) -> int:
    """Ack deliveries that the caller kept, without receipts, and return how many were valid.

    A delivery is a tuple that begins with offset and stamp. The rest of it belongs to the caller.
    """
    subscription = ledger.state.subscriptions.get(number)
    if subscription is None:
        return 0
    entries = subscription.outstanding
    valid: dict[int, None] = {}
    for delivery in deliveries:
        entry = entries.get(delivery[0])
        if entry is not None and _is_valid(subscription, entry, delivery[1], now, strict=False):
            valid[delivery[0]] = None
    if valid:
        ledger.emit(Acked(number, now, list(valid)))
        subscription.counts.acked += len(valid)
    return len(valid)


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

    `unseen` messages reached no program. They are ready at once, and the attempt does not count.
    """
    if delay_seconds is not None and not delay_seconds >= 0:
        raise InvalidArgumentError("A message cannot be delayed by a negative time")
    valid, settled = _sort(ledger, now, receipts, strict)
    if settled.need is not None:
        return settled
    pending, need = settled.pending, settled.need
    for number, offsets in valid.items():
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
    """Let leases end `seconds` from now. 0 hands the messages back.

    `lapsed` includes leases whose end has passed unnoticed. It is for a holder that could not extend them, because it
    kept the process busy in which the broker runs.
    """
    if not seconds >= 0:  # negative, or not a number
        raise InvalidArgumentError("A lease cannot be extended by a negative time")
    if seconds == 0:
        return nack(ledger, now, receipts, strict=strict)
    valid, settled = _sort(ledger, now, receipts, strict, lapsed)
    if settled.need is not None:
        return settled
    deadline = deadline_of(now, seconds)
    for number, offsets in valid.items():
        ledger.emit(Extended(number, now, list(offsets), deadline))
    return settled


def examine(ledger: Ledger, now: int, receipts: Iterable[str]) -> Settled:
    """Return the receipts that are invalid if they are strict, without acting on the others."""
    return _sort(ledger, now, receipts, strict=True)[1]


def renew(
    ledger: Ledger, now: int, text: str, seconds: float, data: bytes | None = None, *, strict: bool = True
) -> Renewed:
    """Exchange a receipt for a new one with a new deadline, and replace the body if `data` is given."""
    if not seconds >= 0:
        raise InvalidArgumentError("A lease cannot have a negative time")
    if data is not None and type(data) is not bytes:
        raise InvalidArgumentError(f"Message data must be bytes, not {type(data).__name__}")
    valid, settled = _sort(ledger, now, [text], strict)
    if settled.need is not None or not valid:
        return Renewed("", 0, settled.need)
    number, offsets = next(iter(valid.items()))
    offset, deadline = next(iter(offsets)), deadline_of(now, seconds)
    if data is not None:
        ledger.emit(Rewritten(number, offset, data))
    stamp = ledger.draw()
    ledger.emit(Extended(number, now, [offset], deadline, restamp=True, stamp=stamp))
    return Renewed(receipt(number, offset, stamp), deadline)


def publisher_receipt(ledger: Ledger, number: int, offset: int) -> str:
    """Return a receipt for a message just published, valid on one subscription until its first delivery."""
    return receipt(number, offset, publisher_stamp(ledger.state.secret, number, offset))


def _sort(
    ledger: Ledger, now: int, receipts: Iterable[str], strict: bool, lapsed: bool = False
) -> tuple[dict[int, dict[int, None]], Settled]:
    """Return the valid receipts by subscription and offset, and the others."""
    valid: dict[int, dict[int, None]] = {}
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
        offsets = valid.setdefault(number, {}) if entry is not None else {}
        if entry is None or offset in offsets or not _is_valid(subscription, entry, stamp, now, strict, lapsed):
            settled.stale.append(text)
        else:
            offsets[offset] = None
    return {number: offsets for number, offsets in valid.items() if offsets}, settled


def _adopt(ledger: Ledger, subscription: Subscription, now: int, offset: int) -> Need | None:
    """Give an entry to a message above the cursor that its publisher named by receipt, where that is allowed."""
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


def _is_valid(
    subscription: Subscription | None, entry: Entry, stamp: int, now: int, strict: bool, lapsed: bool = False
) -> bool:
    """Return whether a receipt is still valid for an outstanding message."""
    if subscription is None or entry.stamp != stamp or 0 < entry.expires_at <= now:
        return False
    if strict or subscription.options.exactly_once:
        return entry.leased and (lapsed or entry.due > now) and stamp > 0
    return entry.leased or not subscription.options.ordering
