"""Subscriptions over the admin API: listed, created, shown, changed and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from penstock.broker.counts import SAMPLED_OF_SUBSCRIPTIONS, SUBSCRIPTION_COUNTERS
from penstock.broker.limits import check_labels
from penstock.broker.model import SubscriptionOptions, option_specs
from penstock.broker.names import MAX_OFFSET
from penstock.doors.consumers import Consumer
from penstock.doors.http.admin.calls import Call, Context, Project, route
from penstock.doors.http.admin.consumers import connected_consumers
from penstock.doors.http.admin.counters import counter_values, with_counters
from penstock.doors.http.admin.instants import instant, made_at, parse_instant
from penstock.doors.http.admin.listing import (
    CHUNK_ROWS,
    Value,
    count_in_chunks,
    matching_names,
    page_by_name,
    page_by_value,
    page_of_sorted,
    within,
)
from penstock.doors.http.admin.listing import (
    Count as CountValues,
)
from penstock.doors.http.admin.options import schema_of
from penstock.doors.http.admin.paging import Paging
from penstock.doors.http.admin.records import Count, Counts, Names, Now
from penstock.doors.http.admin.topics import Recent, Search, Sort
from penstock.doors.paging import Page
from penstock.doors.resources import SUBSCRIPTIONS, TOPICS, check_new_name, full_name, parts_of
from penstock.engine.options import SUBSCRIPTION, NotOfKindError
from penstock.engine.port import SubscriptionMetadata
from penstock.engine.statistics import SubscriptionStatistics
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.names import prefix

READ_ONLY = [name for name, spec in option_specs(SubscriptionOptions).items() if spec.read_only]
Options = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="Options by the names of the Python API. null means not given.",
        extra_json_schema=schema_of(SubscriptionOptions),
    ),
]


Order = (
    Literal["name", "-name", "backlog", "-backlog", "in_flight", "-in_flight", "oldest", "-oldest", "due", "-due"]
    | Literal["rate", "-rate", "acks", "-acks", "dead_letters", "-dead_letters"]
)
_SIZES = ("backlog_messages", "backlog_bytes", "in_flight_messages", "in_flight_bytes")
_COLUMNS = {
    "in_flight": "in_flight_messages",
    "oldest": "oldest_unacked_age_seconds",
    "due": "due_age_seconds",
    "dead_letters": "counts.dead_lettered",
    "topic": "topic",
}
_OF_BACKLOGS = ("in_flight", "oldest", "due")
_RATES = {"rate": "deliver_rate", "acks": "ack_rate"}


class BacklogSize(msgspec.Struct):
    name: str
    project: str
    topic: str
    backlog_messages: Count
    backlog_bytes: Count
    in_flight_messages: Count
    in_flight_bytes: Count
    oldest_age_seconds: float
    due_age_seconds: Annotated[
        float,
        msgspec.Meta(
            description="How long the oldest deliverable message has been deliverable. 0: all are delayed, or there is "
            "no message."
        ),
    ]


class Backlog(with_counters(BacklogSize, SUBSCRIPTION_COUNTERS), kw_only=True):  # type: ignore[misc, call-arg]
    """The backlog of a subscription, and its counters since the start."""

    dropped: Counts
    last_used_at: datetime | None
    now: Now
    recent: list[float] | msgspec.UnsetType = msgspec.UNSET


class Subscription(Backlog, kw_only=True):  # type: ignore[call-arg]
    id: str
    names: Names
    created_at: datetime
    detached: bool
    options: Options
    kind: Literal["pull", "push", "queue", "cursor"]
    consumers: Annotated[int, msgspec.Meta(ge=0, description="Connected consumers.")]


class SubscriptionQuery(Paging, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only subscriptions of this project.")] = ""
    topic: Annotated[str, msgspec.Meta(description="Only subscriptions of this topic.")] = ""
    search: Search = ""
    sort: Sort[Order | Literal["topic", "-topic"]] = "name"
    recent: Recent = 0


class SubscriptionPage(msgspec.Struct):
    subscriptions: list[Subscription]
    next_page_token: str
    total: int


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """A subscription to create. `start`: "end", "beginning", an offset or an instant to deliver messages from."""

    name: str
    topic: str
    project: str = ""
    options: Options = {}
    start: int | str = "end"


class SubscriptionChange(msgspec.Struct, forbid_unknown_fields=True):
    """Options to change. Options that are not given do not change."""

    options: Options


async def list_subscriptions(call: Call[SubscriptionQuery, None]) -> SubscriptionPage:
    query, context = call.query, call.context
    if not query.topic and query.sort in ("name", "-name"):
        descending = query.sort != "name"
        page = await page_by_name(context, SUBSCRIPTIONS, query.project, query.search, query, descending=descending)
    elif query.topic:
        page = await sorted_page(context, await _readers(call), query, query.sort)
    else:
        names = await matching_names(context, SUBSCRIPTIONS, query.project, query.search)
        page = await sorted_page(context, names, query, query.sort)

    async def work(chunk: Sequence[str]) -> list[Subscription]:
        subscriptions = {subscription.name: subscription for subscription in await call.queue.find_subscriptions(chunk)}
        counted = await call.queue.subscription_statistics(list(subscriptions))
        return [_record(context, subscriptions[statistics.subscription], statistics) for statistics in counted]

    records = await context.listing.map_chunks(work, page.items, CHUNK_ROWS)
    return SubscriptionPage(with_recent(context, records, query.recent), page.next_page_token, page.total)


async def _readers(call: Call[SubscriptionQuery, None]) -> list[str]:
    """Return the sorted names of the subscriptions of a topic that are asked for."""
    query, share = call.query, call.context.listing
    start = prefix(query.project, SUBSCRIPTIONS) if query.project else ""
    names = await call.queue.reader_names(call.topic(query.topic))
    return await share.sort(await share.filter(lambda name: query.search in name and name.startswith(start), names))


async def sorted_page(context: Context, names: Sequence[str], query: Paging, order: str) -> Page:
    """Return a page of sorted names of subscriptions, in the order that was asked for."""
    sort, descending = order.removeprefix("-"), order.startswith("-")
    if sort == "name":
        return page_of_sorted(names, query, descending=descending)
    least = "" if sort == "topic" else 0
    return await page_by_value(context, names, _column(context, sort), query, least=least, descending=descending)


def _column(context: Context, sort: str) -> CountValues:
    """Return the function that computes a column for subscriptions."""
    queue, rates = context.queue, context.rates

    async def rate(names: Sequence[str]) -> dict[str, Value]:
        index = [counter.rate for counter in SAMPLED_OF_SUBSCRIPTIONS].index(_RATES[sort])
        return within(names, {name: rates.of_subscription(name)[index] for name in rates.busy_subscriptions()})

    async def backlog(names: Sequence[str]) -> dict[str, Value]:
        return dict(await queue.backlog_messages(names))

    async def statistic(names: Sequence[str]) -> dict[str, Value]:
        if sort in _OF_BACKLOGS:  # other subscriptions have no such value
            names = list(await queue.backlog_messages(names))
        found = await queue.subscription_statistics(names)
        value = attrgetter(_COLUMNS[sort])
        return {statistics.subscription: value(statistics) for statistics in found}

    if sort in _RATES:
        return rate
    count = backlog if sort == "backlog" else statistic
    return lambda names: count_in_chunks(context.listing, names, count)


B = TypeVar("B", bound=Backlog)


def with_recent(context: Context, records: list[B], seconds: int, name: str = "name") -> list[B]:
    if seconds:
        for record in records:
            record.recent = context.rates.recent_of_subscription(getattr(record, name), seconds)
    return records


async def create_subscription(call: Call[Any, NewSubscription]) -> Subscription:
    body = call.body
    name, topic = check_new_name(call.subscription(body.name), SUBSCRIPTIONS), call.topic(body.topic)
    options = _options(call.project, body.options, SubscriptionOptions())
    await _check_dead_letter_topic(call, options)
    if body.start == "end":
        made = await call.queue.create_subscription(name, topic, options)
    else:
        offset = await _start(call, topic, body.start)
        made = await call.queue.create_subscription_at(name, topic, offset, options)
    return await subscription_record(call.context, made)


async def _start(call: Call[Any, Any], topic: str, start: int | str) -> int:
    if isinstance(start, int):
        if not 0 <= start <= MAX_OFFSET:
            raise InvalidArgumentError("start must not be negative")
        return start
    if start == "beginning":
        return 0
    at = parse_instant(start, "start", call.queue.clock_of(topic).now())
    return await call.queue.first_offset_at(topic, at)


async def show_subscription(call: Call[Project, None]) -> Subscription:
    return await subscription_record(call.context, await subscription_of(call))


async def change_subscription(call: Call[Project, SubscriptionChange]) -> Subscription:
    subscription = await subscription_of(call)
    project = parts_of(subscription.name, SUBSCRIPTIONS)[0] or call.project
    options = _options(project, _with_other_parts(call.body.options, subscription.options), subscription.options)
    if options.dead_letter_topic != subscription.options.dead_letter_topic:
        await _check_dead_letter_topic(call, options)
    return await subscription_record(call.context, await call.queue.change_subscription(subscription.name, options))


async def delete_subscription(call: Call[Project, None]) -> None:
    await call.queue.delete_subscription(call.subscription())


async def _check_dead_letter_topic(call: Call[Any, Any], options: SubscriptionOptions) -> None:
    """Raise NotFoundError if the dead letter topic does not exist. The broker would wait for it to be created."""
    if options.dead_letter_topic and await call.queue.find_topic(options.dead_letter_topic) is None:
        raise NotFoundError(f"Dead letter topic not found: {options.dead_letter_topic}")


def _options(project: str, given: dict[str, Any], start: SubscriptionOptions) -> SubscriptionOptions:
    try:
        options = SUBSCRIPTION.read(with_full_names(project, given), start)
    except NotOfKindError as error:
        raise InvalidArgumentError(error.plain) from None
    if "labels" in given:
        check_labels(options.labels)
    policy = given.get("dead_letter_policy")
    if policy and "dead_letter_topic" not in policy and not options.dead_letter_topic:
        raise InvalidArgumentError("dead_letter_policy needs a dead_letter_topic")
    return options


def _with_other_parts(given: dict[str, Any], now: SubscriptionOptions) -> dict[str, Any]:
    """Return the options with the other parts of each policy that is partly given."""
    shown = SUBSCRIPTION.show(now)
    parted = {name: value for name, value in given.items() if isinstance(value, dict) and name != "labels"}
    policies = {name: value for name, value in shown.items() if isinstance(value, dict)}
    return given | {name: policies.get(name, {}) | value for name, value in parted.items()}


def with_full_names(project: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the full name of the dead letter topic."""
    policy = options.get("dead_letter_policy")
    topic = policy.get("dead_letter_topic") if isinstance(policy, dict) else None
    if not isinstance(policy, dict) or not isinstance(topic, str) or not topic:
        return options
    return {**options, "dead_letter_policy": {**policy, "dead_letter_topic": full_name(project, TOPICS, topic)}}


