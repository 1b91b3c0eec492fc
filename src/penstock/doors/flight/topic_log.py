"""The logs of topics in the reader process: their bounds, from the server, and their messages, from the store.

Messages are read from the store by this process alone; only a server without a store is asked for them. Calls block
the thread that makes them and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.broker.model import Message
from penstock.doors.flight.errors import OutOfRangeError
from penstock.doors.flight.ipc import TopicBounds, pack, unpack
from penstock.doors.flight.link import ReaderEnd
from penstock.errors import DamagedStoreError
from penstock.journal.codec import decode_messages
from penstock.journal.port import LogReader, StoredBatch


class TopicLog:
    def __init__(self, link: ReaderEnd, reader: LogReader | None) -> None:
        self._link = link
        self._reader: LogReader = reader or LinkReader(link)

    def bounds(self, names: Sequence[str] | None, *, missing_ok: bool = False) -> list[TopicBounds]:
        """Of these topics, or of all; with `missing_ok` those that do not exist are left out."""
        found: list[TopicBounds] = unpack(self._link.call("topics", pack((names, missing_ok))), list[TopicBounds])
        return found

    def topic(self, name: str) -> TopicBounds:
        return self.bounds([name])[0]

    def stored(self, topic: TopicBounds, first: int, until: int) -> Iterator[StoredBatch]:
        """The stored batches of a range, without a gap. OutOfRangeError: retention was faster."""
        wanted = first
        try:
            for batch in self._reader.batches(topic.number, first, until):
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
            raise OutOfRangeError(topic.name, wanted)
        if now.head > wanted:
            raise OutOfRangeError(topic.name, wanted, now.head)

    def position(self, topic: TopicBounds, offset: int) -> int:
        """Bytes of the topic before an offset."""
        if offset >= topic.tail:
            return topic.position
        if offset <= topic.head:
            return topic.head_position
        try:
            return self._reader.position_of(topic.number, offset)
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
            return self._reader.offset_of(topic.number, position, low, high)
        except DamagedStoreError:
            self._check_kept(topic, low)
            raise


class LinkReader:
    """The log of a server that keeps its messages in memory: read over the link, slice by slice."""

    def __init__(self, link: ReaderEnd) -> None:
        self._link = link

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        while first < until and (found := self._slice(topic, first, until)) is not None:
            yield found
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

    def _slice(self, topic: int, first: int, until: int) -> StoredBatch | None:
        found: Any = unpack(self._link.call("read", pack((topic, first, until))), StoredBatch | None)
        return found  # type: ignore[no-any-return]

    def _message(self, topic: int, offset: int) -> Message:
        found = self._slice(topic, offset, offset + 1)
        if found is None:
            raise OutOfRangeError(str(topic), offset, offset + 1)
        return decode_messages(found.body)[0]
