"""The broker as the reader process sees it: questions over the link, and the log itself.

The rule kept here: calls block the thread that makes them and no other. Messages come from the store on disk where
there is one, read by this process alone; the server is not asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from penstock.broker.model import Message
from penstock.doors.flight.errors import OutOfRangeError
from penstock.doors.flight.letters import (
    BoundsAsked,
    CursorAt,
    CursorSeen,
    Decided,
    Decision,
    FindAsked,
    Publish,
    Published,
    ReadAsked,
    Rows,
    Slice,
    TopicBounds,
    pack,
    unpack,
)
from penstock.doors.flight.link import ReaderEnd
from penstock.doors.flight.room import Room
from penstock.errors import DamagedStoreError
from penstock.journal.codec import decode_messages
from penstock.journal.port import LogReader, StoredBatch

T = TypeVar("T")


class Broker:
    def __init__(self, link: ReaderEnd, log: LogReader | None) -> None:
        self._link = link
        self._room = Room()
        self.log: LogReader = log or LinkLog(link)

    def _ask(self, verb: str, body: bytes, kind: Any) -> Any:
        return unpack(self._link.ask(verb, body).result(), kind)

    # ------------------------------------------------------------------ topics

    def bounds(
        self,
        names: Sequence[str] | None,
        after: dict[str, int] | None = None,
        wait_seconds: float = 0,
        *,
        missing_ok: bool = False,
    ) -> list[TopicBounds]:
        asked = BoundsAsked(None if names is None else list(names), after or {}, wait_seconds, missing_ok)
        found: list[TopicBounds] = self._ask("bounds", asked.packed(), list[TopicBounds])
        return found

    def topic(self, name: str) -> TopicBounds:
        return self.bounds([name])[0]

    def find(self, topic: str, at: int) -> int:
        return int(self._ask("find", FindAsked(topic, at).packed(), int))

    def ensure_topic(self, name: str, retention_seconds: float = 0) -> bool:
        return bool(self._ask("topic.ensure", pack((name, retention_seconds)), bool))

    # ------------------------------------------------------------------ the log

    def stored(self, topic: TopicBounds, first: int, until: int) -> Iterator[StoredBatch]:
        """The stored batches of a range, without a gap. OutOfRangeError: retention was faster."""
        wanted = first
        try:
            for batch in self.log.batches(topic.number, first, until):
                if batch.first > wanted:
                    break
                yield batch
                wanted = batch.until
        except DamagedStoreError:
            self._check_kept(topic, wanted)
            raise
        if wanted < until:
            self._check_kept(topic, wanted)
            raise DamagedStoreError(f"The store lacks messages of topic {topic.name} from offset {wanted} on")

    def _check_kept(self, topic: TopicBounds, wanted: int) -> None:
        """Messages are missing: that is right if they are no longer kept."""
        now = self.topic(topic.name)
        if now.identity != topic.identity:
            raise OutOfRangeError.replaced(topic.name, wanted)
        if now.head > wanted:
            raise OutOfRangeError.of(topic.name, wanted, now.head)

    def position(self, topic: TopicBounds, offset: int) -> int:
        """Bytes of the topic before an offset."""
        if offset >= topic.tail:
            return topic.position
        if offset <= topic.head:
            return topic.head_position
        try:
            return self.log.position_of(topic.number, offset)
        except DamagedStoreError:
            self._check_kept(topic, offset)
            raise

    def offset(self, topic: TopicBounds, position: int, low: int, high: int) -> int:
        """The first offset from `low` to `high` with at least so many bytes before it."""
        if low >= high or position <= self.position(topic, low):
            return low
        if position >= self.position(topic, high):
            return high
        try:
            return self.log.offset_of(topic.number, position, low, high)
        except DamagedStoreError:
            self._check_kept(topic, low)
            raise

    # ------------------------------------------------------------------ publishing

    def publish(
        self, topic: str, pieces: Sequence[Rows], producer: str = "", epoch: int = 0, sequence: int = 0
    ) -> Future[bytes]:
        """One publish, sent in pieces; the answer to come is a Published. Waits while too much is on its way."""
        taken = self._room.take(sum(sum(piece.sizes) for piece in pieces))
        number = self._link.number()
        for piece in pieces[:-1]:
            self._link.send("rows", piece.packed(), number)
        answer = self._link.ask("publish", Publish(topic, producer, epoch, sequence, pieces[-1]).packed(), number)
        answer.add_done_callback(lambda _: self._room.give_back(taken))
        return answer

    @staticmethod
    def published(answer: Future[bytes]) -> Published:
        return unpack(answer.result(), Published)

    # ------------------------------------------------------------------ cursors and decisions

    def open_cursors(self, wanted: list[CursorAt]) -> list[CursorSeen]:
        seen: list[CursorSeen] = self._ask("cursor.open", pack(wanted), list[CursorSeen])
        return seen

    def advance_cursors(self, wanted: list[CursorAt]) -> list[CursorSeen]:
        seen: list[CursorSeen] = self._ask("cursor.advance", pack(wanted), list[CursorSeen])
        return seen

    def cursors(self, consumer: str) -> list[CursorSeen]:
        seen: list[CursorSeen] = self._ask("cursor.list", pack(consumer), list[CursorSeen])
        return seen

    def delete_cursors(self, consumer: str) -> int:
        return int(self._ask("cursor.delete", pack(consumer), int))

    def decide(self, decision: Decision) -> Decided:
        decided: Decided = self._ask("decision.put", decision.packed(), Decided)
        return decided

    def decision(self, query: str) -> Decision | None:
        known: Decision | None = self._ask("decision.get", pack(query), Decision | None)
        return known

    def finish(self, query: str, epoch: int) -> None:
        self._link.ask("decision.finish", pack((query, epoch))).result()


class LinkLog:
    """The log of a server that keeps its messages in memory: the server is asked for them, slice by slice."""

    def __init__(self, link: ReaderEnd) -> None:
        self._link = link

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        while first < until:
            found = self._slice(topic, first, until)
            if found is None:
                return
            yield StoredBatch(found.first, found.until, found.body)
            first = found.until

    def position_of(self, topic: int, offset: int) -> int:
        return self._message(topic, offset).position

    def offset_of(self, topic: int, position: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if self._message(topic, middle).position >= position:
                high = middle
            else:
                low = middle + 1
        return low

    def close(self) -> None:
        """Nothing is held."""

    def _slice(self, topic: int, first: int, until: int) -> Slice | None:
        found: Slice | None = unpack(
            self._link.ask("read", ReadAsked(topic, first, until).packed()).result(),
            Slice | None,  # type: ignore[arg-type]
        )
        return found

    def _message(self, topic: int, offset: int) -> Message:
        found = self._slice(topic, offset, offset + 1)
        if found is None:
            raise OutOfRangeError.of(str(topic), offset, offset + 1)
        return decode_messages(found.body)[0]
