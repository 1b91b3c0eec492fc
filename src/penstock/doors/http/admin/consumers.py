"""Consumers over the admin API: connected clients, holders of leases, and readers of the log with a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from penstock.broker.model import FOREVER
from penstock.doors.consumers import Batch, Consumer
from penstock.doors.http.admin.calls import Call, Context, Project, route
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.listing import CHUNK_NAMES
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count
from penstock.doors.resources import SUBSCRIPTIONS
from penstock.engine.port import Holding, SubscriptionMetadata
from penstock.errors import NotFoundError
from penstock.names import prefix

LEASES_LOOKED_AT = 20_000
CONSUMERS_MAX = 1000  # in one answer


class ConsumerRecord(msgspec.Struct):
    """A consumer of a subscription. `kind` is null if the consumer is not connected and still holds messages. `door`
    and `holder` are null if they are not known, as after a restart."""

    door: str | None
    holder: str | None
    kind: Annotated[str | None, msgspec.Meta(description="stream, pull (waiting), push or cursor.")]
    address: str | None
    since: datetime | None
    window: Annotated[int | None, msgspec.Meta(description="Maximum messages in flight; null: no limit.")]
    leases: Count
    next_deadline: datetime | None


class LastBatch(msgspec.Struct):
    first_offset: int
    next_offset: int
    at: datetime | None


class CursorRecord(msgspec.Struct):
    """A reader of the log, such as Spark. `last_batch` is null until the reader continues after a server restart."""

    consumer: str
    subscription: str
    topic: str
    offset: Count
    lag_messages: Count
    lag_bytes: Count
    last_batch: LastBatch | None
    last_used_at: datetime | None
    created_at: datetime


class ConsumerList(msgspec.Struct):
    """Consumers of a subscription. `complete` is false if there are more than 20,000 leases: only the first count."""

    consumers: list[ConsumerRecord]
    total: Count
    complete: bool
    cursor: CursorRecord | None


class CursorQuery(Paging, forbid_unknown_fields=True):
    project: str = ""
    topic: Annotated[str, msgspec.Meta(description="Only cursors of this topic.")] = ""


class CursorPage(msgspec.Struct):
    cursors: list[CursorRecord]
    next_page_token: str
    total: Count


def connected_consumers(context: Context, subscription: SubscriptionMetadata) -> Iterator[tuple[str, Consumer]]:
    """Yield every connected consumer of a subscription with its door."""
    for door in context.condition.opened:
        for consumer in door.consumers(subscription):
            yield door.name, consumer


def is_cursor(context: Context, subscription: SubscriptionMetadata) -> bool:
    return any(consumer.kind == "cursor" for _, consumer in connected_consumers(context, subscription))


async def list_consumers(call: Call[Project, None]) -> ConsumerList:
    name = call.subscription()
    subscription = await call.queue.find_subscription(name)
    if subscription is None:
        raise NotFoundError(f"Subscription not found: {name}")
    in_flight = (await call.queue.backlog(name)).in_flight_messages
    records = merge_consumers(
        list(connected_consumers(call.context, subscription)), await call.queue.holdings(name, LEASES_LOOKED_AT)
    )
    cursors = await _cursors(call.context, [subscription])
    return ConsumerList(
        records[:CONSUMERS_MAX], len(records), in_flight <= LEASES_LOOKED_AT, cursors[0] if cursors else None
    )


def merge_consumers(present: Sequence[tuple[str, Consumer]], holdings: Sequence[Holding]) -> list[ConsumerRecord]:
    """Merge connected consumers with their leases, then append holders that are no longer connected."""
    left = {(holding.door, holding.holder): holding for holding in holdings}
    records = []
    for door, consumer in present:
        if consumer.kind == "cursor":
            continue
        if consumer.held is None:
            own = left.pop((door, consumer.holder), None)
        else:  # its door knows the messages of each consumer; their leases share one holder
            own = Holding(door, consumer.holder, len(consumer.held), None, FOREVER)
            shared = left.get((door, ""))
            if shared is not None:
                left[door, ""] = shared._replace(leases=shared.leases - own.leases)
        records.append(_connected_record(door, consumer, own))
    absent = sorted((holding for holding in left.values() if holding.leases > 0), key=lambda holding: -holding.leases)
    return [*records, *map(_disconnected_record, absent)]


def _connected_record(door: str, consumer: Consumer, own: Holding | None) -> ConsumerRecord:
    return ConsumerRecord(
        door=door,
        holder=consumer.holder,
        kind=consumer.kind,
        address=consumer.address or None,
        since=instant(consumer.since),
        window=consumer.window or None,
        leases=own.leases if own is not None else 0,
        next_deadline=instant(own.deadline) if own is not None else None,
    )


def _disconnected_record(own: Holding) -> ConsumerRecord:
    since, deadline = instant(own.since or 0), instant(own.deadline)
    return ConsumerRecord(own.door, own.holder or None, None, None, since, None, own.leases, deadline)


# ---------------------------------------------------------------------- cursors


async def list_cursors(call: Call[CursorQuery, None]) -> CursorPage:
    query, context = call.query, call.context
    start = prefix(query.project, SUBSCRIPTIONS) if query.project else ""
    if query.topic:
        readers = await call.queue.reader_names(call.topic(query.topic))
        names = await context.listing.sort([name for name in readers if name.startswith(start)])
    else:
        names = (await call.queue.names(SUBSCRIPTIONS, start)).names

    async def choose(chunk: Sequence[str]) -> list[SubscriptionMetadata]:
        return [reader for reader in await call.queue.find_subscriptions(chunk) if is_cursor(context, reader)]

    wanted = await context.listing.map_chunks(choose, names, CHUNK_NAMES)
    page = page_of(wanted, query, lambda subscription: subscription.name)
    return CursorPage(await _cursors(context, page.items), page.next_page_token, page.total)


async def _cursors(context: Context, subscriptions: Sequence[SubscriptionMetadata]) -> list[CursorRecord]:
    records = []
    for subscription in subscriptions:
        consumer = next((one for _, one in connected_consumers(context, subscription) if one.kind == "cursor"), None)
        topic = await context.queue.find_topic(subscription.topic)
        if consumer is None or topic is None:
            continue
        for counted in await context.queue.subscription_statistics([subscription.name]):
            lag = counted.backlog_messages  # a cursor has nothing outstanding
            records.append(
                CursorRecord(
                    consumer.holder,
                    subscription.name,
                    subscription.topic,
                    topic.tail - lag,
                    lag,
                    counted.backlog_bytes,
                    _batch(consumer.batch),
                    instant(counted.used_at),
                    made_at(subscription.created_at),
                )
            )
    return records


def _batch(batch: Batch | None) -> LastBatch | None:
    return LastBatch(batch.first, batch.until, instant(batch.at)) if batch is not None else None


ROUTES = (
    route(
        "GET",
        "/subscriptions/{subscription}/consumers",
        list_consumers,
        "List the consumers that are connected or hold messages.",
    ),
    route("GET", "/cursors", list_cursors, "List the readers of the log with their offset and lag."),
)
