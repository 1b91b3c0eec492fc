"""Statistics, samples and the live stream of events over the admin API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from penstock.broker.counts import SAMPLED
from penstock.broker.model import SECOND
from penstock.doors.http.admin.calls import Call, NoQuery, route
from penstock.doors.http.admin.events import EVENTS, NAMED_MAX, Client
from penstock.doors.http.admin.instants import made_at
from penstock.doors.http.admin.records import Count, Counts
from penstock.engine.statistics import DOOR_COUNTS
from penstock.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from penstock.services.samples import (
    DOOR_FIELDS,
    SERVER_FIELDS,
    SUBSCRIPTION_FIELDS,
    TOPIC_FIELDS,
    quantile,
)
from penstock.services.series import MINUTE, MINUTES_KEPT, SECONDS_KEPT, Field
from penstock.wire.http1 import Response

EVENT_STREAM = "text/event-stream"
FLOWS_SHOWN = 100


class Rate(msgspec.Struct):
    per_second: float  # the mean of the last 10 seconds
    total: Count  # since the start


class Commits(msgspec.Struct):
    per_second: float
    total: Count
    p50_seconds: float
    p99_seconds: float


class DoorCounts(msgspec.Struct):
    counts: Counts


_TRAFFIC = [(name, Count, 0) for name in DOOR_COUNTS]


class DoorStatistics(msgspec.defstruct("DoorTraffic", _TRAFFIC, bases=(DoorCounts,))):  # type: ignore[misc]
    """`counts`: refused requests and connections since the start, by kind. `per_second`: the mean of the other counters
    over the last 10 seconds."""

    per_second: dict[str, float] = {}


class FlowIn(msgspec.Struct):
    door: str
    topic: str
    per_second: float


class FlowOut(msgspec.Struct):
    subscription: str
    door: str
    per_second: float


class Flows(msgspec.Struct):
    """The largest flows of messages from protocols to topics and from subscriptions to protocols.

    Rates are means of the last 10 seconds.
    """

    entered: list[FlowIn]
    left: list[FlowOut]


class Moment(msgspec.Struct):
    at: datetime


_RATES = [(counter.name, Annotated[Rate, msgspec.Meta(description=counter.help)]) for counter in SAMPLED]


class StatisticsRecord(msgspec.defstruct("Rates", _RATES, bases=(Moment,))):  # type: ignore[misc]
    backlog_messages: Count
    in_flight_messages: Count
    oldest_age_seconds: float
    commits: Commits
    cpu: float
    memory_bytes: Count
    doors: dict[str, DoorStatistics]
    flows: Flows


class SamplesQuery(msgspec.Struct, forbid_unknown_fields=True):
    what: Literal["server", "door", "topic", "subscription"] = "server"
    name: Annotated[str, msgspec.Meta(description="Name of the protocol, topic or subscription.")] = ""
    seconds: Annotated[int, msgspec.Meta(ge=1, le=86400, description="Length of the range, up to now.")] = SECONDS_KEPT
    step: Annotated[
        int, msgspec.Meta(description="1: one row per second, 15 minutes. 60: one per minute, 24 hours.")
    ] = 1
    project: str = ""


class SamplesRecord(msgspec.Struct):
    """Rows of samples. The first row is the step that ended at `start`; each next row is one `step` later."""

    step: int
    start: datetime
    fields: list[str]
    rows: list[list[float]]


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True):
    topics: Annotated[str, msgspec.Meta(description="Names, separated by commas. Default: the busiest.")] = ""
    subscriptions: Annotated[str, msgspec.Meta(description="Names, separated by commas. Default: the busiest.")] = ""
    project: str = ""


async def show_statistics(call: Call[NoQuery, None]) -> StatisticsRecord:
    samples = call.services.samples
    rates, totals, first, last = samples.rates(), samples.totals, samples.recent[0], samples.recent[-1]
    seconds = max((last.at - first.at) / SECOND, 1.0)
    counted = call.context.condition.counts.items()
    per_second = samples.of_doors()
    doors = {
        name: DoorStatistics(
            dict(counts),
            **dict(zip(DOOR_COUNTS, last.doors.get(name, ()), strict=False)),
            per_second=per_second.get(name, {}),
        )
        for name, counts in counted
    }
    entered, left = samples.flows(FLOWS_SHOWN)
    return StatisticsRecord(
        at=made_at(last.at),
        **{name: Rate(rates[name], total) for name, total in totals.items()},
        backlog_messages=last.backlog_messages,
        in_flight_messages=last.in_flight_messages,
        oldest_age_seconds=last.oldest_age_seconds,
        commits=Commits(
            round((last.commit.commits - first.commit.commits) / seconds, 3),
            last.commit.commits,
            quantile(first.commit, last.commit, 0.5),
            quantile(first.commit, last.commit, 0.99),
        ),
        cpu=round(samples.cpu, 4),
        memory_bytes=samples.process.memory_bytes,
        doors=doors,
        flows=Flows([FlowIn(*flow) for flow in entered], [FlowOut(*flow) for flow in left]),
    )


async def show_samples(call: Call[SamplesQuery, None]) -> SamplesRecord:
    query, samples = call.query, call.services.samples
    if query.step not in (1, MINUTE):
        raise InvalidArgumentError(f"step must be 1 or {MINUTE}")
    if query.what != "server" and not query.name:
        raise InvalidArgumentError(f"name must say which {query.what}")
    fields: Sequence[Field]
    count = min(-(-query.seconds // query.step), SECONDS_KEPT if query.step == 1 else MINUTES_KEPT)
    if query.what == "server":
        fields, rows = SERVER_FIELDS, samples.server.rows(query.step, count)
    elif query.what == "door":
        fields, rows = DOOR_FIELDS, samples.door(query.name, query.step, count)
    elif query.what == "topic":
        topic = call.topic(query.name)
        if await call.queue.find_topic(topic) is None:
            raise NotFoundError(f"Topic not found: {topic}")
        fields, rows = TOPIC_FIELDS, samples.topic(topic, query.step, count)
    else:
        name = call.subscription(query.name)
        if await call.queue.find_subscription(name) is None:
            raise NotFoundError(f"Subscription not found: {name}")
        fields, rows = SUBSCRIPTION_FIELDS, samples.subscription(name, query.step, count)
    return SamplesRecord(query.step, made_at(rows.start * SECOND), [field.name for field in fields], rows.rows)


async def stream_events(call: Call[EventsQuery, None]) -> Response:
    events = call.context.events
    assert events is not None, "made with the services"
    topics = [call.topic(name) for name in _names(call.query.topics)]
    subscriptions = [call.subscription(name) for name in _names(call.query.subscriptions)]
    client = Client(topics, subscriptions, notices=call.may_change)
    if events.is_full:
        raise ResourceExhaustedError("Too many clients listen to events")
    headers = (("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store"))
    return Response(200, headers, parts=events.listen(client))


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if len(names) > NAMED_MAX:
        raise InvalidArgumentError(f"At most {NAMED_MAX} topics and subscriptions can be named")
    return names


ROUTES = (
    route("GET", "/statistics", show_statistics, "Get totals and rates of the whole server."),
    route("GET", "/samples", show_samples, "Get samples of the last 15 minutes or 24 hours."),
    route(
        "GET",
        "/events",
        stream_events,
        "Stream samples, changes of resources and warnings as server-sent events.",
        answer=EVENTS,
        media=EVENT_STREAM,
    ),
)
