"""Moves: dead letters go back, or messages to another topic; started, watched and stopped.

They are in memory: after a restart the same request goes on where the last one was.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.broker.model import SubscriptionOptions
from penstock.doors.http.admin.calls import Call, NoQuery, Route
from penstock.doors.http.admin.matching import Wanted, predicate_of
from penstock.doors.http.admin.moving import DONE, RUNNING, Choice, Move, Preview, Sources, preview
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count, Counts, instant, made_at
from penstock.doors.resources import parts_of, subscription_name
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)

RUNNING_MAX = 10
KEPT = 100  # moves that are over
IDS_MAX = 1000
RATE_MIN = 0.01  # messages a second; a move that is slower holds its subscription for ever
DOCUMENTS = "moves"  # how far topics without a subscription were moved


class Mark(msgspec.Struct):
    """How far a topic that has no subscription was moved."""

    identity: str
    offset: int


class Moves:
    def __init__(self, queue: Queue, sources: Sources) -> None:
        self.queue = queue
        self.sources = sources
        self._moves: dict[str, Move] = {}
        self._number = 0
        self._stopping = False

    def all(self) -> list[Move]:
        return list(self._moves.values())

    def find(self, move: str) -> Move:
        if move not in self._moves:
            raise NotFoundError(f"Move not found: {move}")
        return self._moves[move]

    def check_room(self, subscription: str) -> None:
        if self._stopping:
            raise UnavailableError("The server is stopping")
        running = [each for each in self._moves.values() if each.state == RUNNING]
        for each in running:
            if each.subscription == subscription:  # two would share their publish-once keys
                raise FailedPreconditionError(f"Move {each.id} from this subscription is running")
        if len(running) >= RUNNING_MAX:
            raise ResourceExhaustedError(f"At most {RUNNING_MAX} moves run at a time")

    async def start(self, subscription: str, choice: Choice, own: TopicMetadata | None) -> Move:
        """`own`: the topic of a subscription that was made for the move."""
        self.check_room(subscription)
        move = Move(self._number + 1, self.queue, subscription, choice, self.sources)
        if own is not None:
            move.topic = own.name
            move.on_end = lambda: self._end_own(move, own)
        await move.begin()
        self._number += 1
        self._moves[move.id] = move
        over = [each.id for each in self._moves.values() if each.state != RUNNING]
        for old in over[: max(0, len(over) - KEPT)]:
            del self._moves[old]
        return move

    async def stop(self) -> None:
        self._stopping = True
        for move in self.all():
            await move.cancel()

    # ------------------------------------------------------------------ topics without a subscription

    async def provide(self, topic: TopicMetadata) -> tuple[str, bool]:
        """A subscription of our own, at the beginning of a topic that has none, or where the last move ended.

        And whether it was made just now.
        """
        project, last = parts_of(topic.name)
        name = subscription_name(project, f"{last}-move")
        readers = [each.name for each in await self.queue.subscriptions(topic.name)]
        if name in readers:  # left behind by a move that did not come to its end
            return name, False
        if readers:
            raise FailedPreconditionError(f"Name a subscription of {topic.name} to move from: {', '.join(readers[:5])}")
        document = await self.queue.document(DOCUMENTS, topic.name)
        mark = msgspec.json.decode(document, type=Mark) if document else Mark("", 0)
        first = mark.offset if mark.identity == topic.identity else 0
        await self.queue.create_subscription_at(name, topic.name, first, SubscriptionOptions(retention_seconds=0))
        return name, True

    async def _end_own(self, move: Move, topic: TopicMetadata) -> None:
        if move.state == DONE and not (await self.queue.backlog(move.subscription)).messages:
            await self.queue.put_document(DOCUMENTS, topic.name, msgspec.json.encode(Mark(topic.identity, topic.tail)))
            await self.queue.delete_subscription(move.subscription)
        else:
            move.reason = move.reason or f"{move.subscription} was made for this and stays: messages are left in it"


# ---------------------------------------------------------------------- over the wire


class NewMove(Wanted, forbid_unknown_fields=True, kw_only=True, rename={"source": "from", "most": "max"}):
    source: Annotated[
        str, msgspec.Meta(description="A subscription, or a topic that has none: one is made for the time of the move.")
    ]
    to: Annotated[
        str | None, msgspec.Meta(description="A topic; null: each dead letter to the topic it came from.")
    ] = None
    ids: Annotated[list[str], msgspec.Meta(max_length=IDS_MAX, description="Only these messages.")] = []
    most: Annotated[int, msgspec.Meta(ge=0, description="At most so many; 0: all.")] = 0
    rate: Annotated[
        float,
        msgspec.Meta(ge=0, le=1e6, description="Most messages a second, at least 0.01. 0 means no limit."),
    ] = 0
    dry_run: bool = False
    project: str = ""


class MoveRecord(msgspec.Struct, rename={"source": "from", "most": "max"}):
    """`moved`: published and acked. `left`: what stays, by reason. `unknown`: published, or perhaps not."""

    id: str
    state: str
    source: str
    topic: Annotated[str | None, msgspec.Meta(description="Where `from` was made for the move, as nobody read it.")]
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
    moves, body = call.live.moves, call.body
    if 0 < body.rate < RATE_MIN:
        raise InvalidArgumentError(f"rate must be 0, which means no limit, or at least {RATE_MIN} messages a second")
    name, own, made = await _source(call)
    try:
        choice = await _choice(call, name)
        if not body.dry_run:
            started = await moves.start(name, choice, own)
            made = False  # it is removed at the end of the move
            return _record(started)
        return _shown(await preview(call.queue, name, choice, moves.sources))
    finally:
        if made:
            await call.queue.delete_subscription(name)


async def _source(call: Call[NoQuery, NewMove]) -> tuple[str, TopicMetadata | None, bool]:
    """The subscription to move from; its topic where it is one of our own, and whether it was made just now."""
    given = call.body.source
    if not given:
        raise InvalidArgumentError("from must be the name of a subscription, or of a topic without any")
    if "/topics/" not in given:
        subscription = call.subscription(given)
        if await call.queue.find_subscription(subscription) is not None:
            return subscription, None, False
    topic = await call.queue.find_topic(call.topic(given)) if "/subscriptions/" not in given else None
    if topic is None:
        raise NotFoundError(f"There is neither a subscription nor a topic {given}")
    call.live.moves.check_room("")
    name, made = await call.live.moves.provide(topic)
    return name, topic, made


async def _choice(call: Call[NoQuery, NewMove], name: str) -> Choice:
    body = call.body
    to = call.topic(body.to) if body.to is not None else None
    if to is not None and await call.queue.find_topic(to) is None:
        raise NotFoundError(f"Topic not found: {to}")
    predicate_of(body)  # a filter that is wrong is refused here
    return Choice(to, body, await _offsets(call, name), body.most, body.rate)


async def _offsets(call: Call[NoQuery, NewMove], name: str) -> list[int]:
    ids = call.body.ids
    known = await call.queue.find_subscription(name) if ids else None
    topic = await call.queue.find_topic(known.topic) if known is not None else None
    for each in ids:
        if not (each.isascii() and each.isdigit() and len(each) < 20):
            raise InvalidArgumentError("ids are message ids: decimal numbers, as text")
    return [int(each) - topic.first_id for each in ids] if topic is not None else []


async def list_moves(call: Call[Paging, None]) -> MovePage:
    page = page_of(call.live.moves.all(), call.query, lambda each: int(each.id))
    return MovePage([_record(each) for each in page.items], page.next_page_token, page.total)


async def show_move(call: Call[NoQuery, None]) -> MoveRecord:
    return _record(call.live.moves.find(call.path["id"]))


async def stop_move(call: Call[NoQuery, None]) -> MoveRecord:
    move = call.live.moves.find(call.path["id"])
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


def _shown(seen: Preview) -> PreviewRecord:
    moved, left = sum(seen.by_topic.values()), sum(seen.left.values())
    return PreviewRecord(moved, left, dict(seen.by_topic), dict(seen.left), seen.complete)


ROUTES = (
    Route(
        "POST",
        "/moves",
        start_move,
        "Move messages, or say which.",
        MoveRecord,
        body=NewMove,
        status=202,
        dry_answer=PreviewRecord,
    ),
    Route("GET", "/moves", list_moves, "Moves since the start of the server.", MovePage, Paging),
    Route("GET", "/moves/{id}", show_move, "A move.", MoveRecord),
    Route("DELETE", "/moves/{id}", stop_move, "Stop a move after the step it is in.", MoveRecord),
)
