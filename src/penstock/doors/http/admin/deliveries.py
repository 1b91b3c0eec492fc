"""Messages of a subscription: looked at, pulled, settled; and the subscription set to another place."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import count
from typing import Annotated, Any, Literal

import msgspec

from penstock.broker.model import SECOND
from penstock.broker.model import Message as StoredMessage
from penstock.broker.names import MAX_OFFSET, parse_receipt
from penstock.doors.consumers import Consumer, pull_holder
from penstock.doors.http.admin.bodies import BodyQuery, records_of
from penstock.doors.http.admin.calls import Call, Project, Route
from penstock.doors.http.admin.moments import moment
from penstock.doors.http.admin.records import Count, Message, instant, message_record
from penstock.doors.http.admin.subscriptions import subscription_of
from penstock.doors.http.admin.topics import Purge, Purged
from penstock.engine.port import SeekPreview, Settled, SubscriptionMetadata, TopicMetadata
from penstock.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

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
    """`lease_seconds`: how long the messages are the caller's; without it, as the subscription has it."""

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
    """`delay_seconds`: until they may be delivered again; without it, as the subscription has it."""

    delay_seconds: LeaseSeconds | None = None


class Extend(Ack, forbid_unknown_fields=True, kw_only=True):
    """`seconds`: from now on; 0 hands the messages back."""

    seconds: LeaseSeconds


class Settlement(msgspec.Struct):
    """`stale`: receipts that are no longer good; `malformed`: that are none of this subscription."""

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
    """In messages. `come_back`: acked before, not afterwards; `skipped`: the other way round.

    Not `exact`: the subscription has a filter, and messages that it will pass over are counted.
    """

    backlog_before: Count
    backlog_after: Count
    come_back: Count
    skipped: Count
    exact: bool


async def peek(call: Call[PeekQuery, None]) -> Peek:
    known, topic = await _attached(call)
    peeked = await call.queue.peek(known.name, call.query.max)
    chosen: list[StoredMessage] = []
    size = 0
    for message, _ in peeked.messages:
        size += message.size
        if chosen and size > ANSWER_BYTES_MAX:
            break
        chosen.append(message)
    return Peek(await records_of(call.context, topic, chosen, call.query))


async def pull(call: Call[Project, Pull]) -> Deliveries:
    known, topic = await _attached(call)
    body, queue, peer = call.body, call.queue, call.request.peer
    holder = pull_holder(next(_pulls), peer)
    work = asyncio.ensure_future(
        queue.pull(
            known.name,
            body.max_messages,
            lease_seconds=body.lease_seconds,
            max_bytes=ANSWER_BYTES_MAX,
            wait_seconds=body.wait_seconds,
            holder=holder,
        )
    )
    call.request.on_left = work.cancel  # who has gone gets nothing
    waiting = Consumer("pull", holder, peer, window=body.max_messages)
    try:
        with call.context.consumers.present(known.name, waiting):
            pulled = await work
    except asyncio.CancelledError:
        if not work.cancelled():
            raise
        raise UnavailableError("The caller has gone") from None
    finally:
        call.request.on_left = None
        work.cancel()
    seconds = known.options.lease_seconds if body.lease_seconds is None else body.lease_seconds
    ends_at = queue.clock_of(topic.name).now() + int(seconds * SECOND)
    return Deliveries(
        [
            Delivery(
                message_record(each.message, topic.name, topic.first_id),
                each.receipt,
                each.attempt,
                instant(min(filter(None, (ends_at, each.message.expires_at)))),
            )
            for each in pulled
        ]
    )


async def ack(call: Call[Project, Ack]) -> Settlement:
    good, foreign = await _receipts(call)
    return _settlement(call, await call.queue.ack(good), foreign)


async def nack(call: Call[Project, Nack]) -> Settlement:
    good, foreign = await _receipts(call)
    return _settlement(call, await call.queue.nack(good, call.body.delay_seconds), foreign)


async def extend(call: Call[Project, Extend]) -> Settlement:
    good, foreign = await _receipts(call)
    return _settlement(call, await call.queue.extend(good, call.body.seconds), foreign)


async def _receipts(call: Call[Any, Any]) -> tuple[list[str], list[str]]:
    """The receipts that may be of this subscription, each once, and those that are not."""
    known = await subscription_of(call)
    good: list[str] = []
    foreign: list[str] = []
    for text in dict.fromkeys(call.body.receipts):
        parsed = parse_receipt(text)
        (good if parsed is not None and parsed[0] == known.number else foreign).append(text)
    return good, foreign


def _settlement(call: Call[Any, Any], settled: Settled, foreign: list[str]) -> Settlement:
    malformed = [*settled.malformed, *foreign]
    total = len(set(call.body.receipts))
    return Settlement(total - len(settled.stale) - len(malformed), settled.stale, malformed)


async def seek(call: Call[Project, Seek]) -> Sought:
    known, topic = await _attached(call)
    body, queue = call.body, call.queue
    given = [name for name in ("offset", "time", "snapshot", "to") if getattr(body, name) is not None]
    if len(given) != 1:
        raise InvalidArgumentError("Give one of offset, time, snapshot and to")
    if body.snapshot is not None:
        snapshot = call.snapshot(body.snapshot)
        preview = await queue.preview_seek(known.name, snapshot=snapshot)
        if not body.dry_run:
            await queue.seek_to_snapshot(known.name, snapshot)
        return _sought(preview)
    offset = topic.tail if body.to == "end" else body.offset or 0
    if body.time is not None:
        offset = await queue.first_offset_at(topic.name, moment(body.time, "time", queue.clock_of(topic.name).now()))
    preview = await queue.preview_seek(known.name, offset=offset)
    if not body.dry_run:
        await queue.seek_to_offset(known.name, offset)
    return _sought(preview)


def _sought(preview: SeekPreview) -> Sought:
    return Sought(*preview)


async def purge(call: Call[Project, Purge]) -> Purged:
    known, topic = await _attached(call)
    preview = await call.queue.preview_seek(known.name, offset=topic.tail)
    if not call.body.dry_run:
        await call.queue.purge(known.name)
    return Purged(preview.backlog_before)


async def _attached(call: Call[Any, Any]) -> tuple[SubscriptionMetadata, TopicMetadata]:
    """The subscription in the path, and the topic that it reads."""
    known = await subscription_of(call)
    topic = None if known.detached else await call.queue.find_topic(known.topic)
    if topic is None:
        raise FailedPreconditionError(f"Subscription is detached: {known.name}")
    return known, topic


_PATH = "/subscriptions/{subscription}"
ROUTES = (
    Route("GET", f"{_PATH}/messages", peek, "What a pull would give, left as it is.", Peek, PeekQuery),
    Route("POST", f"{_PATH}/pull", pull, "Lease messages.", Deliveries, Project, Pull),
    Route("POST", f"{_PATH}/ack", ack, "Messages are done with.", Settlement, Project, Ack),
    Route("POST", f"{_PATH}/nack", nack, "Hand messages back.", Settlement, Project, Nack),
    Route("POST", f"{_PATH}/extend", extend, "Let leases end later.", Settlement, Project, Extend),
    Route("POST", f"{_PATH}/seek", seek, "Go to another place of the topic.", Sought, Project, Seek),
    Route("POST", f"{_PATH}/purge", purge, "All that waits counts as acked.", Purged, Project, Purge),
)
