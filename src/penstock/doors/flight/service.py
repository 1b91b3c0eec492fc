"""The Flight service of the reader process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as flight

from penstock.doors.flight import codec
from penstock.doors.flight.actions import Actions
from penstock.doors.flight.columns import SCHEMA, select_schema
from penstock.doors.flight.downloads import Downloads
from penstock.doors.flight.errors import code_of, describe, flight_error, flight_errors
from penstock.doors.flight.ipc import Hello, TopicBounds
from penstock.doors.flight.link import ReaderEnd
from penstock.doors.flight.publisher import Publisher
from penstock.doors.flight.scans import Scan
from penstock.doors.flight.staging import Staging
from penstock.doors.flight.topic_log import TopicLog
from penstock.doors.flight.uploads import Upload, Uploads
from penstock.errors import InvalidArgumentError, PermissionDeniedError, UnavailableError
from penstock.journal.port import LogReader
from penstock.wire.request_log import BEGUN, RequestLog
from penstock.wire.trust import BearerTokens

_NAMING = ("topic", "topics", "name", "query", "times", "pattern")  # fields of actions that name a resource
WATCH_SECONDS = 1.0


@dataclass(slots=True)
class Call:
    """The fields of a call in the request log."""

    resource: str = ""
    result: str = "ok"
    counts: dict[str, int] = field(default_factory=dict)


class Tokens(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # Flight ships no types
    """Middleware that refuses clients without a valid bearer token."""

    def __init__(self, tokens: Sequence[str], log: logging.Logger, requests: RequestLog | None = None) -> None:
        self._tokens = BearerTokens(tokens)
        self._log = log
        self._requests = requests

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        if not any(self._tokens.admit(str(value).encode()) for value in headers.get("authorization", [])):
            error = PermissionDeniedError("A bearer token is needed, and this one is not known")
            self._log.debug("refused %s: %s", info.method, describe(error)["code"])
            if self._requests is not None:
                self._requests.write(str(info.method), "", describe(error)["code"])
            raise flight_error(error)


class CallsInProgress(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Middleware that counts calls from their beginning to the end of their streams, even if a client cancels them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> flight.ServerMiddleware:
        self._count_one(+1)
        return _EndOfCall(self._count_one)

    def wait_for_the_last(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0)

    def _count_one(self, change: int) -> None:
        with self._changed:
            self._count += change
            self._changed.notify_all()


class _EndOfCall(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._close: Callable[[], None] | None = None

    def on_end(self, close: Callable[[], None]) -> None:
        """Call `close` when the call has ended."""
        self._close = close

    def call_completed(self, exception: Exception | None) -> None:
        try:
            if self._close is not None:
                self._close()
        finally:
            self._count(-1)  # the stop of the server waits for it


class FlightService(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(
        self,
        location: str,
        hello: Hello,
        link: ReaderEnd,
        reader: LogReader | None,
        log: logging.Logger,
        requests: RequestLog | None = None,
        **options: Any,
    ) -> None:
        self._calls = CallsInProgress()
        self._log = log
        self._requests = requests
        self._topics = TopicLog(link, reader)
        self._names = codec.Names(hello.project)
        self._limits = hello.limits
        self._publisher = Publisher(link)
        self.staging = Staging(link, self._topics, self._publisher, log)
        self._actions = Actions(link, self._topics, self._names, self.staging)
        self._stopping = False
        self._uploads = Uploads()
        self._finished = threading.Event()
        self._downloads = Downloads(hello.read_bytes_max, hello.read_unread_seconds)
        threading.Thread(target=self._watch, name="penstock-downloads", daemon=True).start()
        middleware = {"calls": self._calls}
        if hello.tokens:
            middleware["tokens"] = Tokens(hello.tokens, log, requests)
        super().__init__(location, middleware=middleware, **options)

    def finish(self) -> None:
        """Refuse new calls, wait for the calls in progress, and shut down gRPC.

        The shutdown of gRPC asks each client whether it has read everything, and then closes the connection. If a
        stream is still running, gRPC closes right after the last piece is written. A slow client that sends anything
        then gets a reset, and loses the bytes on their way.
        """
        self._stopping = True
        self._calls.wait_for_the_last()
        self._finished.set()
        self.shutdown()

    def _watch(self) -> None:
        """End unread downloads until the last call is over."""
        while not self._finished.wait(WATCH_SECONDS):
            for peer in self._downloads.end_unread():
                self._log.warning("a download was ended: its client %s did not read it", peer)

    @contextmanager
    def _call(self, what: str) -> Iterator[Call]:
        """Run a call: turn its errors into Flight errors, and write its line in the request log."""
        call, since = Call(), time.perf_counter()
        try:
            with flight_errors(self._log, what):
                if self._stopping:
                    raise UnavailableError("The server is stopping")
                yield call
        except flight.FlightError as error:
            call.result = code_of(error)
            raise
        finally:
            if self._requests is not None:
                self._requests.write(what, call.resource, call.result, since, **call.counts)

    def do_get(self, context: Any, ticket: flight.Ticket) -> Any:
        with self._call("do_get") as call:
            asked = codec.read(ticket.ticket, codec.Ticket, "ticket")
            columns = _columns(asked.columns)
            wanted = codec.ranges_of(asked)
            call.resource, call.result = _join_names(topic_range.topic for topic_range in wanted), BEGUN
            scan = Scan(self._topics, self._names, wanted, columns, self._log, lossy=asked.lossy)
            batches: Iterator[pa.RecordBatch]
            batches = download = self._downloads.open(scan.batches, context.peer())
            context.get_middleware("calls").on_end(download.close)
            if self._requests is not None:
                batches = _log_end(batches, self._requests, call.resource)
            return flight.GeneratorStream(select_schema(columns), batches)

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        with self._call("do_put") as call:
            command = codec.read(descriptor.command or b"", codec.UploadCommand, "command")
            call.resource = command.topic or ""
            if self._requests is not None:
                self._requests.write("do_put", call.resource, BEGUN)
            upload = Upload(self._topics, self._publisher, self._names, self.staging, self._limits, command)
            try:
                with self._uploads.slot(context.peer()) as slot:
                    upload.run(reader, writer, slot.heard)
            finally:
                call.counts = {"batches": upload.batches, "rows": upload.rows}

    def do_action(self, context: Any, action: flight.Action) -> list[flight.Result]:
        with self._call(action.type[:40]) as call:
            body = action.body.to_pybytes() if action.body is not None else b""
            call.resource = _resource_of(body) if self._requests is not None else ""
            return [flight.Result(self._actions.answer(action.type, body))]

    def list_actions(self, context: Any) -> list[flight.ActionType]:
        return [flight.ActionType(name, action.help) for name, action in codec.ACTIONS.items()]

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        with self._call("list_flights"):
            yield from map(_info, self._topics.bounds(None))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        with self._call("get_flight_info") as call:
            topic = self._find_topic(descriptor)
            call.resource = topic.name
            return _info(topic)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with self._call("get_schema") as call:
            call.resource = self._find_topic(descriptor).name
            return flight.SchemaResult(SCHEMA)

    def _find_topic(self, descriptor: flight.FlightDescriptor) -> TopicBounds:
        path = descriptor.path
        if not path or len(path) != 1:
            raise InvalidArgumentError("A flight is named by a path of one part, the topic")
        try:
            return self._topics.topic(self._names.topic(path[0].decode()))
        except UnicodeDecodeError:
            raise InvalidArgumentError("Text must be valid UTF-8") from None


def _log_end(scan: Iterator[pa.RecordBatch], requests: RequestLog, resource: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a scan, then write a line with the number of rows."""
    since, rows, result = requests.clock(), 0, "ok"
    try:
        for batch in scan:
            rows += batch.num_rows
            yield batch
    except BaseException as error:
        result = code_of(error)
        raise
    finally:
        requests.write("do_get", resource, result, since, rows=rows)


def _join_names(names: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(names))


def _resource_of(body: bytes) -> str:
    """Return the resource that an action names, or an empty text."""
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    names = next((asked[key] for key in _NAMING if asked.get(key)), "") if isinstance(asked, dict) else ""
    return names if isinstance(names, str) else _join_names(map(str, names))


def _columns(names: list[str] | None) -> list[str] | None:
    if names is None:
        return None
    unknown = [name for name in names if name not in SCHEMA.names]
    if unknown or not names:
        raise InvalidArgumentError(f"There is no column {', '.join(unknown)}; there are {', '.join(SCHEMA.names)}")
    return names


def _info(topic: TopicBounds) -> flight.FlightInfo:
    ticket = codec.write({"topic": topic.name, "first": topic.head, "until": topic.tail})
    return flight.FlightInfo(
        SCHEMA,
        flight.FlightDescriptor.for_path(topic.name),
        [flight.FlightEndpoint(ticket, [])],
        topic.tail - topic.head,
        topic.position - topic.head_position,
    )
