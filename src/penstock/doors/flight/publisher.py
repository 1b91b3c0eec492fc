"""Publishing from the reader process: rows go to the server in frames, with a limit of bytes in flight."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import blake2b

from penstock.doors.flight.ipc import Publish, PublishResult, Row, Rows, pack, unpack
from penstock.doors.flight.link import ReaderEnd

IN_FLIGHT_BYTES = 64 << 20
DIGEST_MAX = 1 << 63


class ByteLimit:
    """A limit of bytes in flight.

    A publish takes all its bytes before it sends any, so two publishes never wait for each other. A publish above the
    limit is sent alone.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size
        self._changed = threading.Condition()

    def take(self, size: int) -> int:
        """Wait until there is room for `size` bytes, or for all bytes. Return the bytes taken."""
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
        """Send one publish in pieces. Block while too much is in flight, so that the client is not read either."""
        taken = self._in_flight.take(sum(sum(piece.sizes) for piece in pieces))
        try:
            digest = rows_digest(pieces) if producer else 0
            last = pack(Publish(topic, producer, epoch, sequence, pieces[-1], digest))
            number = self._link.number()
            for piece in pieces[:-1]:
                self._link.send("rows", pack(piece), number)
            answer = self._link.request("publish", last, number)
        except BaseException:
            self._in_flight.give_back(taken)  # otherwise later publishes would wait for these bytes without end
            raise
        answer.add_done_callback(lambda _: self._in_flight.give_back(taken))
        return answer


def rows_digest(pieces: Sequence[Rows[Row]]) -> int:
    """Return a number above 0 that depends on the rows and not on their order.

    A request is published as a whole, so a repeat with the same rows in another order loses nothing. Spark gives the
    rows of a shuffle in the order in which they arrive. A CRC of each row is not enough: if one byte changes in all
    rows of a sequence of numbers, their CRCs are the same as before, in another order.
    """
    hashes = (blake2b(pack(row), digest_size=8).digest() for piece in pieces for row in piece.drafts)
    return sum(int.from_bytes(row_hash) for row_hash in hashes) % DIGEST_MAX or 1


def result(answer: Future[bytes]) -> PublishResult:
    published: PublishResult = unpack(answer.result(), PublishResult)
    return published
