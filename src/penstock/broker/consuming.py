"""Commands that lease messages to consumers, or show them.

A command at `now` first settles everything that fell due before `now`, so that results do not depend on when commands
come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker.facts import Adopted, Delayed, Delivered, Held, Passed, Touched
from penstock.broker.leases import deadline_of
from penstock.broker.ledger import Ledger
from penstock.broker.lifecycle import Stage
from penstock.broker.log import Need
from penstock.broker.model import FOREVER, SECOND, Message
from penstock.broker.names import receipt
from penstock.broker.returning import expire, expire_unused, settle_due
from penstock.broker.selection import Plan, Room, Selection
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.errors import FailedPreconditionError, InvalidArgumentError

USE_SECONDS = 60  # pulls that got nothing record the use of a subscription this often


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
    need: Need | None = None  # read this range and repeat the command
    more: bool = False  # more messages may be ready now
    rest: int = 0  # chosen offsets below it are decided


class Peeked(NamedTuple):
    messages: list[tuple[Message, int]]  # with the number of deliveries so far
    need: Need | None = None


class Settled(NamedTuple):
    """The outcome of settling receipts: all were valid except the ones listed here."""

    stale: list[str]
    malformed: list[str]
    pending: list[str] = []  # not decided yet: read `need` and repeat with these
    need: Need | None = None


class Renewed(NamedTuple):
    receipt: str  # empty: the old receipt was not valid
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
    """Lease at most `max_messages` messages. `max_bytes` limits the answer, but never below one message.

    `holder` is the consumer. While it has messages of an ordering key, no other holder gets messages of that key.
    """
    if lease_seconds is not None and not lease_seconds >= 0:  # negative, or not a number
        raise InvalidArgumentError("A lease cannot have a negative time")
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
    plan = _make_plan(ledger, selection, _room_for(ledger, subscription, max_messages, max_bytes))
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
    ttl = subscription.options.expiration_seconds  # an empty pull is a use, too, but recorded seldom
    if ttl and now - subscription.used_at >= min(ttl / 2, USE_SECONDS) * SECOND:
        ledger.emit(Touched(subscription.number, now))
    return Pulled([], None, plan.cut or bool(plan.expired))


def _make_plan(ledger: Ledger, selection: Selection, room: Room) -> Plan:
    """Plan the next messages. Held messages that expired are removed first, because they would hide later ones."""
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
            ledger.emit(_delay_fact(subscription, selection.now, held))
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
    """Record the messages that the cursor passed on the way to the selected ones."""
    number = subscription.number
    if plan.passed or (plan.until > subscription.cursor and not plan.messages):
        passed = plan.passed, plan.passed_bytes, plan.filtered, plan.ahead, plan.ahead_bytes
        ledger.emit(Passed(number, now, plan.until, *passed))
        subscription.counts.filtered += plan.filtered - plan.ahead
        if plan.passed > plan.filtered:
            subscription.counts.drop("expired", plan.passed - plan.filtered)
    if plan.held:
        held = plan.held
        ledger.emit(Held(number, [m.offset for m in held], [m.size for m in held], [m.ordering_key for m in held]))
    unseen = [message for message in plan.expired if message.offset not in subscription.outstanding]
    for messages in (plan.delayed, [message for message in unseen if message not in plan.delayed]):
        if messages:
            ledger.emit(_delay_fact(subscription, now, messages))
    if plan.expired:
        expire(ledger, topic, subscription, now, plan.expired)


def _lease(
    ledger: Ledger, topic: Topic, subscription: Subscription, now: int, seconds: float, plan: Plan
) -> list[Delivery]:
    messages = plan.messages
    stamp, number, first_id = ledger.draw(), subscription.number, topic.first_id
    deadline = deadline_of(now, seconds)
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


def lease_at(ledger: Ledger, now: int, name: str, offsets: Sequence[int]) -> Pulled:
    """Lease the messages at these offsets without a deadline, if they are unacked and not leased.

    `offsets` ascend. Messages above the cursor are adopted first, so that the cursor stays where it is. With message
    ordering, a message taken out of turn would break the order.
    """
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if subscription.options.ordering:
        raise FailedPreconditionError(f"Messages cannot be chosen on a subscription with ordering: {name}")
    if topic is None:
        return Pulled([])
    need = settle_due(ledger, topic, subscription, now)
    if need is not None:
        return Pulled([], need, True)
    chosen: list[Message] = []
    for offset in offsets:
        if not topic.head <= offset < topic.tail or subscription.stage(offset) not in (Stage.UNREAD, Stage.WAITING):
            continue
        message = ledger.look_up(topic, offset)
        if isinstance(message, Need):  # lease earlier messages first, as the cache may not hold all
            need = message if not chosen else None
            return Pulled(_lease_chosen(ledger, topic, subscription, now, chosen), need, True, offset)
        kept_out = subscription.accepts is not None and not subscription.accepts(message.attributes)
        if not kept_out and not 0 < message.expires_at <= now:
            chosen.append(message)
    return Pulled(_lease_chosen(ledger, topic, subscription, now, chosen))


def _lease_chosen(
    ledger: Ledger, topic: Topic, subscription: Subscription, now: int, messages: Sequence[Message]
) -> list[Delivery]:
    if not messages:
        return []
    number, entries, stamp = subscription.number, subscription.outstanding, ledger.draw()
    for message in messages:
        if message.offset not in entries:
            ledger.emit(Adopted(number, now, message.offset, message.size, now, message.expires_at))
    expiries = [message.expires_at for message in messages]
    offsets, sizes = [message.offset for message in messages], [message.size for message in messages]
    expiries = expiries if any(expiries) else []
    ledger.emit(Delivered(number, now, FOREVER, subscription.cursor, offsets, sizes, [], expiries, stamp))
    subscription.counts.delivered += len(messages)
    deliveries = []
    for message in messages:
        entry = entries[message.offset]
        shown = message if entry.body is None else message._replace(data=entry.body)
        deliveries.append(Delivery(shown, number, topic.first_id, stamp, entry.attempts))
    return deliveries


def peek(
    ledger: Ledger, now: int, name: str, max_messages: int, pinned: dict[tuple[int, int], Message] | None = None
) -> Peeked:
    """Return the messages of the next pull, without leasing them.

    After a Need, repeat the command with the same `pinned`, which remembers the messages seen.
    """
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None:
        return Peeked([])
    need = settle_due(ledger, topic, subscription, now)
    if need is not None:
        return Peeked([], need)
    selection = Selection(topic, subscription, ledger.cache, now, {} if pinned is None else pinned)
    plan = _make_plan(ledger, selection, Room(max_messages, 0, 0, ledger.limits.scan_max_messages))
    selection.put_back()
    if plan.need is not None:
        return Peeked([], plan.need)
    entries = subscription.outstanding
    return Peeked([(m, entries[m.offset].attempts if m.offset in entries else 0) for m in plan.messages])


def is_unacked(ledger: Ledger, now: int, name: str, offset: int) -> bool:
    """Return whether a message is not settled yet. An unread or held one counts, even if it may have expired."""
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None or not topic.head <= offset < topic.tail or subscription.stage(offset) is Stage.SETTLED:
        return False
    entry = subscription.outstanding.get(offset)
    return entry is None or not 0 < entry.expires_at <= now


def oldest_unacked(ledger: Ledger, name: str) -> Message | Need | None:
    subscription = ledger.state.subscription(name)
    topic = ledger.state.read_topic(subscription)
    if topic is None or not subscription.unacked(topic)[0]:
        return None
    return ledger.look_up(topic, subscription.lowest_unacked())


def _delay_fact(subscription: Subscription, now: int, messages: Sequence[Message]) -> Delayed:
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
