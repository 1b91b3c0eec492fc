"""The moves of a server: started, listed and stopped, and the subscriptions that are created for moves.

Moves are kept in memory. After a restart, a repeated request continues where the interrupted move stopped.
"""

from __future__ import annotations

import msgspec

from penstock.broker.model import SubscriptionOptions
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import FailedPreconditionError, NotFoundError, ResourceExhaustedError, UnavailableError
from penstock.names import SUBSCRIPTIONS, parts_of, prefix
from penstock.services.moves.move import DONE, RUNNING, Move
from penstock.services.moves.scan import Choice, Sources

RUNNING_MAX = 10
KEPT = 100  # finished moves that are still listed
DOCUMENTS = "moves"  # kind of the documents with the marks of topics


class Mark(msgspec.Struct):
    """How far a topic without subscriptions has been moved."""

    identity: str
    offset: int


class Moves:
    """The moves of a server, started by any door. At most one move runs from a subscription."""

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

    def running_from(self, subscription: str) -> Move | None:
        """Return the running move from a subscription. Two at a time would share their publish-once keys."""
        return next((move for move in self._running() if move.subscription == subscription), None)

    def _running(self) -> list[Move]:
        return [move for move in self._moves.values() if move.state == RUNNING]

    def check_room(self, subscription: str) -> None:
        if self._stopping:
            raise UnavailableError("The server is stopping")
        if (running := self.running_from(subscription)) is not None:
            raise FailedPreconditionError(f"Move {running.id} from this subscription is running")
        if len(self._running()) >= RUNNING_MAX:
            raise ResourceExhaustedError(f"At most {RUNNING_MAX} moves run at a time")

    async def start(self, subscription: str, choice: Choice, own: TopicMetadata | None) -> Move:
        """Start a move. `own`: the topic, if the subscription was created for the move."""
        self.check_room(subscription)
        move = Move(self._number + 1, self.queue, subscription, choice, self.sources)
        if own is not None:
            move.topic = own.name
            move.on_end = lambda: self._end_own(move, own)
        self._number += 1
        self._moves[move.id] = move
        try:
            await move.begin()
        except BaseException:
            del self._moves[move.id]
            raise
        finished = [known.id for known in self._moves.values() if known.state != RUNNING]
        for old in finished[: max(0, len(finished) - KEPT)]:
            del self._moves[old]
        return move

    async def stop(self) -> None:
        self._stopping = True
        for move in self.all():
            await move.cancel()

    # ------------------------------------------------------------------ topics without a subscription

    async def provide(self, topic: TopicMetadata) -> tuple[str, bool]:
        """Return a subscription to move from a topic without subscriptions, and whether it is new.

        It begins at the first message of the topic, or where the last move ended.
        """
        project, last = parts_of(topic.name)
        name = f"{prefix(project, SUBSCRIPTIONS)}{last}-move"
        readers = [reader.name for reader in await self.queue.subscriptions(topic.name)]
        if name in readers:  # left over from an interrupted move
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
            move.reason = (
                move.reason or f"{move.subscription} was created for this move and stays, because it still has messages"
            )
