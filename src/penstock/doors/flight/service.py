"""The Flight service of the reader process.

A scan streams: in memory are the record batch being written and the few stored batches it is made of.
"""

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

from penstock.doors.flight import codec, ranges
from penstock.doors.flight.actions import Actions
from penstock.doors.flight.columns import COUNTED, SCHEMA, chosen_schema, counted_batches, gathered, record_batches
from penstock.doors.flight.errors import OutOfRangeError, code_of, describe, flight_error, flight_errors
from penstock.doors.flight.ipc import Hello, TopicBounds
from penstock.doors.flight.link import ReaderEnd
from penstock.doors.flight.publisher import Publisher
from penstock.doors.flight.staging import Staging
from penstock.doors.flight.topic_log import TopicLog
from penstock.doors.flight.uploads import Upload
from penstock.errors import InvalidArgumentError, PermissionDeniedError, UnavailableError
from penstock.journal.port import LogReader
from penstock.wire.requestlog import BEGUN, RequestLog
from penstock.wire.trust import BearerTokens

_NAMING = ("topic", "topics", "name", "query", "times", "pattern")  # fields of actions that say what they are about
UPLOADS_MAX = 256  # at a time; each holds a batch or two of its client


@dataclass(slots=True)
class Call:
    """What the request log tells of a call."""

    resource: str = ""
    result: str = "ok"
    counts: dict[str, int] = field(default_factory=dict)


class Tokens(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # Flight ships no types
    """Refuses callers without a known bearer token."""

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
    """Counts calls from their beginning to the end of their streams, also of those that a client broke off."""

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

    def call_completed(self, exception: Exception | None) -> None:
        self._count(-1)


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
        self._uploads = threading.BoundedSemaphore(UPLOADS_MAX)
        middleware = {"calls": self._calls}
        if hello.tokens:
            middleware["tokens"] = Tokens(hello.tokens, log, requests)
        super().__init__(location, middleware=middleware, **options)

    def finish(self) -> None:
        """Refuse new calls, let those in progress end, and say goodbye.

        The goodbye of gRPC asks each client whether it has read everything, and hangs up once it has. With a stream
        still running the answer comes before its end, gRPC hangs up with the last piece just written, the next word
        of a slow client is met by a reset, and what was on its way to it is lost.
        """
        self._stopping = True
        self._calls.wait_for_the_last()
        self.shutdown()

    @contextmanager
    def _call(self, what: str) -> Iterator[Call]:
        """A call, from here to its answer or its error; a line in the request log, where there is one."""
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
            call.resource, call.result = _named(each.topic for each in wanted), BEGUN
            spans = self._spans(wanted, lossy=asked.lossy)
            scan = self._scan(spans, columns, lossy=asked.lossy)
            if self._requests is not None:
                scan = _logged(scan, self._requests, call.resource)
            return flight.GeneratorStream(chosen_schema(columns), scan if len(spans) == 1 else gathered(scan))

    def _spans(self, wanted: Sequence[codec.Range], *, lossy: bool) -> list[tuple[TopicBounds, int, int]]:
        """What there is to read, with the topics it is in."""
        names = [self._names.topic(each.topic) for each in wanted]
        known = self._topics.bounds(list(dict.fromkeys(names)), missing_ok=lossy)
        topics = {topic.name: topic for topic in known}
        found = []
        for name, each in zip(names, wanted, strict=True):
            if name not in topics:
                continue
            topic = topics[name]
            if each.identity in ("", topic.identity):
                found.append((topic, *ranges.checked(topic, each.first, each.until, lossy=lossy)))
            elif not lossy:
                raise OutOfRangeError(name, each.first)
        return found

    def _scan(
        self, spans: list[tuple[TopicBounds, int, int]], columns: list[str] | None, *, lossy: bool
    ) -> Iterator[pa.RecordBatch]:
        with flight_errors(self._log, "a scan"):
            for topic, first, until in spans:
                yield from self._scan_topic(topic, first, until, columns, lossy=lossy)

    def _scan_topic(
        self, topic: TopicBounds, first: int, until: int, columns: list[str] | None, *, lossy: bool
    ) -> Iterator[pa.RecordBatch]:
        if columns is not None and COUNTED.issuperset(columns):
            yield from counted_batches(topic.name, topic.first_id, first, until, columns)
            return
        while first < until:
            try:
                stored = self._topics.stored(topic, first, until)
                for batch in record_batches(topic.name, topic.first_id, stored, first, until, columns):
                    first += batch.num_rows
                    yield batch
            except OutOfRangeError as error:
                if not lossy:
                    raise
                if error.earliest is None:  # it is another topic by now
                    return
                first = error.earliest

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        with self._call("do_put") as call:
            command = codec.read(descriptor.command or b"", codec.UploadCommand, "command")
            call.resource = command.topic or ""
            if self._requests is not None:
                self._requests.write("do_put", call.resource, BEGUN)
            upload = Upload(self._topics, self._publisher, self._names, self.staging, self._limits, command)
            if not self._uploads.acquire(blocking=False):
                raise UnavailableError("The server is busy: try again later")
            try:
                upload.run(reader, writer)
            finally:
                self._uploads.release()
                call.counts = {"batches": upload.batches, "rows": upload.rows}

    def do_action(self, context: Any, action: flight.Action) -> list[flight.Result]:
        with self._call(action.type[:40]) as call:
            body = action.body.to_pybytes() if action.body is not None else b""
            call.resource = _named_in(body) if self._requests is not None else ""
            return [flight.Result(self._actions.answer(action.type, body))]

    def list_actions(self, context: Any) -> list[flight.ActionType]:
        return [flight.ActionType(name, action.help) for name, action in codec.ACTIONS.items()]

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        with self._call("list_flights"):
            yield from map(_info, self._topics.bounds(None))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        with self._call("get_flight_info") as call:
            topic = self._described(descriptor)
            call.resource = topic.name
            return _info(topic)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with self._call("get_schema") as call:
            call.resource = self._described(descriptor).name
            return flight.SchemaResult(SCHEMA)

    def _described(self, descriptor: flight.FlightDescriptor) -> TopicBounds:
        path = descriptor.path
        if not path or len(path) != 1:
            raise InvalidArgumentError("A flight is named by a path of one part, the topic")
        try:
            return self._topics.topic(self._names.topic(path[0].decode()))
        except UnicodeDecodeError:
            raise InvalidArgumentError("Text must be valid UTF-8") from None


def _logged(scan: Iterator[pa.RecordBatch], requests: RequestLog, resource: str) -> Iterator[pa.RecordBatch]:
    """The end of a scan has a line as well, with what was sent."""
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


def _named(topics: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(topics))


def _named_in(body: bytes) -> str:
    """What an action is about, as far as a line has room for it."""
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    names = next((asked[key] for key in _NAMING if asked.get(key)), "") if isinstance(asked, dict) else ""
    return names if isinstance(names, str) else _named(map(str, names))


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
