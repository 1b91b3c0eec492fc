"""Downloads in progress: the memory they hold, and how long a client may leave one unread.

A download holds memory in two ways. While it is scanned it holds a working set of stored messages. Only TURNS_MAX
downloads have a working set at a time. A download that waits for its client loses the working set as soon as another
download needs the turn, and reads the store again when its client goes on. In addition a download holds the batch that
is being written to its client. The batches of all downloads share one budget, and become smaller as less of it is left.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from penstock.doors.flight.columns import BYTES_MAX
from penstock.doors.flight.errors import flight_error
from penstock.errors import UnavailableError

DOWNLOADS_MAX = 1024
TURNS_MAX = 4
TURN_SECONDS = 0.25  # time a download may scan while others wait for a turn
BLOCKED_SECONDS = 0.05  # time a write may take before the download loses its turn to another
HOLD_SECONDS = 5.0  # time a write may take before the client is disconnected, where memory is short
LINGER_SECONDS = 30.0  # time a client has to fetch the error of a download that was ended
SHARE = 64  # a batch has at most this part of the budget that is left
BATCH_BYTES_MIN = 16 << 10
BUSY = "The server is busy: too many downloads are not being read; try again later"


class Place(NamedTuple):
    """The position of a scan: a range of the ticket, and an offset in it."""

    range: int
    offset: int | None = None  # None: the beginning of the range


Scan = Callable[[Place, Callable[[], int]], Iterator[tuple[pa.RecordBatch, Place]]]


class Downloads:
    def __init__(
        self,
        bytes_max: int,
        unread_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        hang_up: Callable[[str], None] | None = None,
    ) -> None:
        """`bytes_max` and `unread_seconds` 0: no limit."""
        self.bytes_max = bytes_max
        self.in_use_bytes = 0
        self.changed = threading.Condition()
        self.clock = clock
        self._unread_seconds = unread_seconds
        self._hang_up = hang_up or disconnect
        self._all: dict[Download, None] = {}
        self._turns: dict[Download, float] = {}  # when each download got its working set
        self._waiting = 0

    def open(self, scan: Scan, peer: str) -> Download:
        """Return a new download. Raise UnavailableError if there are too many."""
        download = Download(self, scan, peer)
        with self.changed:
            self._make_room(lambda: len(self._all) < DOWNLOADS_MAX)
            self._all[download] = None
        return download

    def batch_bytes(self) -> int:
        """Return how large the next batch may be."""
        if not self.bytes_max:
            return BYTES_MAX
        return min(max((self.bytes_max - self.in_use_bytes) // SHARE, BATCH_BYTES_MIN), BYTES_MAX)

    def end_unread(self) -> list[str]:
        """End downloads that were not read for too long, and return the addresses of their clients.

        A client that does not even fetch the error is disconnected.
        """
        if not self._unread_seconds:
            return []
        now = self.clock()
        with self.changed:
            late = [download for download in self._all if download.blocked_seconds(now) >= self._unread_seconds]
        for download in late:
            if download.blocked_seconds(now) >= self._unread_seconds + LINGER_SECONDS:
                self._hang_up(download.peer)
        sentence = f"The download was not read for {self._unread_seconds:g} s and was ended; ask for the rest again"
        return [download.peer for download in late if download.end(sentence)]

    # ------------------------------------------------------------------ called by downloads

    def take_turn(self, download: Download) -> None:
        """Wait until the download may have a working set, and until there is memory for its next batch."""
        with self.changed:
            if self.bytes_max:
                self._make_room(lambda: self.in_use_bytes < self.bytes_max)
            since = self._turns.get(download)
            if since is not None and not (self._waiting and self.clock() - since > TURN_SECONDS):
                return
            self._pass_on(download)
            self._waiting += 1
            try:
                while len(self._turns) >= TURNS_MAX and not self._take_from_blocked():
                    self.changed.wait(BLOCKED_SECONDS)
            finally:
                self._waiting -= 1
            self._turns[download] = self.clock()

    def charge(self, size: int) -> None:
        with self.changed:
            self.in_use_bytes += size
            if size < 0:
                self.changed.notify_all()

    def close(self, download: Download) -> None:
        with self.changed:
            self._all.pop(download, None)
            self._turns.pop(download, None)
            self.changed.notify_all()

    def _pass_on(self, download: Download) -> None:
        if self._turns.pop(download, None) is not None:
            download.drop_working_set()
            self.changed.notify_all()

    def _take_from_blocked(self) -> bool:
        """Take a turn from a download that waits for its client."""
        now = self.clock()
        for download in self._turns:
            if download.blocked_seconds(now) > BLOCKED_SECONDS and download.park():
                del self._turns[download]
                return True
        return False

    def _make_room(self, there_is_room: Callable[[], bool]) -> None:
        """Wait for room. Disconnect clients that have not read for more than HOLD_SECONDS."""
        until = self.clock() + 2 * HOLD_SECONDS
        while not there_is_room():
            now = self.clock()
            blocked = max(self._all, key=lambda download: download.blocked_seconds(now), default=None)
            if blocked is not None and blocked.blocked_seconds(now) > HOLD_SECONDS and not blocked.disconnected:
                blocked.disconnected = True
                self._hang_up(blocked.peer)
            elif now >= until:
                raise UnavailableError(BUSY)
            self.changed.wait(0.1)


class Download:
    """The batches of one DoGet. Flight requests a batch when the one before is written."""

    def __init__(self, downloads: Downloads, scan: Scan, peer: str) -> None:
        self.peer = peer
        self.disconnected = False
        self._downloads = downloads
        self._scan = scan
        self._batches: Iterator[tuple[pa.RecordBatch, Place]] | None = None
        self._place = Place(0)
        self._held_bytes = 0
        self._blocked_since: float | None = None  # when Flight began to write the last batch
        self._refusal = ""
        self._lock = threading.Lock()

    def __iter__(self) -> Download:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            self._blocked_since = None
            self._hold(0)
            try:
                if self._refusal:
                    raise UnavailableError(self._refusal)
                self._downloads.take_turn(self)
            except UnavailableError as error:
                raise flight_error(error) from None
            if self._batches is None:
                self._batches = self._scan(self._place, self._downloads.batch_bytes)
            batch, self._place = next(self._batches)
            self._hold(batch.nbytes)
            self._blocked_since = self._downloads.clock()
            return batch

    def blocked_seconds(self, now: float) -> float:
        """Return how long the last batch has been written to the client."""
        since = self._blocked_since
        return 0.0 if since is None else now - since

    def park(self) -> bool:
        """Drop the working set, unless the download is being scanned."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.drop_working_set()
        finally:
            self._lock.release()
        return True

    def drop_working_set(self) -> None:
        """Forget what was read from the store. The caller has the lock."""
        batches: Any = self._batches
        self._batches = None
        if batches is not None:
            batches.close()

    def end(self, sentence: str) -> bool:
        """Answer the next request for a batch with an error. Return False if the download was ended before."""
        is_new, self._refusal = not self._refusal, sentence
        self.park()
        return is_new

    def close(self) -> None:
        """Release all memory, because the call has ended."""
        self._blocked_since = None
        self._downloads.close(self)
        with self._lock:
            self._hold(0)
            self.drop_working_set()

    def _hold(self, size: int) -> None:
        change, self._held_bytes = size - self._held_bytes, size
        if change:
            self._downloads.charge(change)


def disconnect(peer: str) -> None:
    """Close the connection of a client. Flight cannot end a call whose client does not read.

    `peer` is the address in gRPC's form: `ipv4:127.0.0.1:4711` or `ipv6:%5B::1%5D:4711`.
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    target = (host.strip("[]"), port)
    for name in Path("/dev/fd").iterdir():
        with suppress(OSError, ValueError):
            if not stat.S_ISSOCK(os.fstat(int(name.name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name.name))) as connection:
                address = connection.getpeername()
                # gRPC listens with IPv6 where it can, and writes the address of an IPv4 client without this prefix.
                if isinstance(address, tuple) and (str(address[0]).removeprefix("::ffff:"), str(address[1])) == target:
                    connection.shutdown(socket.SHUT_RDWR)
