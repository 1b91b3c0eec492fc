"""The state of a client of the text protocol: unanswered sends, windows, and messages that have arrived.

There is no I/O: `receive` takes the bytes that arrive, and `outgoing` holds the bytes to send. A session outlives its
connections: requests that a lost connection left unanswered are repeated on the next one, and its messages are in
their queues again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from penstock.errors import PenstockError, UnavailableError
from penstock.text.errors import error_of
from penstock.wire import text_frames as t

VERSION = 2
CONTENT_BYTES_MAX = 1 << 30  # a bound against a broken endpoint. The endpoint's own limit is lower

_MAXIMA = {
    t.DISPATCH: {t.QUEUE: t.NAME_BYTES_MAX, t.CONTENT: CONTENT_BYTES_MAX, t.ID: t.ID_BYTES},
    t.CONFIRM: {t.QUEUE: t.STRAY_BYTES_MAX, t.ID: t.ID_BYTES},
    t.ERROR: {t.CODE: 64, t.SENTENCE: 4096, t.REFUSED: 3, t.QUEUE: t.STRAY_BYTES_MAX, t.ID: t.ID_BYTES},
}


class Pending:
    """A send, until it is answered."""

    __slots__ = ("error", "frame", "id", "on_done")

    def __init__(self, frame: bytes, on_done: Callable[[Pending], None] | None) -> None:
        self.frame = frame
        self.id = ""
        self.error: PenstockError | None = None
        self.on_done = on_done

    def settle(self, *, message_id: str = "", error: PenstockError | None = None) -> None:
        self.id, self.error = message_id, error
        if self.on_done is not None:
            self.on_done(self)


class Message:
    """A message that is outstanding until it is acked, given back, or its connection is lost."""

    __slots__ = ("_settle", "content", "id", "queue")

    def __init__(self, queue: str, content: bytes, message_id: str, settle: Callable[[Message, float | None], bool]):
        self.queue = queue
        self.content = content
        self.id = message_id
        self._settle: Callable[[Message, float | None], bool] | None = settle

    def ack(self) -> bool:
        """Ack the message. Return False if it was no longer outstanding and is delivered again."""
        return self._once(None)

    def give_back(self, delay_seconds: float = 0) -> bool:
        """Return the message to its queue, to be delivered again now or after a delay. False as in `ack`."""
        return self._once(max(0.0, delay_seconds))

    def _once(self, delay_seconds: float | None) -> bool:
        settle, self._settle = self._settle, None
        return settle(self, delay_seconds) if settle is not None else False

    def __repr__(self) -> str:
        return f"Message({self.queue!r}, {self.id}, {len(self.content)} bytes)"


class Stream:
    """The messages that arrive from one queue."""

    __slots__ = ("arrived", "error", "on_change", "window")

    def __init__(self, window: int, on_change: Callable[[], None] | None) -> None:
        self.window = window
        self.arrived: deque[Message] = deque()
        self.error: PenstockError | None = None
        self.on_change = on_change

    def changed(self) -> None:
        if self.on_change is not None:
            self.on_change()


class Session:
    def __init__(self, flush: Callable[[], None]) -> None:
        self.outgoing = bytearray()
        self.streams: dict[str, Stream] = {}
        self._flush = flush  # called when `outgoing` should be sent
        self._pending: deque[Pending] = deque()
        self._connection = 0  # number of the connection. A message belongs to the connection it came by
        self._connected = False
        self._reader = t.FrameReader(_MAXIMA, line=False)

    @property
    def is_connected(self) -> bool:
        return self._connected

    @property
    def unanswered(self) -> int:
        return len(self._pending)

    # ------------------------------------------------------------------ the connection

    def connected(self) -> None:
        """Begin a new connection: repeat unanswered sends and consume requests."""
        self._connected = True
        self._reader = t.FrameReader(_MAXIMA, line=False)
        self.outgoing = bytearray(b"".join(pending.frame for pending in self._pending))
        for queue, stream in self.streams.items():
            self._request_window(queue, stream.window)
            stream.changed()  # a wait for messages begins again
        self._flush()

    def lost(self) -> None:
        """End the connection. Its outstanding messages are in their queues again."""
        self._connected = False
        self._connection += 1
        self.outgoing = bytearray()
        for stream in self.streams.values():
            stream.arrived.clear()
            stream.changed()  # a wait for messages ends, and a wait for the connection begins

    def give_up(self, error: PenstockError) -> None:
        """Fail everything that waits, because there will be no other connection."""
        while self._pending:
            self._pending.popleft().settle(error=error)
        for stream in self.streams.values():
            stream.error = error
            stream.changed()

    # ------------------------------------------------------------------ requests

    def send(
        self, queue: str, contents: Iterable[bytes], on_done: Callable[[Pending], None] | None = None
    ) -> list[Pending]:
        name = queue.encode()
        sends = []
        for content in contents:
            frame = t.encode(VERSION, t.SEND, ((t.QUEUE, name), (t.CONTENT, content)), line=False)
            sends.append(Pending(frame, on_done))
            self._write(frame)
        self._pending += sends
        self._flush()
        return sends

    def consume(self, queue: str, window: int, on_change: Callable[[], None] | None = None) -> Stream:
        stream = self.streams[queue] = Stream(window, on_change)
        self._request_window(queue, window)
        self._flush()
        return stream

    def cancel(self, queue: str) -> None:
        """T-043: stop consuming, and return the messages that the program has not seen."""
        stream = self.streams.pop(queue, None)
        if stream is not None:
            self._request_window(queue, 0)
            for message in stream.arrived:
                self._return_unread(message)
            stream.arrived.clear()
            self._flush()

    def cancel_all(self) -> None:
        for queue in list(self.streams):
            self.cancel(queue)

    def _return_unread(self, message: Message) -> None:
        self._request(t.UNREAD, (t.QUEUE, message.queue.encode()), (t.ID, message.id.encode()))

    def _request_window(self, queue: str, window: int) -> None:
        self._request(t.CONSUME, (t.QUEUE, queue.encode()), (t.COUNT, b"%d" % window))

    def _settle(self, connection: int, message: Message, delay_seconds: float | None) -> bool:
        if connection != self._connection or not self._connected:
            return False
        packages = [(t.QUEUE, message.queue.encode()), (t.ID, message.id.encode())]
        if delay_seconds:
            packages.append((t.DELAY, b"%d" % round(delay_seconds * 1000)))
        self._request(t.ACKNOWLEDGE if delay_seconds is None else t.RETURN, *packages)
        self._flush()
        return True

    def _request(self, kind: int, *packages: tuple[int, bytes]) -> None:
        self._write(t.encode(VERSION, kind, packages, line=False))

    def _write(self, frame: bytes) -> None:
        if self._connected:
            self.outgoing += frame

    # ------------------------------------------------------------------ answers and dispatches

    def receive(self, data: bytes) -> None:
        """Handle bytes that arrived. After an UnavailableError the connection must be closed: they are invalid."""
        at = 0
        try:
            while at < len(data):
                frame, at = self._reader.read(data, at)
                if frame is not None:
                    self._handle(frame)
        except (t.FrameError, KeyError, ValueError) as error:
            raise UnavailableError(f"The endpoint does not speak the text protocol: {error}") from error

    def _handle(self, frame: t.Frame) -> None:
        packages = dict(frame.packages)
        if frame.type == t.DISPATCH:
            queue, message_id = packages[t.QUEUE].decode(), packages[t.ID].decode()
            message = Message(queue, packages[t.CONTENT], message_id, partial(self._settle, self._connection))
            stream = self.streams.get(queue)
            if stream is None:  # dispatched before the endpoint read our cancellation
                self._return_unread(message)
                self._flush()
            else:
                stream.arrived.append(message)
                stream.changed()
        elif frame.type == t.CONFIRM:
            self._answer(message_id=packages[t.ID].decode())
        elif frame.type == t.ERROR:
            error = error_of(packages[t.CODE].decode(), packages[t.SENTENCE].decode())
            self._fail(int(packages.get(t.REFUSED, b"0")), packages.get(t.QUEUE, b"").decode(), error)

    def _answer(self, *, message_id: str = "", error: PenstockError | None = None) -> None:
        """Answer the oldest send, because answers come in the order of the sends (T-023)."""
        if self._pending:
            self._pending.popleft().settle(message_id=message_id, error=error)

    def _fail(self, refused: int, queue: str, error: PenstockError) -> None:
        stream = self.streams.get(queue)
        if refused == t.SEND:
            self._answer(error=error)
        elif refused == t.CONSUME and stream is not None:
            stream.error = error
            stream.changed()
        # Any other error refuses the ack or the return of a message that is no longer outstanding.
