"""Publishing from the reader process: rows go to the server in frames, and only so many bytes at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from penstock.doors.flight.ipc import Publish, PublishResult, Row, Rows, pack, unpack
from penstock.doors.flight.link import ReaderEnd

IN_FLIGHT_BYTES = 64 << 20


class ByteLimit:
    """A publish takes all the bytes it needs before any is sent, so none waits for another; a larger one goes alone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size
        self._changed = threading.Condition()

    def take(self, size: int) -> int:
        """Wait until there is room; how much was taken."""
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        return size

    def give_back(self, size: int) -> None:
        with self._changed:
            self._left += size
            self._changed.notify_all()


class Publisher:
    def __init__(self, link: ReaderEnd) -> None:
        self._link = link
        self._in_flight = ByteLimit(IN_FLIGHT_BYTES)

    def publish(
        self, topic: str, pieces: Sequence[Rows[Row]], producer: str = "", epoch: int = 0, sequence: int = 0
    ) -> Future[bytes]:
        """One publish, sent in pieces. Waits while too much is in flight: nothing more is read from the client."""
        taken = self._in_flight.take(sum(sum(piece.sizes) for piece in pieces))
        number = self._link.number()
        for piece in pieces[:-1]:
            self._link.send("rows", pack(piece), number)
        answer = self._link.ask("publish", pack(Publish(topic, producer, epoch, sequence, pieces[-1])), number)
        answer.add_done_callback(lambda _: self._in_flight.give_back(taken))
        return answer


def result(answer: Future[bytes]) -> PublishResult:
    found: PublishResult = unpack(answer.result(), PublishResult)
    return found
