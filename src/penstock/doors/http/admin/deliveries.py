"""Deliveries over the admin API: peek, pull, ack, nack, extend, seek and purge."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Annotated, Any, Literal

import msgspec

from penstock.broker.model import SECOND
from penstock.broker.model import Message as StoredMessage
from penstock.broker.names import MAX_OFFSET, parse_receipt
from penstock.doors.consumers import Consumer, pull_holder
from penstock.doors.http.admin.calls import Call, Project, route
from penstock.doors.http.admin.instants import instant, parse_instant
from penstock.doors.http.admin.message_records import BodyQuery, Message, message_record, records_of
from penstock.doors.http.admin.records import Count
from penstock.doors.http.admin.subscriptions import subscription_of
from penstock.doors.http.admin.topics import Purge, Purged
from penstock.engine.port import Settled, SubscriptionMetadata, TopicMetadata
from penstock.errors import FailedPreconditionError, InvalidArgumentError

MESSAGES_MAX = 1000
RECEIPTS_MAX = 10_000
ANSWER_BYTES_MAX = 8 << 20
WAIT_SECONDS_MAX = 60
LEASE_SECONDS_MAX = 7 * 86400

Most = Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)]
Receipts = Annotated[list[str], msgspec.Meta(min_length=1, max_length=RECEIPTS_MAX)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=0, le=LEASE_SECONDS_MAX)]

_pulls = count(1)


class PeekQuery(BodyQuery, forbid_unknown_fields=True):
    max: Most = 100


class Peek(msgspec.Struct):
    messages: list[Message]


class Pull(msgspec.Struct, forbid_unknown_fields=True):
    """`lease_seconds`: time to ack the messages. Default: the ack deadline of the subscription."""

    max_messages: Most = 1
    lease_seconds: LeaseSeconds | None = None
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=WAIT_SECONDS_MAX)] = 0


class Delivery(msgspec.Struct):
    message: Message
    receipt: str
    attempt: Count
    deadline: datetime | None


class Deliveries(msgspec.Struct):
    deliveries: list[Delivery]


class Ack(msgspec.Struct, forbid_unknown_fields=True):
    receipts: Receipts


class Nack(Ack, forbid_unknown_fields=True):
    """`delay_seconds`: time until redelivery. Default: the retry policy of the subscription."""

    delay_seconds: LeaseSeconds | None = None


class Extend(Ack, forbid_unknown_fields=True, kw_only=True):
    """`seconds`: new ack deadline, from now. 0 returns the messages."""

    seconds: LeaseSeconds


class Settlement(msgspec.Struct):
    """Result of an ack, a nack or an extension. `malformed`: not receipts of this subscription."""

    settled: Count
    stale: list[str]
    malformed: list[str]


class Seek(msgspec.Struct, forbid_unknown_fields=True):
    """One of `offset`, `time` (an instant), `snapshot` (its name) and `to`."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)] | None = None
    time: str | None = None
    snapshot: str | None = None
    to: Literal["beginning", "end"] | None = None
    dry_run: bool = False


class Sought(msgspec.Struct):
    """Effect of a seek, in messages. `come_back`: acked before, unacked now. `skipped`: unacked before, acked now.

    `exact` is false if the subscription has a filter: messages that the filter drops are counted.
    """

    backlog_before: Count
    backlog_after: Count
    come_back: Count
    skipped: Count
    exact: bool


async def peek(call: Call[PeekQuery, None]) -> Peek:
    subscription, topic = await _subscription_with_topic(call)
    peeked = await call.queue.peek(subscription.name, call.query.max)
    chosen: list[StoredMessage] = []
    size = 0
    for message, _ in peeked.messages:
        size += message.size
        if chosen and size > ANSWER_BYTES_MAX:
            break
        chosen.append(message)
    return Peek(await records_of(call.context, topic, chosen, call.query))


