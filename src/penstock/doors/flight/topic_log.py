"""The logs of topics in the reader process: bounds from the server, and messages from the store.

Only a server without a store sends the messages. Calls block their own thread and no other.
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
        """Return the bounds of topics, or of all topics. With `missing_ok` missing topics are left out."""
        bounds: list[TopicBounds] = unpack(self._link.call("topics", pack((names, missing_ok))), list[TopicBounds])
        return bounds

    def topic(self, name: str) -> TopicBounds:
        return self.bounds([name])[0]

    def stored(self, topic: TopicBounds, first: int, until: int) -> Iterator[StoredBatch]:
        """Yield the stored batches of a range, without a gap. Raise OutOfRangeError if retention was faster."""
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
        """Check why messages are missing. Raise OutOfRangeError if they are no longer kept."""
        now = self.topic(topic.name)
        if now.identity != topic.identity:
            raise OutOfRangeError(topic.name, wanted)
        if now.head > wanted:
            raise OutOfRangeError(topic.name, wanted, now.head)

    def position(self, topic: TopicBounds, offset: int) -> int:
        """Return the bytes of the topic before an offset."""
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
        """Return the first offset from `low` to `high` with at least `position` bytes before it."""
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
    """A reader for a server that keeps its messages in memory. It reads over the link, slice by slice."""

    def __init__(self, link: ReaderEnd) -> None:
        self._link = link

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        while first < until and (batch := self._slice(topic, first, until)) is not None:
            yield batch
            first = batch.until

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
        """Do nothing, because nothing is held."""

    def _slice(self, topic: int, first: int, until: int) -> StoredBatch | None:
        batch: Any = unpack(self._link.call("read", pack((topic, first, until))), StoredBatch | None)
        return batch  # type: ignore[no-any-return]

    def _message(self, topic: int, offset: int) -> Message:
        batch = self._slice(topic, offset, offset + 1)
        if batch is None:
            raise OutOfRangeError(str(topic), offset, offset + 1)
        return decode_messages(batch.body)[0]
