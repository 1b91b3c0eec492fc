"""Subscriptions: listed, made, shown, changed, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from penstock.broker.model import SubscriptionOptions
from penstock.broker.names import MAX_OFFSET
from penstock.doors.consumers import Consumer
from penstock.doors.http.admin.calls import Call, Context, Project, Route
from penstock.doors.http.admin.consumers import connected
from penstock.doors.http.admin.moments import moment
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count, Counts, Names, Now, instant, made_at
from penstock.doors.http.admin.topics import Recent, Search, Sort
from penstock.doors.paging import Page
from penstock.doors.resources import SUBSCRIPTIONS, TOPICS, full_name, parts_of
from penstock.engine.options import SUBSCRIPTION, NotOfKindError
from penstock.engine.port import SubscriptionMetadata
from penstock.engine.statistics import SubscriptionStatistics
from penstock.errors import InvalidArgumentError, NotFoundError

READ_ONLY = ("strict_receipts", "ordering_window", "expired_topic")  # the broker has them, programs cannot write them
Options = Annotated[dict[str, Any], msgspec.Meta(description="By the names that the Python API gives them.")]


Order = (
    Literal["name", "-name", "backlog", "-backlog", "in_flight", "-in_flight", "oldest", "-oldest", "due", "-due"]
    | Literal["rate", "-rate", "acks", "-acks", "dead_letters", "-dead_letters"]
)
_SAME = (
    "backlog_messages",
    "backlog_bytes",
    "in_flight_messages",
    "in_flight_bytes",
    "delivered",
    "acked",
    "returned",
    "dead_lettered",
)
_RATES = ("deliver_rate", "ack_rate", "return_rate", "dead_letter_rate")


class Backlog(msgspec.Struct):
    """What a subscription has before it, and what it counted since the start."""

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
        msgspec.Meta(description="For how long one could have been delivered; 0: all are delayed or there is none."),
    ]
    delivered: Count
    acked: Count
    returned: Count
    dead_lettered: Count
    dropped: Counts
    deliver_rate: float
    ack_rate: float
    return_rate: float
    dead_letter_rate: float
    last_used_at: datetime | None
    now: Now
    recent: list[float] | msgspec.UnsetType = msgspec.UNSET


class Subscription(Backlog, kw_only=True):
    id: str
    names: Names
    created_at: datetime
    detached: bool
    options: Options
    kind: Literal["pull", "push", "queue", "cursor"]
    consumers: Annotated[int, msgspec.Meta(ge=0, description="Those who are connected, as far as doors know.")]


class SubscriptionQuery(Paging, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only of this project.")] = ""
    topic: Annotated[str, msgspec.Meta(description="Only of this topic.")] = ""
    search: Search = ""
    sort: Sort[Order | Literal["topic", "-topic"]] = "name"
    recent: Recent = 0


class SubscriptionPage(msgspec.Struct):
    subscriptions: list[Subscription]
    next_page_token: str
    total: int


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """`start`: "end", "beginning", an offset, or an instant; it sees what was published from there on."""

    name: str
    topic: str
    project: str = ""
    options: Options = {}
    start: int | str = "end"


class SubscriptionChange(msgspec.Struct, forbid_unknown_fields=True):
    """Options that are not given stay as they are."""

    options: Options


async def list_subscriptions(call: Call[SubscriptionQuery, None]) -> SubscriptionPage:
    query, context = call.query, call.context
    topic = call.topic(query.topic) if query.topic else None
    found = {each.name: each for each in await call.queue.subscriptions(topic) if _chosen(each, query)}
    page, counted = await sorted_page(context, list(found), query, query.sort)
    records = [_record(context, found[name], counted[name]) for name in page.items if name in counted]
    return SubscriptionPage(with_recent(context, records, query.recent), page.next_page_token, page.total)


async def sorted_page(
    context: Context, names: Sequence[str], query: Paging, order: str
) -> tuple[Page, dict[str, SubscriptionStatistics]]:
    """Names of subscriptions in the order that was asked for, and what is counted of them."""
    sort, descending, rates = order.removeprefix("-"), order.startswith("-"), context.rates
    cheap: dict[str, Callable[[str], Any]] = {
        "name": lambda name: name,
        "rate": lambda name: (rates.of_subscription(name)[0], name),
        "acks": lambda name: (rates.of_subscription(name)[1], name),
    }
    if sort in cheap:
        page = page_of(names, query, cheap[sort], descending=descending)
        return page, await _counted(context, page.items)
    counted = await _counted(context, names)
    keys: dict[str, Callable[[str], Any]] = {
        "backlog": lambda name: (counted[name].backlog_messages, name),
        "in_flight": lambda name: (counted[name].in_flight_messages, name),
        "oldest": lambda name: (counted[name].oldest_unacked_age_seconds, name),
        "due": lambda name: (counted[name].due_age_seconds, name),
        "dead_letters": lambda name: (counted[name].dead_lettered, name),
        "topic": lambda name: (counted[name].topic, name),
    }
    return page_of(counted, query, keys[sort], descending=descending), counted


async def _counted(context: Context, names: Sequence[str]) -> dict[str, SubscriptionStatistics]:
    return {each.subscription: each for each in await context.queue.subscription_statistics(names)}


B = TypeVar("B", bound=Backlog)


def with_recent(context: Context, records: list[B], seconds: int, name: str = "name") -> list[B]:
    if seconds:
        for record in records:
            record.recent = context.rates.recent_of_subscription(getattr(record, name), seconds)
    return records


def _chosen(one: SubscriptionMetadata, query: SubscriptionQuery) -> bool:
    return query.search in one.name and query.project in ("", parts_of(one.name, SUBSCRIPTIONS)[0])


async def create_subscription(call: Call[Any, NewSubscription]) -> Subscription:
    body = call.body
    name, topic = call.subscription(body.name), call.topic(body.topic)
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
            raise InvalidArgumentError("start must be an offset, which is not negative")
        return start
    if start == "beginning":
        return 0
    at = moment(start, "start", call.queue.clock_of(topic).now())
    return await call.queue.first_offset_at(topic, at)


async def show_subscription(call: Call[Project, None]) -> Subscription:
    return await subscription_record(call.context, await subscription_of(call))


async def change_subscription(call: Call[Project, SubscriptionChange]) -> Subscription:
    known = await subscription_of(call)
    project = parts_of(known.name, SUBSCRIPTIONS)[0] or call.project
    options = _options(project, _with_other_parts(call.body.options, known.options), known.options)
    if options.dead_letter_topic != known.options.dead_letter_topic:
        await _check_dead_letter_topic(call, options)
    return await subscription_record(call.context, await call.queue.change_subscription(known.name, options))


async def delete_subscription(call: Call[Project, None]) -> None:
    await call.queue.delete_subscription(call.subscription())


async def _check_dead_letter_topic(call: Call[Any, Any], options: SubscriptionOptions) -> None:
    """The broker would wait for the topic to be made; here a name that is mistyped is more likely."""
    if options.dead_letter_topic and await call.queue.find_topic(options.dead_letter_topic) is None:
        raise NotFoundError(f"Dead letter topic not found: {options.dead_letter_topic}")


def _options(project: str, given: dict[str, Any], start: SubscriptionOptions) -> SubscriptionOptions:
    try:
        options = SUBSCRIPTION.read(with_full_names(project, given), start)
    except NotOfKindError as error:
        raise InvalidArgumentError(error.plain) from None
    policy = given.get("dead_letter_policy")
    if policy and "dead_letter_topic" not in policy and not options.dead_letter_topic:
        raise InvalidArgumentError("dead_letter_policy needs a dead_letter_topic")
    return options


def _with_other_parts(given: dict[str, Any], now: SubscriptionOptions) -> dict[str, Any]:
    """A change of one part of a policy leaves its other parts as they are."""
    shown = SUBSCRIPTION.show(now)
    parted = {name: value for name, value in given.items() if isinstance(value, dict) and name != "labels"}
    return given | {name: (shown.get(name) or {}) | value for name, value in parted.items()}


def with_full_names(project: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options in which the dead letter topic may be named in short."""
    policy = options.get("dead_letter_policy")
    topic = policy.get("dead_letter_topic") if isinstance(policy, dict) else None
    if not isinstance(policy, dict) or not isinstance(topic, str) or not topic:
        return options
    return {**options, "dead_letter_policy": {**policy, "dead_letter_topic": full_name(project, TOPICS, topic)}}


