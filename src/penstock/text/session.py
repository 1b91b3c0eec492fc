"""What a client of the text protocol knows: what it asked for, what it was given, what it still waits for.

There is no I/O: bytes that arrived go in, bytes to send come out of `outgoing`. A session outlives its connections:
what a lost one left unanswered is asked again on the next, and what it held is no longer ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from penstock.errors import PenstockError, UnavailableError
from penstock.text.errors import error_of
from penstock.wire import textframes as t

VERSION = 2
CONTENT_BYTES_MAX = 1 << 30  # what the endpoint allows is its business; this only bounds a broken one

_MAXIMA = {
    t.DISPATCH: {t.QUEUE: t.NAME_BYTES_MAX, t.CONTENT: CONTENT_BYTES_MAX, t.ID: t.ID_BYTES},
    t.CONFIRM: {t.QUEUE: t.NAME_BYTES_MAX, t.ID: t.ID_BYTES},
    t.ERROR: {t.CODE: 64, t.SENTENCE: 4096, t.REFUSED: 3, t.QUEUE: t.NAME_BYTES_MAX, t.ID: t.ID_BYTES},
}


class Pending:
    """A send that has no answer yet."""

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
    """A message of a queue, ours until we acknowledge it, return it, or lose the connection it came by."""

    __slots__ = ("_settle", "content", "id", "queue")

    def __init__(self, queue: str, content: bytes, message_id: str, settle: Callable[[Message, float | None], bool]):
        self.queue = queue
        self.content = content
        self.id = message_id
        self._settle: Callable[[Message, float | None], bool] | None = settle

    def ack(self) -> bool:
        """It is done with. False if it was no longer ours: then it is delivered again."""
        return self._once(None)

    def give_back(self, delay_seconds: float = 0) -> bool:
        """It shall be delivered again, now or later."""
        return self._once(max(0.0, delay_seconds))

    def _once(self, delay_seconds: float | None) -> bool:
        settle, self._settle = self._settle, None
        return settle(self, delay_seconds) if settle is not None else False

    def __repr__(self) -> str:
        return f"Message({self.queue!r}, {self.id}, {len(self.content)} bytes)"


class Stream:
    """What is consumed from one queue."""

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
        self._flush = flush  # called when there is something to send that need not wait for more
        self._pending: deque[Pending] = deque()
        self._connection = 0  # counts them: a message belongs to the one it came by
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
        """A new connection: ask again for what the last one left open."""
        self._connected = True
        self._reader = t.FrameReader(_MAXIMA, line=False)
        self.outgoing = bytearray(b"".join(pending.frame for pending in self._pending))
        for queue, stream in self.streams.items():
            self._ask(queue, stream.window)
            stream.changed()  # a wait for messages begins again
        self._flush()

    def lost(self) -> None:
        """The connection is gone, and with it all that was outstanding: the queues have it again."""
        self._connected = False
        self._connection += 1
        self.outgoing = bytearray()
        for stream in self.streams.values():
            stream.arrived.clear()

    def give_up(self, error: PenstockError) -> None:
        """There will be no other connection."""
        while self._pending:
            self._pending.popleft().settle(error=error)
        for stream in self.streams.values():
            stream.error = error
            stream.changed()

    # ------------------------------------------------------------------ what a program asks for

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
        self._ask(queue, window)
        self._flush()
        return stream

    def cancel(self, queue: str) -> None:
        """T-043: consume no more. What arrived and was not looked at goes back, and counts for nothing."""
        stream = self.streams.pop(queue, None)
        if stream is not None:
            self._ask(queue, 0)
            for message in stream.arrived:
                self._unread(message)
            stream.arrived.clear()
            self._flush()

    def cancel_all(self) -> None:
        for queue in list(self.streams):
            self.cancel(queue)

    def _unread(self, message: Message) -> None:
        self._request(t.UNREAD, (t.QUEUE, message.queue.encode()), (t.ID, message.id.encode()))

    def _ask(self, queue: str, window: int) -> None:
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

    # ------------------------------------------------------------------ what the endpoint says

    def receive(self, data: bytes) -> None:
        """Bytes arrived. UnavailableError if they make no sense: then the connection is of no more use."""
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
            if stream is None:  # it crossed our cancellation
                self._unread(message)
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
        """T-023: answers come in the order of the sends."""
        if self._pending:
            self._pending.popleft().settle(message_id=message_id, error=error)

    def _fail(self, refused: int, queue: str, error: PenstockError) -> None:
        stream = self.streams.get(queue)
        if refused == t.SEND:
            self._answer(error=error)
        elif refused == t.CONSUME and stream is not None:
            stream.error = error
            stream.changed()
        # Anything else is an ack or a return of what is no longer ours, and changes nothing.
