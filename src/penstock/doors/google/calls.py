"""gRPC calls over HTTP/2 streams: one call per stream, unary or streaming, from the headers to the trailers."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.doors.google.errors import CallError, Code, call_error
from penstock.doors.google.framing import (
    HEAD,
    MESSAGE_BYTES_MAX,
    OK,
    OUT_OF_MEMORY,
    PREFIX_BYTES,
    decode,
    frame_message,
    message_bytes,
    out_of_memory,
    overdue,
    too_large,
    trailers,
    trailers_only,
    whole_message,
)
from penstock.doors.google.http2.body import Body
from penstock.doors.google.http2.stream import Stream
from penstock.errors import LostReplyError, where
from penstock.wire.budget import Budget

if TYPE_CHECKING:
    from penstock.doors.google.call_log import CallLog

_REFILL_BYTES = 1 << 20

_TIME_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

Unary: TypeAlias = Callable[[Any, "Context"], Awaitable[Any]]
Streaming: TypeAlias = Callable[["StreamingCall"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service: its request and response types, and its implementation."""

    service: str
    name: str
    request: Any
    response: Any
    unary: Unary | None = None
    streaming: Streaming | None = None
    waits: bool = False  # True if the method waits for messages. It is cancelled when its caller disconnects
    answers_one: bool = False  # True if a streaming method takes only one request

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


class Context:
    """The properties of a call besides its request."""

    __slots__ = ("_caller", "_deadline", "_loop", "headers", "size")

    def __init__(
        self,
        *,
        headers: dict[str, str],
        loop: asyncio.AbstractEventLoop,
        size: int,
        deadline: float | None = None,
        caller: Stream | str = "",
    ) -> None:
        self.headers = headers
        self.size = size  # of the request, in bytes
        self._caller = caller
        self._loop = loop
        self._deadline = deadline  # in the time of the event loop

    @property
    def peer(self) -> str:
        """The address of the caller."""
        return self._caller if isinstance(self._caller, str) else self._caller.endpoint

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - self._loop.time())


def timeout_seconds(text: str) -> float | None:
    """Return the seconds of a grpc-timeout header, or None if it is invalid."""
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
        call_log: CallLog | None = None,
    ) -> None:
        """`admit` gets the headers and path of every call, and raises CallError if the caller may not make it."""
        self.methods = {method.path: method for method in methods}
        self.call_log = call_log
        logged = {} if call_log is None else {path: call_log.wrap(method) for path, method in self.methods.items()}
        self._served = logged or self.methods
        self.log = log
        self.admit = admit
        self.counts: Counter[str] = Counter()  # failed calls, by code
        self.budget = budget or Budget()
        self.tasks: set[asyncio.Task[None]] = set()
        self.streaming: set[StreamingCall] = set()

    def begin(self, stream: Stream, headers: dict[str, str]) -> UnaryCall | StreamingCall | None:
        """Return the receiver of a new call, or None if the call was refused because of its headers."""
        path = headers.get(":path", "")
        try:
            self.admit(headers, path)
            method = self._served.get(path)
            if method is None:
                raise CallError(Code.UNIMPLEMENTED, f"Method not found: {path[:200]}")
        except CallError as error:
            stream.send_headers(trailers_only(self.grpc_error(error, path)), end=True)
            return None
        return (StreamingCall if method.streaming else UnaryCall)(self, method, stream, headers)

    def run(self, work: Coroutine[Any, Any, None], done: Callable[[asyncio.Task[None]], None]) -> asyncio.Task[None]:
        """Run work in a task that is cancelled when the server stops.

        `done` is called even if the task was cancelled before it began. It must remove the task from `tasks`.
        """
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(done)
        return task

    def end_streams(self) -> None:
        """End every streaming call, because the server stops. Clients connect again."""
        for call in list(self.streaming):
            call.end(CallError(Code.UNAVAILABLE, "The server is stopping. Connect again."))

    def error(self, error: Exception, path: str) -> CallError:
        """Return the error that the client gets. Count it and log it."""
        path = path.partition("?")[0][:200]  # a query may hold a token
        mapped = call_error(error)
        if mapped is None:
            self.log.error("%s failed: %s", path, where(error))
            self.log.debug("%s failed", path, exc_info=error)
            mapped = CallError(Code.INTERNAL, "Internal error.")
        else:
            self.log.debug("refused %s: %s", path, mapped.code.name)
        self.counts[mapped.code.name] += 1
        return mapped

    def grpc_error(self, error: Exception, path: str) -> CallError:
        """Return the error of a gRPC call like `error`, and write it to the request log."""
        if self.call_log is not None:
            self.call_log.log_refusal(path, error)
        return self.error(error, path)


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
            stream.deadline = min(stream.deadline, self._deadline)  # both in monotonic time

    def receive(self, data: bytes) -> None:
        if not self._body.add(data, self._give_up):
            self._give_up()
        elif self._body.size > MESSAGE_BYTES_MAX + PREFIX_BYTES:
            self._refuse(too_large(self._body.size))

    def finish(self) -> None:
        if not self._stream.local_ended:
            self._task = self._calls.run(self._run(), self._on_done)

    def expire(self) -> None:
        if self._task is None:
            self._refuse(overdue())
        else:  # the method writes the line of the request log when it ends
            self._fail(self._calls.error(overdue(), self._method.path))

    def abandon(self) -> None:
        if self._task is None:
            self._body.close()
        elif self._method.waits:
            self._task.cancel()

    async def _run(self) -> None:
        method = self._method
        assert method.unary is not None, "a streaming method in a unary call"
        try:
            message = whole_message(self._body.take(), self.headers)
            loop = asyncio.get_running_loop()
            if self._deadline is not None and loop.time() >= self._deadline:
                raise overdue()
            context = Context(
                headers=self.headers, loop=loop, size=len(message), deadline=self._deadline, caller=self._stream
            )
            response = await method.unary(decode(method.request, message), context)
            encoded = response if type(response) is bytes else response.SerializeToString()
            if not self._stream.answer(HEAD, frame_message(encoded), OK):
                raise out_of_memory()
        except LostReplyError:
            self._stream.cut_off()
        except Exception as error:  # noqa: BLE001 - the outer edge: every failure becomes a status
            self._refuse(error)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._calls.tasks.discard(task)
        self._task = None
        self._body.close()

    def _give_up(self) -> None:
        self._refuse(out_of_memory())

    def _refuse(self, error: Exception) -> None:
        self._fail(self._calls.grpc_error(error, self._method.path))

    def _fail(self, error: CallError) -> None:
        if self._task is None:
            self._body.close()
        self._stream.send_headers(trailers_only(error), end=True)