async def subscription_of(call: Call[Any, Any], name: str | None = None) -> SubscriptionMetadata:
    """The subscription in the path, or another one that the caller named."""
    full = call.subscription(name)
    found = await call.queue.find_subscription(full)
    if found is None:
        raise NotFoundError(f"Subscription not found: {full}")
    return found


async def subscription_record(context: Context, one: SubscriptionMetadata) -> Subscription:
    for counted in await context.queue.subscription_statistics([one.name]):
        return _record(context, one, counted)
    raise NotFoundError(f"Subscription not found: {one.name}")


def _record(context: Context, one: SubscriptionMetadata, counted: SubscriptionStatistics) -> Subscription:
    project, last = parts_of(one.name, SUBSCRIPTIONS)
    present = [each for _, each in connected(context, one)]
    return Subscription(
        name=one.name,
        project=project,
        id=last,
        topic=one.topic,
        created_at=made_at(one.created_at),
        detached=one.detached,
        options=SUBSCRIPTION.show(one.options) | {name: getattr(one.options, name) for name in READ_ONLY},
        kind=_kind(context, one, present),
        consumers=sum(each.kind != "cursor" for each in present),
        names=Names(**context.condition.names.of_subscription(one.name, one.topic)),
        **counts_of(context, counted),
    )


