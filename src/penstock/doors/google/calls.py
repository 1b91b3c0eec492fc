"""gRPC over HTTP/2 streams: one call each, unary or streaming, from its headers to its trailers."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

from google.protobuf.message import DecodeError

from penstock.doors.google.errors import CallError, Code, call_error, invalid
from penstock.doors.google.http2 import hpack
from penstock.doors.google.http2.body import Body
from penstock.doors.google.http2.stream import Stream
from penstock.errors import where
from penstock.wire.budget import Budget

MESSAGE_BYTES_MAX = 12 << 20  # beyond the 10 MB a publish may have, so that its own limit is what a client meets
PREFIX_BYTES = 5
_REFILL_BYTES = 1 << 20

_HEAD = hpack.encode(
    [(":status", "200"), ("content-type", "application/grpc"), ("grpc-accept-encoding", "identity,deflate,gzip")]
)
_OK = hpack.encode([("grpc-status", "0")])
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_TIME_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_OUT_OF_MEMORY = "The server's memory for requests and answers is in use."
_PLAIN = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"

Unary: TypeAlias = Callable[[Any, "Context"], Awaitable[Any]]
Streaming: TypeAlias = Callable[["StreamingCall"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service: what it takes, what it gives, what does it."""

    service: str
    name: str
    request: Any
    response: Any
    unary: Unary | None = None
    streaming: Streaming | None = None
    waits: bool = False  # for messages, so that a caller who left need not be served to the end
    answers_one: bool = False  # a streaming method that takes one request only

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


class Context:
    """What a method may know of its call besides the request."""

    __slots__ = ("_deadline", "_loop", "headers", "size")

    def __init__(
        self, headers: dict[str, str], loop: asyncio.AbstractEventLoop, size: int, deadline: float | None = None
    ) -> None:
        self.headers = headers
        self.size = size  # of the request, in bytes
        self._loop = loop
        self._deadline = deadline  # by the loop's time

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - self._loop.time())


