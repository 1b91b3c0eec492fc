"""Topics: listed, made, shown, changed, deleted."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from penstock.broker.model import TopicOptions
from penstock.doors.http.admin.calls import Call, Context, Project, Route
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count, Names, Topic, instant, made_at
from penstock.doors.http.admin.rings import SECONDS_KEPT
from penstock.doors.resources import parts_of, subscription_name
from penstock.engine.port import TopicMetadata
from penstock.engine.statistics import TopicStatistics
from penstock.errors import NotFoundError

Labels = dict[str, str]
Retention = Annotated[float, msgspec.Meta(ge=0, le=1e9, description="Keep acked messages so long.")]
RetentionBytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60, description="And at most so many bytes; 0: no cap.")]
Search = Annotated[str, msgspec.Meta(description="Part of the name.")]
Choice = TypeVar("Choice")
Sort = Annotated[Choice, msgspec.Meta(description="With - before it: the largest first.")]
Recent = Annotated[
    int,
    msgspec.Meta(ge=0, le=SECONDS_KEPT, description="With each its rate in so many last seconds, oldest first."),
]


class TopicQuery(Paging, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only of this project.")] = ""
    search: Search = ""
    sort: Sort[
        Literal["name", "-name", "messages", "-messages", "bytes", "-bytes", "rate", "-rate"]
        | Literal["subscriptions", "-subscriptions", "published", "-published"]
    ] = "name"
    recent: Recent = 0


class TopicPage(msgspec.Struct):
    topics: list[Topic]
    next_page_token: str
    total: int


class NewTopic(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    project: str = ""
    labels: Labels = {}
    retention_seconds: Retention = 0
    retention_bytes: RetentionBytes = 0


class TopicChange(msgspec.Struct, forbid_unknown_fields=True):
    """What is not given stays as it is."""

    labels: Labels | None = None
    retention_seconds: Retention | None = None
    retention_bytes: RetentionBytes | None = None


async def list_topics(call: Call[TopicQuery, None]) -> TopicPage:
    query, rates = call.query, call.context.rates
    found = [each for each in await call.queue.topics() if chosen(each.name, call.query.project, query.search)]
    sort = query.sort.removeprefix("-")
    counted: dict[str, TopicStatistics] = {}
    if sort in ("subscriptions", "published"):
        counted = {each.topic: each for each in await call.queue.topic_statistics([each.name for each in found])}
        found = [each for each in found if each.name in counted]
    keys: dict[str, Any] = {
        "name": lambda each: each.name,
        "messages": lambda each: (each.tail - each.head, each.name),
        "bytes": lambda each: (each.position - each.head_position, each.name),
        "rate": lambda each: (rates.of_topic(each.name)[0], each.name),
        "subscriptions": lambda each: (counted[each.name].subscriptions, each.name),
        "published": lambda each: (counted[each.name].last_publish_at, each.name),
    }
    page = page_of(found, query, keys[sort], descending=query.sort != sort)
    records = await topic_records(call.context, page.items)
    if query.recent:
        for record in records:
            record.recent = rates.recent_of_topic(record.name, query.recent)
    return TopicPage(records, page.next_page_token, page.total)


def chosen(name: str, project: str, search: str) -> bool:
    return search in name and (not project or parts_of(name)[0] == project)


async def create_topic(call: Call[Any, NewTopic]) -> Topic:
    body = call.body
    options = TopicOptions(body.retention_seconds, body.retention_bytes, body.labels)
    made = await call.queue.create_topic(call.topic(body.name), options)
    return (await topic_records(call.context, [made]))[0]


async def show_topic(call: Call[Project, None]) -> Topic:
    return (await topic_records(call.context, [await topic_of(call)]))[0]


async def change_topic(call: Call[Project, TopicChange]) -> Topic:
    known = await topic_of(call)
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not None}
    changed = await call.queue.change_topic(known.name, replace(known.options, **given))
    return (await topic_records(call.context, [changed]))[0]


async def delete_topic(call: Call[Project, None]) -> None:
    await call.queue.delete_topic(call.topic())


async def topic_of(call: Call[Any, Any], name: str | None = None) -> TopicMetadata:
    """The topic in the path, or another one that the caller named."""
    full = call.topic(name)
    found = await call.queue.find_topic(full)
    if found is None:
        raise NotFoundError(f"Topic not found: {full}")
    return found


async def topic_records(context: Context, topics: Sequence[TopicMetadata]) -> list[Topic]:
    counted = {each.topic: each for each in await context.queue.topic_statistics([each.name for each in topics])}
    queues = {each.name for each in topics if await context.queue.find_queue(each.name, _reader(each.name)) is not None}
    return [_record(context, each, counted[each.name], queues) for each in topics if each.name in counted]


def _reader(topic: str) -> str:
    """The subscription that makes a queue of a topic."""
    return subscription_name(*parts_of(topic))


def _record(context: Context, topic: TopicMetadata, counted: TopicStatistics, queues: Container[str]) -> Topic:
    project, last = parts_of(topic.name)
    rate, bytes_rate = context.rates.of_topic(topic.name)
    return Topic(
        name=topic.name,
        project=project,
        id=last,
        created_at=made_at(topic.created_at),
        labels=topic.options.labels,
        retention_seconds=topic.options.retention_seconds,
        retention_bytes=topic.options.retention_bytes,
        schema=context.decoder.schema_of(topic) if context.decoder is not None else "",
        first_offset=topic.head,
        next_offset=topic.tail,
        messages=topic.tail - topic.head,
        bytes=topic.position - topic.head_position,
        subscriptions=counted.subscriptions,
        published=counted.messages_published,
        dropped=dict(counted.dropped),
        publish_rate=rate,
        publish_bytes_rate=bytes_rate,
        last_published_at=instant(counted.last_publish_at),
        now=made_at(context.queue.clock_of(topic.name).now()),
        names=Names(**context.condition.names.of(topic.name, is_queue=topic.name in queues)),
    )


class Purge(msgspec.Struct, forbid_unknown_fields=True):
    dry_run: bool = False


class Purged(msgspec.Struct):
    """`messages`: how many were purged, or would be."""

    messages: Count


async def purge_topic(call: Call[Project, Purge]) -> Purged:
    if call.body.dry_run:
        topic = await topic_of(call)
        return Purged(topic.tail - topic.head)
    return Purged(await call.queue.purge_topic(call.topic()))


ROUTES = (
    Route("GET", "/topics", list_topics, "Topics, in pages.", TopicPage, TopicQuery),
    Route("POST", "/topics", create_topic, "Make a topic.", Topic, body=NewTopic, status=201),
    Route("GET", "/topics/{topic}", show_topic, "A topic.", Topic, Project),
    Route("PATCH", "/topics/{topic}", change_topic, "Change a topic.", Topic, Project, TopicChange),
    Route(
        "DELETE", "/topics/{topic}", delete_topic, "Delete a topic; its subscriptions stay, detached.", query=Project
    ),
    Route(
        "POST",
        "/topics/{topic}/purge",
        purge_topic,
        "Forget every message of a topic; nothing waits on its subscriptions.",
        Purged,
        Project,
        Purge,
    ),
)