async def subscription_of(call: Call[Any, Any], name: str | None = None) -> SubscriptionMetadata:
    """Return the subscription in the path, or the named one."""
    full = call.subscription(name)
    subscription = await call.queue.find_subscription(full)
    if subscription is None:
        raise NotFoundError(f"Subscription not found: {full}")
    return subscription


async def subscription_record(context: Context, one: SubscriptionMetadata) -> Subscription:
    for counted in await context.queue.subscription_statistics([one.name]):
        return _record(context, one, counted)
    raise NotFoundError(f"Subscription not found: {one.name}")


def _record(context: Context, one: SubscriptionMetadata, counted: SubscriptionStatistics) -> Subscription:
    project, last = parts_of(one.name, SUBSCRIPTIONS)
    present = [consumer for _, consumer in connected_consumers(context, one)]
    return Subscription(
        name=one.name,
        project=project,
        id=last,
        topic=one.topic,
        created_at=made_at(one.created_at),
        detached=one.detached,
        options=shown_options(one.options),
        kind=_kind(context, one, present),
        consumers=sum(consumer.kind != "cursor" for consumer in present),
        names=Names(**context.condition.names.of_subscription(one.name, one.topic)),
        **counts_of(context, counted),
    )


def shown_options(options: SubscriptionOptions) -> dict[str, Any]:
    return SUBSCRIPTION.show(options) | {name: getattr(options, name) for name in READ_ONLY}


