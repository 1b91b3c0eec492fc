"""Queues over the admin API: a topic and its subscription of the same name, handled as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.doors.http.admin.calls import Call, Context, Project, route
from penstock.doors.http.admin.listing import CHUNK_NAMES, CHUNK_ROWS
from penstock.doors.http.admin.paging import Paging
from penstock.doors.http.admin.records import Names
from penstock.doors.http.admin.subscriptions import Backlog, Order, counts_of, is_queue, sorted_page, with_recent
from penstock.doors.http.admin.topics import Recent, Search, Sort
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, TOPICS, check_new_name, full_name, parts_of
from penstock.engine.statistics import SubscriptionStatistics
from penstock.errors import AlreadyExistsError, NotFoundError
from penstock.names import prefix


class QueueRecord(Backlog, kw_only=True):  # type: ignore[call-arg]
    subscription: str
    names: Names


class QueueQuery(Paging, forbid_unknown_fields=True):
    project: str = ""
    search: Search = ""
    sort: Sort[Order] = "name"
    recent: Recent = 0


class QueuePage(msgspec.Struct):
    queues: list[QueueRecord]
    next_page_token: str
    total: int


class NewQueue(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    project: str = ""


async def list_queues(call: Call[QueueQuery, None]) -> QueuePage:
    query, context = call.query, call.context
    names = (await call.queue.names(SUBSCRIPTIONS, prefix(query.project, SUBSCRIPTIONS) if query.project else "")).names

    async def choose(chunk: Sequence[str]) -> list[str]:
        subscriptions = await call.queue.find_subscriptions(chunk)
        return [
            subscription.name
            for subscription in subscriptions
            if is_queue(subscription) and not subscription.detached and query.search in _id(subscription.name)
        ]

    async def work(chunk: Sequence[str]) -> list[QueueRecord]:
        return [_record(context, statistics) for statistics in await call.queue.subscription_statistics(chunk)]

    chosen = await context.listing.map_chunks(choose, names, CHUNK_NAMES)
    page = await sorted_page(context, chosen, query, query.sort)
    records = await context.listing.map_chunks(work, page.items, CHUNK_ROWS)
    recent = with_recent(context, records, query.recent, "subscription")
    return QueuePage(recent, page.next_page_token, page.total)


def _id(subscription: str) -> str:
    return parts_of(subscription, SUBSCRIPTIONS)[1]


async def create_queue(call: Call[Any, NewQueue]) -> QueueRecord:
    topic, subscription = _names(call, call.body.name)
    if not await call.queue.provide_queue(check_new_name(topic, TOPICS), subscription, QUEUE_OPTIONS):
        raise AlreadyExistsError(f"Queue already exists: {call.body.name}")
    return await _load(call, subscription)


async def show_queue(call: Call[Project, None]) -> QueueRecord:
    topic, subscription = _names(call, call.path["queue"])
    if await call.queue.find_queue(topic, subscription) is None:
        raise NotFoundError(f"Queue not found: {call.path['queue']}")
    return await _load(call, subscription)


async def delete_queue(call: Call[Project, None]) -> None:
    topic, subscription = _names(call, call.path["queue"])
    if await call.queue.find_queue(topic, subscription) is None:
        raise NotFoundError(f"Queue not found: {call.path['queue']}")
    await call.queue.remove_queue(topic, subscription)


def _names(call: Call[Any, Any], name: str) -> tuple[str, str]:
    """Return the names of the topic and the subscription of a queue."""
    topic = call.topic(name)
    return topic, full_name(parts_of(topic)[0], SUBSCRIPTIONS, parts_of(topic)[1])


async def _load(call: Call[Any, Any], subscription: str) -> QueueRecord:
    for counted in await call.queue.subscription_statistics([subscription]):
        return _record(call.context, counted)
    raise NotFoundError(f"Subscription not found: {subscription}")


def _record(context: Context, counted: SubscriptionStatistics) -> QueueRecord:
    project, last = parts_of(counted.subscription, SUBSCRIPTIONS)
    return QueueRecord(
        name=last,
        project=project,
        topic=counted.topic,
        subscription=counted.subscription,
        names=Names(**context.condition.names.of(counted.topic, is_queue=True)),
        **counts_of(context, counted),
    )


ROUTES = (
    route("GET", "/queues", list_queues, "List queues."),
    route("POST", "/queues", create_queue, "Create a queue.", status=201),
    route("GET", "/queues/{queue}", show_queue, "Get a queue."),
    route("DELETE", "/queues/{queue}", delete_queue, "Delete a queue."),
)