class StreamingCall:
    """A call in which both sides may send any number of messages."""

    def __init__(self, calls: Calls, method: Method, stream: Stream, headers: dict[str, str]) -> None:
        self.headers = headers
        self.method = method
        self._calls = calls
        self._stream = stream
        self.budget = calls.budget
        self._body = Body(calls.budget)  # received and not yet returned by `next_request`
        # Bytes of the next message with its prefix, or of the prefix alone until it is here.
        self._wanted = PREFIX_BYTES
        self._over = asyncio.Event()
        self._arrived = asyncio.Event()
        self._finished = False
        self._opened = False
        self._ended = False  # True: further input is discarded
        self.ended_with: Code | None = None
        self.resource = ""  # the subscription, for the request log
        self.messages = self.acks = 0  # messages sent and acked, for the request log
        self._task: asyncio.Task[None] | None = calls.run(self._run(), self._on_done)
        calls.streaming.add(self)
        stream.set_deadline(None)

    # Called by the connection.

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

    # Called by the method.

    @property
    def peer(self) -> str:
        """The address of the caller."""
        return self._stream.endpoint

    def begin(self, resource: str) -> None:
        """Set the resource of the call, and write the first line of the request log."""
        self.resource = resource
        if self._calls.call_log is not None:
            self._calls.call_log.log_begin(self.method, resource)

    async def next_request(self) -> Any:
        """Return the next message of the client, or None when the client has closed its side."""
        while not self._is_whole():
            if self._finished:
                return None
            # There is a deadline only while part of a message has arrived.
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
        """Send one message. Return when there is room for another."""
        if not self._opened:
            self.open()
        if not self._stream.send(frame_message(message)):
            raise CallError(Code.UNAVAILABLE, f"{OUT_OF_MEMORY} Connect again.")
        await self._stream.drained()

    async def closed(self) -> None:
        """Wait until the client disconnects or the server stops. Both cancel the waiting task."""
        await self._over.wait()

    def open(self) -> None:
        """Send the response headers, so that the client knows that the stream is open."""
        if not self._opened:
            self._opened = True
            self._stream.send_headers(HEAD)

    def end(self, error: CallError | None = None) -> None:
        """Finish with a status, and cancel the method."""
        self._ended = True
        self.ended_with = Code.OK if error is None else error.code
        self._body.close()
        if error is None:
            self.open()
            self._stream.send_trailers(OK)
        elif self._opened:
            self._stream.send_trailers(trailers(error))
        else:
            self._stream.send_headers(trailers_only(error), end=True)
        self._cancel()

    async def _run(self) -> None:
        method = self.method
        assert method.streaming is not None, "a unary method in a streaming call"
        try:
            await method.streaming(self)
            self.end()
        except Exception as error:  # noqa: BLE001 - the outer edge: every failure becomes a status
            self.end(self._calls.grpc_error(error, method.path))

    def _cancel(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._calls.tasks.discard(task)
        self._task = None  # a task keeps its exception, and with it the frames of the stack
        self._calls.streaming.discard(self)
        self._body.close()

    def _give_up(self) -> None:
        self.end(out_of_memory())