def _kind(
    context: Context, one: SubscriptionMetadata, present: Sequence[Consumer]
) -> Literal["pull", "push", "queue", "cursor"]:
    if context.is_pushed(one):
        return "push"
    if any(consumer.kind == "cursor" for consumer in present):
        return "cursor"
    return "queue" if is_queue(one) else "pull"


def is_queue(one: SubscriptionMetadata) -> bool:
    """Return whether a subscription and its topic form a queue: they have the same name."""
    project, last = parts_of(one.name, SUBSCRIPTIONS)
    return bool(project) and (project, last) == parts_of(one.topic)


def counts_of(context: Context, statistics: SubscriptionStatistics) -> dict[str, Any]:
    """Return the fields of a Backlog but its names."""
    rates = context.rates.of_subscription(statistics.subscription)
    return {
        **counter_values(SUBSCRIPTION_COUNTERS, statistics.counts, rates),
        **{name: getattr(statistics, name) for name in _SIZES},
        "oldest_age_seconds": statistics.oldest_unacked_age_seconds,
        "due_age_seconds": statistics.due_age_seconds,
        "dropped": statistics.counts.dropped,
        "last_used_at": instant(statistics.used_at),
        "now": made_at(context.queue.clock_of(statistics.subscription).now()),
    }


ROUTES = (
    route("GET", "/subscriptions", list_subscriptions, "List subscriptions."),
    route("POST", "/subscriptions", create_subscription, "Create a subscription.", status=201),
    route("GET", "/subscriptions/{subscription}", show_subscription, "Get a subscription."),
    route("PATCH", "/subscriptions/{subscription}", change_subscription, "Change the options of a subscription."),
    route("DELETE", "/subscriptions/{subscription}", delete_subscription, "Delete a subscription."),
)
