"""What a subscription is not done with, and what each message of it waits for; and the wait until nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from penstock.broker import facts as f
from penstock.broker.filters import compile_filter
from penstock.broker.model import Message as StoredMessage
from penstock.doors.http.admin.bodies import BodyQuery, records_of
from penstock.doors.http.admin.calls import Call, Route
from penstock.doors.http.admin.records import Count, Message, instant
from penstock.doors.http.admin.scanning import Range, blocks
from penstock.doors.http.admin.subscriptions import subscription_of
from penstock.engine.port import Queue, SubscriptionMetadata, TopicMetadata, Unsettled
from penstock.errors import UnavailableError

MESSAGES_MAX = PAGE_MESSAGES = 1000
ANSWER_BYTES_MAX = 8 << 20
SCAN_MESSAGES_MAX = 100_000  # looked at before the answer says that it is not complete
WAIT_SECONDS_MAX = 60
LOOK_SECONDS = 0.25  # time passes without a fact, and ends the life of messages
REST = 4  # times as long as a look took nobody looks: acks that come fast are not slowed by who waits for their end

_SETTLING = (f.Acked, f.Removed, f.Passed, f.Sought, f.Detached, f.SubscriptionDeleted)
_Stage = Literal["unread", "held", "waiting", "leased"]


class BacklogQuery(BodyQuery, forbid_unknown_fields=True):
    max: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] = 100
    wait_seconds: Annotated[
        float, msgspec.Meta(ge=0, le=WAIT_SECONDS_MAX, description="Answer as soon as nothing is left, or after that.")
    ] = 0


class UnsettledRecord(msgspec.Struct):
    """`stage`: unread (never delivered), held (an earlier message of its key is not settled), waiting (to be delivered
    from `until` on) or leased (with a consumer until `until`; null: as long as it stays)."""

    message: Message
    stage: _Stage
    until: datetime | None
    attempts: Count
    door: str | None
    holder: str | None


class BacklogPage(msgspec.Struct):
    """The first of them by offset. Not `complete`: there may be more, which were not looked at."""

    messages: list[UnsettledRecord]
    complete: bool


class _Found(NamedTuple):
    unsettled: list[tuple[Unsettled, StoredMessage]]
    complete: bool


async def show_backlog(call: Call[BacklogQuery, None]) -> BacklogPage:
    known = await subscription_of(call)
    topic = None if known.detached else await call.queue.find_topic(known.topic)
    if topic is None:  # nothing is delivered any more
        return BacklogPage([], complete=True)
    found = await _settled_or_after(call, known, topic)
    messages = [message for _, message in found.unsettled]
    records = await records_of(call.context, topic, messages, call.query)
    pairs = zip(found.unsettled, records, strict=True)
    return BacklogPage([_record(each, message) for (each, _), message in pairs], found.complete)


async def _settled_or_after(
    call: Call[BacklogQuery, None], known: SubscriptionMetadata, topic: TopicMetadata
) -> _Found:
    work = asyncio.ensure_future(_wait(call.queue, known, topic, call.query))
    call.request.on_left = work.cancel
    try:
        return await work
    except asyncio.CancelledError:
        if not work.cancelled():
            raise
        raise UnavailableError("The caller has gone") from None
    finally:
        call.request.on_left = None
        work.cancel()


async def _wait(queue: Queue, known: SubscriptionMetadata, topic: TopicMetadata, query: BacklogQuery) -> _Found:
    news, clock = asyncio.Event(), asyncio.get_running_loop().time
    ends_at = clock() + query.wait_seconds

    def on_fact(fact: Any) -> None:
        if fact.subscription == known.number:
            news.set()

    listener = queue.on(_SETTLING, on_fact)
    try:
        while True:
            news.clear()
            began = clock()
            found = await _look(queue, known, topic, query.max)
            took = clock() - began
            left = ends_at - clock()
            if left <= 0 or (found.complete and not found.unsettled):
                return found
            try:
                await asyncio.wait_for(news.wait(), min(left, LOOK_SECONDS))
                await asyncio.sleep(min(REST * took, left))
            except TimeoutError:
                continue
    finally:
        queue.off(listener)


async def _look(queue: Queue, known: SubscriptionMetadata, topic: TopicMetadata, most: int) -> _Found:
    accepts, found = compile_filter(known.options.filter), list[tuple[Unsettled, StoredMessage]]()
    step = PAGE_MESSAGES if known.options.filter else min(most + 1, PAGE_MESSAGES)
    place = scanned = size = 0
    while scanned < SCAN_MESSAGES_MAX:
        page = await queue.unsettled(known.name, place, step)
        now = queue.clock_of(known.name).now()
        async for each, message in _with_messages(queue, topic, page):
            kept_out = each.stage == "unread" and not accepts(message.attributes)
            is_over = 0 < message.expires_at <= now and not known.options.expired_topic
            if not kept_out and not is_over:
                found.append((_at(each, now), message))
                size += message.size
            if len(found) > most or (size > ANSWER_BYTES_MAX and len(found) > 1):
                return _Found(found[:-1], complete=False)
        if len(page) < step:
            return _Found(found, complete=True)
        place, scanned = page[-1].offset + 1, scanned + len(page)
    return _Found(found, complete=False)


def _at(each: Unsettled, now: int) -> Unsettled:
    """As it is for whoever asks next: a lease that has ended is none, noticed or not."""
    if each.stage == "leased" and each.until <= now:
        return each._replace(stage="waiting", door=None, holder=None)
    return each


async def _with_messages(
    queue: Queue, topic: TopicMetadata, page: Sequence[Unsettled]
) -> AsyncIterator[tuple[Unsettled, StoredMessage]]:
    """Those of them that the topic still has, each with its message, run by run of consecutive ones."""
    first = 0
    for place, each in enumerate(page):
        if place + 1 < len(page) and page[place + 1].offset == each.offset + 1:
            continue
        span, by_offset = Range(page[first].offset, each.offset + 1), page[first].offset - first
        async for block in blocks(queue, topic, span, descending=False):
            for message in block.messages:
                yield page[message.offset - by_offset], message
        first = place + 1


def _record(each: Unsettled, message: Message) -> UnsettledRecord:
    return UnsettledRecord(message, each.stage, instant(each.until), each.attempts, each.door, each.holder)


ROUTES = (
    Route(
        "GET",
        "/subscriptions/{subscription}/backlog",
        show_backlog,
        "What is not settled, and what it waits for.",
        BacklogPage,
        BacklogQuery,
    ),
)
