"""Consuming: messages are leased to consumers, and settled or handed back by their receipts.

Time acts first: a command at `now` begins by settling what fell due before `now`, so that nothing depends on when
it was looked at. Old receipts are answers, not errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.broker.facts import Acked, Adopted, Delayed, Delivered, Extended, Held, Passed, Rewritten, Touched
from penstock.broker.leases import NO_RECEIPT, Entry
from penstock.broker.ledger import Ledger
from penstock.broker.lifecycle import Stage
from penstock.broker.log import Need
from penstock.broker.model import FOREVER, SECOND, Message
from penstock.broker.names import parse_receipt, publisher_stamp, receipt
from penstock.broker.returning import expire, expire_unused, give_back, put_back, settle_due
from penstock.broker.selection import Plan, Room, Selection
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.errors import InvalidArgumentError

USE_SECONDS = 60  # how exactly it is known when a subscription was last asked in vain


class Delivery(NamedTuple):
    """A message as a consumer gets it."""

    message: Message
    subscription: int
    first_id: int  # of the topic
    stamp: int
    attempt: int  # 1 for the first delivery

    @property
    def receipt(self) -> str:
        return receipt(self.subscription, self.message.offset, self.stamp)

    @property
    def id(self) -> str:
        return str(self.first_id + self.message.offset)


class Pulled(NamedTuple):
    deliveries: list[Delivery]
    need: Need | None = None  # read this range and ask again
    more: bool = False  # there may be more right now


class Peeked(NamedTuple):
    messages: list[tuple[Message, int]]  # with the number of deliveries so far
    need: Need | None = None


class Settled(NamedTuple):
    """What became of receipts: all were good except these."""

    stale: list[str]
    malformed: list[str]
    pending: list[str] = []  # not decided yet: read `need` and ask again with these
    need: Need | None = None


class Renewed(NamedTuple):
    receipt: str  # empty: the old receipt was no longer good
    due: int
    need: Need | None = None


def pull(
    ledger: Ledger,
    now: int,
    name: str,
    max_messages: int,
    *,
    lease_seconds: float | None = None,
    max_bytes: int = 0,
    holder: str = "",
) -> Pulled:
    """Lease up to `max_messages`; `max_bytes` bounds the answer, but never below one message.

    `holder`: the consumer. While one holder has messages of an ordering key, no other gets more of that key.
    """
    subscription = ledger.state.subscription(name)
    if subscription.options.expiration_seconds:
        expire_unused(ledger, now, name)
        subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None:
        return Pulled([])
    need = settle_due(ledger, topic, subscription, now)
    if need is not None:
        return Pulled([], need, True)
    selection = Selection(topic, subscription, ledger.cache, now, holder=holder)
    plan = _look(ledger, selection, _room_for(ledger, subscription, max_messages, max_bytes))
    if plan.need is not None:
        selection.put_back()
        return Pulled([], plan.need, True)
    _note_passed(ledger, topic, subscription, now, plan)
    if plan.messages:
        seconds = subscription.options.lease_seconds if lease_seconds is None else lease_seconds
        deliveries = _lease(ledger, topic, subscription, now, seconds, plan)
        if subscription.lanes:
            subscription.note_holder(holder, plan.messages)
        return Pulled(deliveries, None, plan.cut or bool(plan.expired))
    ttl = subscription.options.expiration_seconds  # asking in vain is using it, too; noted seldom
    if ttl and now - subscription.used_at >= min(ttl / 2, USE_SECONDS) * SECOND:
        ledger.emit(Touched(subscription.number, now))
    return Pulled([], None, plan.cut or bool(plan.expired))


def _look(ledger: Ledger, selection: Selection, room: Room) -> Plan:
    """A plan without held messages that outlived their time: they leave first, or they would hide the next ones."""
    subscription = selection.subscription
    while True:
        plan = selection.run(room)
        late = [message for message in plan.expired if message.offset < subscription.cursor]
        if plan.need is not None or not late:
            return plan
        selection.put_back()
        selection.plan, selection.others = Plan(subscription.cursor), []
        held = [message for message in late if message.offset not in subscription.outstanding]
        if held:
            ledger.emit(_delayed(subscription, selection.now, held))
        expire(ledger, selection.topic, subscription, selection.now, late)


def _room_for(ledger: Ledger, subscription: Subscription, max_messages: int, max_bytes: int) -> Room:
    options, flow_bytes = subscription.options, 0
    if options.flow_max_messages:
        max_messages = min(max_messages, options.flow_max_messages - subscription.in_flight)
    if options.flow_max_bytes:
        flow_bytes = options.flow_max_bytes - subscription.in_flight_bytes
        max_messages = max_messages if flow_bytes > 0 else 0
    return Room(max_messages, max_bytes, flow_bytes, ledger.limits.scan_max_messages)


def _note_passed(ledger: Ledger, topic: Topic, subscription: Subscription, now: int, plan: Plan) -> None:
    """Note what the cursor passed on the way to the messages it found."""
    number = subscription.number
    if plan.passed or (plan.until > subscription.cursor and not plan.messages):
        ledger.emit(Passed(number, now, plan.until, plan.passed, plan.passed_bytes, plan.filtered))
        subscription.counts.filtered += plan.filtered
        if plan.passed > plan.filtered:
            subscription.counts.drop("expired", plan.passed - plan.filtered)
    if plan.held:
        held = plan.held
        ledger.emit(Held(number, [m.offset for m in held], [m.size for m in held], [m.ordering_key for m in held]))
    unseen = [message for message in plan.expired if message.offset not in subscription.outstanding]
    for messages in (plan.delayed, [message for message in unseen if message not in plan.delayed]):
        if messages:
            ledger.emit(_delayed(subscription, now, messages))
    if plan.expired:
        expire(ledger, topic, subscription, now, plan.expired)


def _lease(
    ledger: Ledger, topic: Topic, subscription: Subscription, now: int, seconds: float, plan: Plan
) -> list[Delivery]:
    messages = plan.messages
    stamp, number, first_id = ledger.draw(), subscription.number, topic.first_id
    deadline = _deadline(now, seconds)
    offsets = [message.offset for message in messages]
    sizes = [message.size for message in messages]
    keys = [message.ordering_key for message in messages] if subscription.options.ordering else []
    expiries = [message.expires_at for message in messages]
    expiries = expiries if any(expiries) else []
    keys = keys if any(keys) else []
    ledger.emit(Delivered(number, now, deadline, plan.until, offsets, sizes, keys, expiries, stamp))
    subscription.counts.delivered += len(messages)
    outstanding, new = subscription.outstanding, tuple.__new__
    again = [
        new(Delivery, (message, number, first_id, stamp, outstanding[message.offset].attempts))
        for message in messages[: plan.fresh]
    ]
    fresh = messages[plan.fresh :] if plan.fresh else messages
    return again + [new(Delivery, (message, number, first_id, stamp, 1)) for message in fresh]


def peek(
    ledger: Ledger, now: int, name: str, max_messages: int, pinned: dict[tuple[int, int], Message] | None = None
) -> Peeked:
    """Messages that a pull would give, without leasing them.

    After a Need, ask again with the same `pinned`: as nothing is leased, only it remembers what was seen.
    """
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None:
        return Peeked([])
    need = settle_due(ledger, topic, subscription, now)
    if need is not None:
        return Peeked([], need)
    selection = Selection(topic, subscription, ledger.cache, now, {} if pinned is None else pinned)
    plan = _look(ledger, selection, Room(max_messages, 0, 0, ledger.limits.scan_max_messages))
    selection.put_back()
    if plan.need is not None:
        return Peeked([], plan.need)
    entries = subscription.outstanding
    return Peeked([(m, entries[m.offset].attempts if m.offset in entries else 0) for m in plan.messages])


def is_unacked(ledger: Ledger, now: int, name: str, offset: int) -> bool:
    """Whether a message is still to be settled. What was never looked at counts, even if its time may be over."""
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None or not topic.head <= offset < topic.tail or subscription.stage(offset) is Stage.SETTLED:
        return False
    entry = subscription.outstanding.get(offset)
    return entry is None or not 0 < entry.expires_at <= now


def oldest_unacked(ledger: Ledger, name: str) -> Message | Need | None:
    """The oldest unacked message of a subscription, if it has one."""
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None:
        return None
    lowest = subscription.lowest_unacked()
    return ledger.look_up(topic, lowest) if lowest < topic.tail else None


# ------------------------------------------------------------------ receipts


def ack(ledger: Ledger, now: int, receipts: Iterable[str], lapsed: bool = False) -> Settled:
    """Messages are done with. `lapsed`: as for `extend`."""
    good, settled = _sort(ledger, now, receipts, lapsed)
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
        if entry is not None and _is_good(subscription, entry, place[1], now):
            good[place[0]] = None
    if good:
        ledger.emit(Acked(number, now, list(good)))
        subscription.counts.acked += len(good)
    return len(good)


def nack(
    ledger: Ledger, now: int, receipts: Iterable[str], delay_seconds: float | None = None, unseen: bool = False
) -> Settled:
    """Hand messages back, to be delivered again after the retry backoff or the given delay.

    `unseen`: they only waited on the way to a program. They are ready at once, and the attempt does not count.
    """
    good, settled = _sort(ledger, now, receipts)
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


def extend(ledger: Ledger, now: int, receipts: Iterable[str], seconds: float, lapsed: bool = False) -> Settled:
    """Let leases end `seconds` from now; 0 hands the messages back.

    `lapsed`: also leases whose end has passed unnoticed, for a holder that works on the messages all the time and
    could not say so: it kept the very process busy in which the broker runs.
    """
    if seconds < 0:
        raise InvalidArgumentError("A lease cannot be extended by a negative time")
    if seconds == 0:
        return nack(ledger, now, receipts)
    good, settled = _sort(ledger, now, receipts, lapsed)
    if settled.need is not None:
        return settled
    deadline = _deadline(now, seconds)
    for number, offsets in good.items():
        ledger.emit(Extended(number, now, list(offsets), deadline))
    return settled


def examine(ledger: Ledger, now: int, receipts: Iterable[str]) -> Settled:
    """Which receipts are not good, without acting on the others. For subscriptions whose receipts are strict."""
    return _sort(ledger, now, receipts)[1]


def renew(ledger: Ledger, now: int, text: str, seconds: float, data: bytes | None = None) -> Renewed:
    """Exchange a receipt for a new one with a new deadline, and the body for another if one is given."""
    good, settled = _sort(ledger, now, [text])
    if settled.need is not None or not good:
        return Renewed("", 0, settled.need)
    number, offsets = next(iter(good.items()))
    offset, deadline = next(iter(offsets)), _deadline(now, seconds)
    if data is not None:
        ledger.emit(Rewritten(number, offset, data))
    stamp = ledger.draw()
    ledger.emit(Extended(number, now, [offset], deadline, restamp=True, stamp=stamp))
    return Renewed(receipt(number, offset, stamp), deadline)


def publisher_receipt(ledger: Ledger, number: int, offset: int) -> str:
    """A receipt for a message that was just published, good on one subscription until it is first delivered."""
    return receipt(number, offset, publisher_stamp(ledger.state.secret, number, offset))


def _sort(
    ledger: Ledger, now: int, receipts: Iterable[str], lapsed: bool = False
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
        if entry is None and stamp == 0 and subscription is not None:
            need = _adopt(ledger, subscription, now, offset)
            if need is not None:
                return {}, Settled([], [], asked, need)
            entry = subscription.outstanding.get(offset)
        offsets = good.setdefault(number, {}) if entry is not None else {}
        if entry is None or offset in offsets or not _is_good(subscription, entry, stamp, now, lapsed):
            settled.stale.append(text)
        else:
            offsets[offset] = None
    return {number: offsets for number, offsets in good.items() if offsets}, settled


def _adopt(ledger: Ledger, subscription: Subscription, now: int, offset: int) -> Need | None:
    """Give an entry to a message that its publisher named by receipt before the cursor came to it, if it may."""
    topic = ledger.state.read_topic(subscription)
    options = subscription.options
    if topic is None or options.strict_receipts or options.exactly_once or options.ordering:
        return None
    if not max(subscription.cursor, topic.head) <= offset < topic.tail or subscription.skips_over(offset):
        return None
    message = ledger.look_up(topic, offset)
    if isinstance(message, Need):
        return message
    if subscription.accepts is None or subscription.accepts(message.attributes):
        due = message.visible_at or now
        ledger.emit(Adopted(subscription.number, now, offset, message.size, due, message.expires_at))
    return None


def _is_good(subscription: Subscription | None, entry: Entry, stamp: int, now: int, lapsed: bool = False) -> bool:
    """Whether a receipt is still good for an outstanding message."""
    if subscription is None or entry.stamp != stamp or 0 < entry.expires_at <= now:
        return False
    if subscription.options.strict_receipts or subscription.options.exactly_once:
        return entry.leased and (lapsed or entry.due > now) and stamp > 0
    return entry.leased or not subscription.options.ordering


def _deadline(now: int, seconds: float) -> int:
    return FOREVER if seconds == float("inf") else now + int(seconds * SECOND)


def _delayed(subscription: Subscription, now: int, messages: Sequence[Message]) -> Delayed:
    ordering = subscription.options.ordering
    return Delayed(
        subscription.number,
        now,
        [message.offset for message in messages],
        [message.size for message in messages],
        [message.ordering_key if ordering else "" for message in messages],
        [message.visible_at or now for message in messages],
        [message.expires_at for message in messages],
    )
