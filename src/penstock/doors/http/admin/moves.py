"""Moves over the admin API: dead letters return to their topics, or messages go to another topic."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.doors.http.admin.calls import Call, NoQuery, route
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.matching import Wanted, predicate_of
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count, Counts
from penstock.engine.port import TopicMetadata
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.services.moves.move import Move
from penstock.services.moves.scan import Choice, Preview, preview

IDS_MAX = 1000
RATE_MIN = 0.01  # messages a second; a move that is slower holds its subscription for ever


class NewMove(Wanted, forbid_unknown_fields=True, kw_only=True, rename={"source": "from", "most": "max"}):
    source: Annotated[
        str, msgspec.Meta(description="A subscription, or a topic without subscriptions: one is created for the move.")
    ]
    to: Annotated[
        str | None, msgspec.Meta(description="A topic. null: each dead letter returns to its original topic.")
    ] = None
    ids: Annotated[list[str], msgspec.Meta(max_length=IDS_MAX, description="Only these messages.")] = []
    most: Annotated[int, msgspec.Meta(ge=0, description="Maximum number of messages. 0 means all.")] = 0
    rate: Annotated[
        float,
        msgspec.Meta(ge=0, le=1e6, description="Maximum messages per second, at least 0.01. 0 means no limit."),
    ] = 0
    dry_run: bool = False
    project: str = ""


class MoveRecord(msgspec.Struct, rename={"source": "from", "most": "max"}):
    """A move with its progress. `moved`: published and acked. `left`: not moved, with `reasons`. `unknown`: sent to the
    topic, but it is not known whether they were published and acked."""

    id: str
    state: str
    source: str
    topic: Annotated[str | None, msgspec.Meta(description="Set if `from` was created for the move.")]
    to: str | None
    moved: Count
    left: Count
    reasons: Counts
    unknown: Count
    total: Count
    most: Count
    rate: float
    started_at: datetime
    ended_at: datetime | None
    reason: str


class MovePage(msgspec.Struct):
    moves: list[MoveRecord]
    next_page_token: str
    total: int


class PreviewRecord(msgspec.Struct):
    would_move: Count
    would_leave: Count
    by_topic: Counts
    reasons: Counts
    complete: bool


async def start_move(call: Call[NoQuery, NewMove]) -> MoveRecord | PreviewRecord:
    moves, body = call.services.moves, call.body
    if 0 < body.rate < RATE_MIN:
        raise InvalidArgumentError(f"rate must be 0, which means no limit, or at least {RATE_MIN} messages a second")
    name, own, made = await _source(call)
    try:
        choice = await _choice(call, name)
        if not body.dry_run:
            started = await moves.start(name, choice, own)
            made = False  # the move deletes it when it ends
            return _record(started)
        return _preview_record(await preview(call.queue, name, choice, moves.sources))
    finally:
        if made:
            await call.queue.delete_subscription(name)


async def _source(call: Call[NoQuery, NewMove]) -> tuple[str, TopicMetadata | None, bool]:
    """Return the subscription to move from, its topic if it was created for moves, and whether it is new."""
    given = call.body.source
    if not given:
        raise InvalidArgumentError("from must name a subscription, or a topic without subscriptions")
    if "/topics/" not in given:
        subscription = call.subscription(given)
        if await call.queue.find_subscription(subscription) is not None:
            return subscription, None, False
    topic = await call.queue.find_topic(call.topic(given)) if "/subscriptions/" not in given else None
    if topic is None:
        raise NotFoundError(f"There is neither a subscription nor a topic {given}")
    call.services.moves.check_room("")
    name, made = await call.services.moves.provide(topic)
    return name, topic, made


async def _choice(call: Call[NoQuery, NewMove], name: str) -> Choice:
    body = call.body
    to = call.topic(body.to) if body.to is not None else None
    if to is not None and await call.queue.find_topic(to) is None:
        raise NotFoundError(f"Topic not found: {to}")
    return Choice(to, predicate_of(body), await _offsets(call, name), body.most, body.rate)


async def _offsets(call: Call[NoQuery, NewMove], name: str) -> list[int]:
    ids = call.body.ids
    subscription = await call.queue.find_subscription(name) if ids else None
    topic = await call.queue.find_topic(subscription.topic) if subscription is not None else None
    for message_id in ids:
        if not (message_id.isascii() and message_id.isdigit() and len(message_id) < 20):
            raise InvalidArgumentError("ids are message ids: decimal numbers, as text")
    return [int(message_id) - topic.first_id for message_id in ids] if topic is not None else []


async def list_moves(call: Call[Paging, None]) -> MovePage:
    page = page_of(call.services.moves.all(), call.query, lambda move: int(move.id))
    return MovePage([_record(move) for move in page.items], page.next_page_token, page.total)


async def show_move(call: Call[NoQuery, None]) -> MoveRecord:
    return _record(call.services.moves.find(call.path["id"]))


async def stop_move(call: Call[NoQuery, None]) -> MoveRecord:
    move = call.services.moves.find(call.path["id"])
    await move.stop()
    return _record(move)


def _record(move: Move) -> MoveRecord:
    return MoveRecord(
        id=move.id,
        state=move.state,
        source=move.subscription,
        topic=move.topic,
        to=move.choice.to,
        moved=move.moved,
        left=sum(move.left.values()),
        reasons=dict(move.left),
        unknown=move.unknown,
        total=move.total,
        most=move.choice.most,
        rate=move.choice.rate,
        started_at=made_at(move.started_at),
        ended_at=instant(move.ended_at),
        reason=move.reason,
    )


def _preview_record(seen: Preview) -> PreviewRecord:
    moved, left = sum(seen.by_topic.values()), sum(seen.left.values())
    return PreviewRecord(moved, left, dict(seen.by_topic), dict(seen.left), seen.complete)


ROUTES = (
    route(
        "POST",
        "/moves",
        start_move,
        "Start a move, or preview it with dry_run.",
        answer=MoveRecord,
        status=202,
        dry_answer=PreviewRecord,
    ),
    route("GET", "/moves", list_moves, "List the moves since the start of the server."),
    route("GET", "/moves/{id}", show_move, "Get a move."),
    route("DELETE", "/moves/{id}", stop_move, "Stop a move after its current step."),
)