def timeout_seconds(text: str) -> float | None:
    """The seconds of a grpc-timeout header; None without one."""
    digits, unit = text[:-1], text[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 8 or unit not in _TIME_UNITS:
        return None
    return int(digits) * _TIME_UNITS[unit]


class Calls:
    """The methods of a server, and the calls in progress."""

    def __init__(
        self,
        methods: list[Method],
        log: logging.Logger,
        admit: Callable[[dict[str, str], str], None],
        budget: Budget | None = None,
    ) -> None:
        """`admit` gets headers and path of every call and raises CallError for one that may not be."""
        self.methods = {method.path: method for method in methods}
        self.log = log
        self.admit = admit
        self.counts: Counter[str] = Counter()  # calls that failed, by code
        self.budget = budget or Budget()
        self.tasks: set[asyncio.Task[None]] = set()
        self.streaming: set[StreamingCall] = set()

    def begin(self, stream: Stream, headers: dict[str, str]) -> UnaryCall | StreamingCall | None:
        """Who takes the call; None if its headers are enough to refuse it."""
        path = headers.get(":path", "")
        try:
            self.admit(headers, path)
            method = self.methods.get(path)
            if method is None:
                raise CallError(Code.UNIMPLEMENTED, f"Method not found: {path[:200]}")
        except CallError as error:
            stream.send_headers(trailers_only(self.error(error, path)), end=True)
            return None
        return (StreamingCall if method.streaming else UnaryCall)(self, method, stream, headers)

    def run(self, work: Coroutine[Any, Any, None], done: Callable[[asyncio.Task[None]], None]) -> asyncio.Task[None]:
        """Work that is cancelled when the server stops. `done` is called even if it was cancelled before it began,
        and takes it out of `tasks`."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(done)
        return task

    def end_streams(self) -> None:
        """The server stops: who listens shall connect again."""
        for call in list(self.streaming):
            call.end(CallError(Code.UNAVAILABLE, "The server is stopping. Connect again."))

    def error(self, error: Exception, path: str) -> CallError:
        known = call_error(error)
        if known is None:
            self.log.error("%s failed: %s", path, where(error))
            self.log.debug("%s failed", path, exc_info=error)
            known = CallError(Code.INTERNAL, "Internal error.")
        self.counts[known.code.name] += 1
        return known


class UnaryCall:
    __slots__ = ("__weakref__", "_body", "_calls", "_deadline", "_method", "_stream", "_task", "headers")

    def __init__(self, calls: Calls, method: Method, stream: Stream, headers: dict[str, str]) -> None:
        self._calls = calls
        self._method = method
        self._stream = stream
        self._body = Body(calls.budget)
        self._task: asyncio.Task[None] | None = None
        self._deadline: float | None = None
        self.headers = headers
        timeout = headers.get("grpc-timeout")
        seconds = None if timeout is None else timeout_seconds(timeout)
        if seconds is not None:
            self._deadline = asyncio.get_running_loop().time() + seconds
            stream.deadline = min(stream.deadline, self._deadline)  # both by the monotonic clock

    def receive(self, data: bytes) -> None:
        if not self._body.add(data, self._give_up):
            self._give_up()
        elif self._body.size > MESSAGE_BYTES_MAX + PREFIX_BYTES:
            self._fail(too_large(self._body.size))

    def finish(self) -> None:
        if not self._stream.local_ended:
            self._task = self._calls.run(self._run(), self._done)

    def expire(self) -> None:
        self._fail(overdue())

    def abandon(self) -> None:
        if self._task is None:
            self._body.close()
        elif self._method.waits:
            self._task.cancel()

    async def _run(self) -> None:
        method = self._method
        assert method.unary is not None, "a streaming method has its own call"
        try:
            message = whole_message(self._body.take(), self.headers)
            loop = asyncio.get_running_loop()
            if self._deadline is not None and loop.time() >= self._deadline:
                raise overdue()
            context = Context(self.headers, loop, len(message), self._deadline)
            response = await method.unary(decode(method.request, message), context)
            encoded = response if type(response) is bytes else response.SerializeToString()
            if not self._stream.answer(_HEAD, framed(encoded), _OK):
                raise out_of_memory()
        except Exception as error:  # noqa: BLE001 - the outer edge: every failure becomes a status
            self._fail(self._calls.error(error, method.path))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._calls.tasks.discard(task)
        self._task = None
        self._body.close()

    def _give_up(self) -> None:
        self._fail(out_of_memory())

    def _fail(self, error: CallError) -> None:
        if self._task is None:
            self._body.close()
        self._stream.send_headers(trailers_only(error), end=True)


class StreamingCall:
    """A call in which both sides send as long as they like."""

    def __init__(self, calls: Calls, method: Method, stream: Stream, headers: dict[str, str]) -> None:
        self.headers = headers
        self.method = method
        self._calls = calls
        self._stream = stream
        self._body = Body(calls.budget)  # what was not asked for yet
        self._wanted = PREFIX_BYTES  # so much of it is a message, or the prefix with its length
        self._over = asyncio.Event()
        self._arrived = asyncio.Event()
        self._finished = False
        self._opened = False
        self._ended = False  # what still comes in is thrown away
        self._task: asyncio.Task[None] | None = calls.run(self._run(), self._done)
        calls.streaming.add(self)
        stream.set_deadline(None)

    # What the connection calls.

    def receive(self, data: bytes) -> None:
        if self._ended:
            return
        if not self._body.add(data, self._give_up):
            self._give_up()
        elif self._body.size >= self._wanted:
            self._arrived.set()

    def finish(self) -> None:
        self._finished = True
        self._arrived.set()

    def expire(self) -> None:
        self.end(overdue())

    def abandon(self) -> None:
        self._body.close()
        self._cancel()

    # What the method calls.

    async def next_request(self) -> Any:
        """The next message of the client; None when it will send no more."""
        while not self._is_whole():
            if self._finished:
                return None
            # A message that was begun has to arrive in time; until the next one begins there is no hurry.
            self._stream.set_deadline(math.inf if self._body.size else None)
            self._arrived.clear()
            await self._arrived.wait()
        raw = self._body.cut(self._wanted)
        self._wanted = PREFIX_BYTES
        self._stream.set_deadline(None)
        self._stream.credit(len(raw))
        self._stream.refill(_REFILL_BYTES)
        return decode(self.method.request, whole_message(raw, self.headers))

    def _is_whole(self) -> bool:
        if self._body.size >= self._wanted == PREFIX_BYTES:
            self._wanted += message_bytes(self._body.peek(PREFIX_BYTES))
        return PREFIX_BYTES <= self._wanted <= self._body.size

    async def send(self, message: bytes) -> None:
        """Send one message; returns when there is room for another."""
        if not self._opened:
            self.open()
        if not self._stream.send(framed(message)):
            raise CallError(Code.UNAVAILABLE, f"{_OUT_OF_MEMORY} Connect again.")
        await self._stream.drained()

    async def closed(self) -> None:
        """Until the client goes or the server stops: either cancels the task that waits here."""
        await self._over.wait()

    def open(self) -> None:
        """Send the headers, so that the client knows the stream is there."""
        if not self._opened:
            self._opened = True
            self._stream.send_headers(_HEAD)

    def end(self, error: CallError | None = None) -> None:
        """Finish with a status; the method is not run further."""
        self._ended = True
        self._body.close()
        if error is None:
            self.open()
            self._stream.send_trailers(_OK)
        elif self._opened:
            self._stream.send_trailers(trailers(error))
        else:
            self._stream.send_headers(trailers_only(error), end=True)
        self._cancel()

    async def _run(self) -> None:
        method = self.method
        assert method.streaming is not None, "a unary method has its own call"
        try:
            await method.streaming(self)
            self.end()
        except Exception as error:  # noqa: BLE001 - the outer edge: every failure becomes a status
            self.end(self._calls.error(error, method.path))

    def _cancel(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._calls.tasks.discard(task)
        self._task = None  # it keeps the error it ended with, and with that its frames
        self._calls.streaming.discard(self)
        self._body.close()

    def _give_up(self) -> None:
        self.end(out_of_memory())


# ---------------------------------------------------------------------- framing


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def message_bytes(data: bytes | bytearray) -> int:
    """The length a prefix announces."""
    size = int.from_bytes(data[1:PREFIX_BYTES], "big")
    if size > MESSAGE_BYTES_MAX:
        raise too_large(size)
    return size


def whole_message(data: bytes | bytearray, headers: dict[str, str]) -> bytes:
    """The one message in a request body, inflated if it was compressed."""
    if len(data) < PREFIX_BYTES or len(data) != PREFIX_BYTES + message_bytes(data):
        raise invalid("The request does not hold exactly one message.")
    message = data[PREFIX_BYTES:] if type(data) is bytes else bytes(memoryview(data)[PREFIX_BYTES:])
    if not data[0]:
        return message
    coding = headers.get("grpc-encoding", "identity")
    if coding not in _WINDOW_BITS:
        raise CallError(Code.UNIMPLEMENTED, f"Compression is not supported: {coding[:32]}")
    unpacker = zlib.decompressobj(_WINDOW_BITS[coding])
    try:
        message = unpacker.decompress(message, MESSAGE_BYTES_MAX + 1)
    except zlib.error:
        raise invalid("The request is not compressed as it says.") from None
    if len(message) > MESSAGE_BYTES_MAX:
        raise too_large(len(message))
    if not unpacker.eof:
        raise invalid("The request is not compressed as it says.")
    return message


def decode(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise invalid("The request is not a valid message.") from None


def too_large(size: int) -> CallError:
    return CallError(Code.RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. {MESSAGE_BYTES_MAX})")


def out_of_memory() -> CallError:
    return CallError(Code.RESOURCE_EXHAUSTED, f"{_OUT_OF_MEMORY} Try again later.")


def overdue() -> CallError:
    return CallError(Code.DEADLINE_EXCEEDED, "Deadline exceeded.")


def trailers_only(error: CallError) -> bytes:
    return _HEAD + trailers(error)


def trailers(error: CallError) -> bytes:
    headers = [("grpc-status", str(int(error.code))), ("grpc-message", quote(error.message[:500], safe=_PLAIN))]
    details = error.status()
    if details:
        headers.append(("grpc-status-details-bin", base64.b64encode(details).decode().rstrip("=")))
    return hpack.encode(headers)