def _kind(
    context: Context, one: SubscriptionMetadata, present: Sequence[Consumer]
) -> Literal["pull", "push", "queue", "cursor"]:
    if context.is_pushed(one):
        return "push"
    if any(each.kind == "cursor" for each in present):
        return "cursor"
    return "queue" if is_queue(one) else "pull"


def is_queue(one: SubscriptionMetadata) -> bool:
    """Whether it and its topic are what other doors call a queue."""
    project, last = parts_of(one.name, SUBSCRIPTIONS)
    return bool(project) and (project, last) == parts_of(one.topic)


def counts_of(context: Context, counted: SubscriptionStatistics) -> dict[str, Any]:
    """The fields of a Backlog."""
    rates = zip(_RATES, context.rates.of_subscription(counted.subscription), strict=True)
    return {name: getattr(counted, name) for name in _SAME} | {
        **dict(rates),
        "oldest_age_seconds": counted.oldest_unacked_age_seconds,
        "due_age_seconds": counted.due_age_seconds,
        "dropped": dict(counted.dropped),
        "last_used_at": instant(counted.used_at),
        "now": made_at(context.queue.clock_of(counted.subscription).now()),
    }


ROUTES = (
    Route(
        "GET",
        "/subscriptions",
        list_subscriptions,
        "Subscriptions, in pages.",
        SubscriptionPage,
        SubscriptionQuery,
    ),
    Route(
        "POST",
        "/subscriptions",
        create_subscription,
        "Make a subscription.",
        Subscription,
        body=NewSubscription,
        status=201,
    ),
    Route("GET", "/subscriptions/{subscription}", show_subscription, "A subscription.", Subscription, Project),
    Route(
        "PATCH",
        "/subscriptions/{subscription}",
        change_subscription,
        "Change the options of a subscription.",
        Subscription,
        Project,
        SubscriptionChange,
    ),
    Route("DELETE", "/subscriptions/{subscription}", delete_subscription, "Delete a subscription.", query=Project),
)
