"""Topics over the admin API: listed, created, shown, changed, purged and deleted."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from penstock.broker.counts import TOPIC_COUNTERS
from penstock.broker.limits import check_labels
from penstock.broker.model import TopicOptions
from penstock.doors.http.admin.calls import Call, Context, Project, route
from penstock.doors.http.admin.counters import counter_values
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.listing import (
    CHUNK_ROWS,
    Value,
    count_in_chunks,
    matching_names,
    page_by_name,
    page_by_value,
    within,
)
from penstock.doors.http.admin.listing import (
    Count as CountValues,
)
from penstock.doors.http.admin.options import values_of, with_options
from penstock.doors.http.admin.paging import Paging
from penstock.doors.http.admin.records import Count, Names, Topic
from penstock.doors.resources import TOPICS, check_new_name, parts_of, subscription_name
from penstock.engine.port import TopicMetadata
from penstock.engine.statistics import TopicStatistics
from penstock.errors import NotFoundError
from penstock.services.series import SECONDS_KEPT

Search = Annotated[str, msgspec.Meta(description="Text that the name contains.")]
Choice = TypeVar("Choice")
Sort = Annotated[Choice, msgspec.Meta(description="Column to sort by. - before it reverses the order.")]
Recent = Annotated[
    int,
    msgspec.Meta(ge=0, le=SECONDS_KEPT, description="Add the rate in each of the last N seconds, oldest first."),
]


class TopicQuery(Paging, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only topics of this project.")] = ""
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


class TopicName(msgspec.Struct):
    name: str
    project: str = ""


class Nothing(msgspec.Struct):
    pass


class NewTopic(with_options(TopicName, TopicOptions), forbid_unknown_fields=True):  # type: ignore[misc, call-arg]
    pass


class TopicChange(with_options(Nothing, TopicOptions, optional=True), forbid_unknown_fields=True):  # type: ignore[misc, call-arg]
    """Options to change. Options that are not given do not change."""


async def list_topics(call: Call[TopicQuery, None]) -> TopicPage:
    query, context = call.query, call.context
    sort, descending = query.sort.removeprefix("-"), query.sort.startswith("-")
    if sort == "name":
        page = await page_by_name(context, TOPICS, query.project, query.search, query, descending=descending)
    else:
        names = await matching_names(context, TOPICS, query.project, query.search)
        page = await page_by_value(context, names, _column(context, sort), query, descending=descending)

    async def work(chunk: Sequence[str]) -> list[Topic]:
        return await topic_records(context, await call.queue.find_topics(chunk))

    records = await context.listing.map_chunks(work, page.items, CHUNK_ROWS)
    if query.recent:
        for record in records:
            record.recent = context.rates.recent_of_topic(record.name, query.recent)
    return TopicPage(records, page.next_page_token, page.total)


def _column(context: Context, sort: str) -> CountValues:
    """Return the function that computes a column for topics."""
    queue, rates = context.queue, context.rates

    async def rate(names: Sequence[str]) -> dict[str, Value]:
        return within(names, {name: rates.of_topic(name)[0] for name in rates.busy_topics()})

    async def size(names: Sequence[str]) -> dict[str, Value]:
        topics = await queue.find_topics(names)
        if sort == "messages":
            return {topic.name: topic.tail - topic.head for topic in topics}
        return {topic.name: topic.position - topic.head_position for topic in topics}

    async def statistic(names: Sequence[str]) -> dict[str, Value]:
        statistics = await queue.topic_statistics(names)
        if sort == "subscriptions":
            return {counts.topic: counts.subscriptions for counts in statistics}
        return {counts.topic: counts.last_publish_at for counts in statistics}

    if sort == "rate":
        return rate
    count = size if sort in ("messages", "bytes") else statistic
    return lambda names: count_in_chunks(context.listing, names, count)


async def create_topic(call: Call[Any, NewTopic]) -> Topic:
    body = call.body
    check_labels(body.labels)
    options = TopicOptions(**{name: getattr(body, name) for name in values_of(TopicOptions())})
    made = await call.queue.create_topic(check_new_name(call.topic(body.name), TOPICS), options)
    return (await topic_records(call.context, [made]))[0]


async def show_topic(call: Call[Project, None]) -> Topic:
    return (await topic_records(call.context, [await topic_of(call)]))[0]


async def change_topic(call: Call[Project, TopicChange]) -> Topic:
    topic = await topic_of(call)
    check_labels(call.body.labels or {})
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not None}
    changed = await call.queue.change_topic(topic.name, replace(topic.options, **given))
    return (await topic_records(call.context, [changed]))[0]


async def delete_topic(call: Call[Project, None]) -> None:
    await call.queue.delete_topic(call.topic())


async def topic_of(call: Call[Any, Any], name: str | None = None) -> TopicMetadata:
    """Return the topic in the path, or the named one."""
    full = call.topic(name)
    topic = await call.queue.find_topic(full)
    if topic is None:
        raise NotFoundError(f"Topic not found: {full}")
    return topic


async def topic_records(context: Context, topics: Sequence[TopicMetadata]) -> list[Topic]:
    names = [topic.name for topic in topics]
    statistics = {counts.topic: counts for counts in await context.queue.topic_statistics(names)}
    queues = {name for name in names if await context.queue.find_queue(name, _reader(name)) is not None}
    return [_record(context, topic, statistics[topic.name], queues) for topic in topics if topic.name in statistics]


def _reader(topic: str) -> str:
    """Return the name of the subscription that would make the topic a queue."""
    return subscription_name(*parts_of(topic))


def _record(context: Context, topic: TopicMetadata, statistics: TopicStatistics, queues: Container[str]) -> Topic:
    project, last = parts_of(topic.name)
    return Topic(
        name=topic.name,
        project=project,
        id=last,
        created_at=made_at(topic.created_at),
        **values_of(topic.options),
        schema=context.decoder.schema_of(topic) if context.decoder is not None else "",
        first_offset=topic.head,
        next_offset=topic.tail,
        messages=topic.tail - topic.head,
        bytes=topic.position - topic.head_position,
        subscriptions=statistics.subscriptions,
        **counter_values(TOPIC_COUNTERS, statistics.counts, context.rates.of_topic(topic.name)),
        dropped=dict(statistics.dropped),
        last_published_at=instant(statistics.last_publish_at),
        now=made_at(context.queue.clock_of(topic.name).now()),
        names=Names(**context.condition.names.of(topic.name, is_queue=topic.name in queues)),
    )


class Purge(msgspec.Struct, forbid_unknown_fields=True):
    dry_run: bool = False


class Purged(msgspec.Struct):
    """`messages`: number of messages that were purged, or would be."""

    messages: Count


async def purge_topic(call: Call[Project, Purge]) -> Purged:
    if call.body.dry_run:
        topic = await topic_of(call)
        return Purged(topic.tail - topic.head)
    return Purged(await call.queue.purge_topic(call.topic()))


ROUTES = (
    route("GET", "/topics", list_topics, "List topics."),
    route("POST", "/topics", create_topic, "Create a topic.", status=201),
    route("GET", "/topics/{topic}", show_topic, "Get a topic."),
    route("PATCH", "/topics/{topic}", change_topic, "Change a topic."),
    route("DELETE", "/topics/{topic}", delete_topic, "Delete a topic. Its subscriptions stay, detached."),
    route(
        "POST",
        "/topics/{topic}/purge",
        purge_topic,
        "Delete all messages of a topic. They count as acked on its subscriptions.",
    ),
)
