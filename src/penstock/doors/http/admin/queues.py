"""Queues: a topic and the subscription of the same name that reads it, in one step."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.doors.http.admin.calls import Call, Context, Project, Route
from penstock.doors.http.admin.paging import Paging
from penstock.doors.http.admin.records import Names
from penstock.doors.http.admin.subscriptions import Backlog, Order, counts_of, is_queue, sorted_page, with_recent
from penstock.doors.http.admin.topics import Recent, Search, Sort
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, full_name, parts_of
from penstock.engine.statistics import SubscriptionStatistics
from penstock.errors import AlreadyExistsError, NotFoundError


class QueueRecord(Backlog, kw_only=True):
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
    query = call.query
    found = [
        each.name
        for each in await call.queue.subscriptions()
        if is_queue(each) and not each.detached and query.project in ("", parts_of(each.name, SUBSCRIPTIONS)[0])
    ]
    chosen = [name for name in found if query.search in parts_of(name, SUBSCRIPTIONS)[1]]
    page, counted = await sorted_page(call.context, chosen, query, query.sort)
    records = [_record(call.context, counted[name]) for name in page.items if name in counted]
    recent = with_recent(call.context, records, query.recent, "subscription")
    return QueuePage(recent, page.next_page_token, page.total)


async def create_queue(call: Call[Any, NewQueue]) -> QueueRecord:
    topic, subscription = _names(call, call.body.name)
    if not await call.queue.provide_queue(topic, subscription, QUEUE_OPTIONS):
        raise AlreadyExistsError(f"Queue already exists: {call.body.name}")
    return await _found(call, subscription)


async def show_queue(call: Call[Project, None]) -> QueueRecord:
    topic, subscription = _names(call, call.path["queue"])
    if await call.queue.find_queue(topic, subscription) is None:
        raise NotFoundError(f"Queue not found: {call.path['queue']}")
    return await _found(call, subscription)


async def delete_queue(call: Call[Project, None]) -> None:
    topic, subscription = _names(call, call.path["queue"])
    if await call.queue.find_queue(topic, subscription) is None:
        raise NotFoundError(f"Queue not found: {call.path['queue']}")
    await call.queue.remove_queue(topic, subscription)


def _names(call: Call[Any, Any], name: str) -> tuple[str, str]:
    """The topic and the subscription of a queue; in full, a queue has the name of its topic."""
    topic = call.topic(name)
    return topic, full_name(parts_of(topic)[0], SUBSCRIPTIONS, parts_of(topic)[1])


async def _found(call: Call[Any, Any], subscription: str) -> QueueRecord:
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
    Route("GET", "/queues", list_queues, "Queues, in pages.", QueuePage, QueueQuery),
    Route("POST", "/queues", create_queue, "Make a queue.", QueueRecord, body=NewQueue, status=201),
    Route("GET", "/queues/{queue}", show_queue, "A queue.", QueueRecord, Project),
    Route("DELETE", "/queues/{queue}", delete_queue, "Delete a queue.", query=Project),
)