async def pull(call: Call[Project, Pull]) -> Deliveries:
    subscription, topic = await _subscription_with_topic(call)
    body, queue, peer = call.body, call.queue, call.request.peer
    holder = pull_holder(next(_pulls), peer)
    waiting = Consumer("pull", holder, peer, window=body.max_messages)
    with call.context.consumers.present(subscription.name, waiting):
        pulled = await call.run_while_connected(
            queue.pull(
                subscription.name,
                body.max_messages,
                lease_seconds=body.lease_seconds,
                max_bytes=ANSWER_BYTES_MAX,
                wait_seconds=body.wait_seconds,
                holder=holder,
            )
        )
    seconds = subscription.options.lease_seconds if body.lease_seconds is None else body.lease_seconds
    ends_at = queue.clock_of(topic.name).now() + int(seconds * SECOND)
    return Deliveries(
        [
            Delivery(
                message_record(delivery.message, topic.name, topic.first_id),
                delivery.receipt,
                delivery.attempt,
                instant(min(filter(None, (ends_at, delivery.message.expires_at)))),
            )
            for delivery in pulled
        ]
    )


async def ack(call: Call[Project, Ack]) -> Settlement:
    good, foreign = await _receipts(call)
    return _settlement(call, await call.queue.ack(good, strict=False), foreign)


async def nack(call: Call[Project, Nack]) -> Settlement:
    good, foreign = await _receipts(call)
    return _settlement(call, await call.queue.nack(good, call.body.delay_seconds, strict=False), foreign)


async def extend(call: Call[Project, Extend]) -> Settlement:
    good, foreign = await _receipts(call)
    return _settlement(call, await call.queue.extend(good, call.body.seconds, strict=False), foreign)


async def _receipts(call: Call[Any, Any]) -> tuple[list[str], list[str]]:
    """Return the receipts that may belong to this subscription, each once, and the others."""
    subscription = await subscription_of(call)
    good: list[str] = []
    foreign: list[str] = []
    for text in dict.fromkeys(call.body.receipts):
        parsed = parse_receipt(text)
        (good if parsed is not None and parsed[0] == subscription.number else foreign).append(text)
    return good, foreign


def _settlement(call: Call[Any, Any], settled: Settled, foreign: list[str]) -> Settlement:
    malformed = [*settled.malformed, *foreign]
    total = len(set(call.body.receipts))
    return Settlement(total - len(settled.stale) - len(malformed), settled.stale, malformed)


async def seek(call: Call[Project, Seek]) -> Sought:
    subscription, topic = await _subscription_with_topic(call)
    body, queue = call.body, call.queue
    given = [name for name in ("offset", "time", "snapshot", "to") if getattr(body, name) is not None]
    if len(given) != 1:
        raise InvalidArgumentError("Give one of offset, time, snapshot and to")
    if body.snapshot is not None:
        snapshot = call.snapshot(body.snapshot)
        preview = await queue.preview_seek(subscription.name, snapshot=snapshot)
        if not body.dry_run:
            await queue.seek_to_snapshot(subscription.name, snapshot)
        return Sought(*preview)
    offset = topic.tail if body.to == "end" else body.offset or 0
    if body.time is not None:
        offset = await queue.first_offset_at(
            topic.name, parse_instant(body.time, "time", queue.clock_of(topic.name).now())
        )
    preview = await queue.preview_seek(subscription.name, offset=offset)
    if not body.dry_run:
        await queue.seek_to_offset(subscription.name, offset)
    return Sought(*preview)


async def purge(call: Call[Project, Purge]) -> Purged:
    subscription, topic = await _subscription_with_topic(call)
    preview = await call.queue.preview_seek(subscription.name, offset=topic.tail)
    if not call.body.dry_run:
        await call.queue.purge(subscription.name)
    return Purged(preview.backlog_before)


async def _subscription_with_topic(call: Call[Any, Any]) -> tuple[SubscriptionMetadata, TopicMetadata]:
    subscription = await subscription_of(call)
    topic = None if subscription.detached else await call.queue.find_topic(subscription.topic)
    if topic is None:
        raise FailedPreconditionError(f"Subscription is detached: {subscription.name}")
    return subscription, topic


_PATH = "/subscriptions/{subscription}"
ROUTES = (
    route("GET", f"{_PATH}/messages", peek, "Peek at messages without leasing them."),
    route("POST", f"{_PATH}/pull", pull, "Pull messages."),
    route("POST", f"{_PATH}/ack", ack, "Ack messages."),
    route("POST", f"{_PATH}/nack", nack, "Return messages for redelivery."),
    route("POST", f"{_PATH}/extend", extend, "Extend the ack deadline of messages."),
    route("POST", f"{_PATH}/seek", seek, "Seek to an offset, an instant, a snapshot, the beginning or the end."),
    route("POST", f"{_PATH}/purge", purge, "Ack all messages of the subscription."),
)
