"""The messages of a topic over the admin API: read without being consumed, and published."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from penstock.broker.facts import Published, TopicDeleted
from penstock.broker.limits import ATTRIBUTES_MAX
from penstock.broker.model import Draft
from penstock.broker.model import Message as StoredMessage
from penstock.broker.names import MAX_OFFSET
from penstock.doors.http.admin.calls import NDJSON_TYPE, Call, Project, route
from penstock.doors.http.admin.instants import parse_instant
from penstock.doors.http.admin.matching import Wanted, predicate_of
from penstock.doors.http.admin.message_records import (
    CHUNK_MESSAGES,
    BodyBytes,
    BodyQuery,
    Decode,
    Message,
    make_records,
    records_of,
)
from penstock.doors.http.admin.topics import topic_of
from penstock.doors.http.errors import error_body, status_of
from penstock.engine.port import Once, TopicMetadata
from penstock.errors import InvalidArgumentError, NotFoundError, PenstockError
from penstock.services.reading import Predicate, Range, blocks, filter_messages
from penstock.wire.http1 import Response

MESSAGES = 100
MESSAGES_MAX = 1000
SCAN_MESSAGES_MAX = 100_000  # looked at in one call
SCAN_SECONDS_MAX = 1.0
ANSWER_BYTES_MAX = 8 << 20  # of messages in one answer; never less than one message
PART_MESSAGES = 100  # of a stream, sent at once; all are of one block, which bounds their bytes
PROGRESS_SECONDS = 1.0
_FRESH = ("Cache-Control", "no-store")

Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
Start = Annotated[
    int, msgspec.Meta(ge=-MAX_OFFSET, le=MAX_OFFSET, description="First offset. -100: 100 messages before the end.")
]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=365 * 86400)]


class RangeQuery(Wanted, forbid_unknown_fields=True):
    project: str = ""
    start: Start | None = msgspec.field(default=None, name="from")
    until: Annotated[Offset, msgspec.Meta(description="The offset to stop before.")] | None = None
    at: Annotated[str, msgspec.Meta(description="Published at or after this instant. -10m: ten minutes ago.")] = ""
    until_time: Annotated[str, msgspec.Meta(description="Published before this instant.")] = ""
    order: Literal["asc", "desc"] = "asc"
    decode: Decode = False
    body_bytes: BodyBytes = 0


class PageQuery(RangeQuery, forbid_unknown_fields=True):
    max: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = MESSAGES


class StreamQuery(RangeQuery, forbid_unknown_fields=True):
    max: Annotated[
        int, msgspec.Meta(ge=0, le=MAX_OFFSET, description="Maximum number of messages. 0 means no limit.")
    ] = 0
    follow: Annotated[bool, msgspec.Meta(description="Keep the stream open for new messages.")] = False


class MessagePage(msgspec.Struct):
    """Messages of a topic. `next_offset` is `from` of the next page, or `until` if the order is desc."""

    messages: list[Message]
    next_offset: int
    scanned: int
    complete: bool


class Progress(msgspec.Struct):
    next_offset: int
    scanned: int
    found: int


class StreamLine(msgspec.Struct, omit_defaults=True):
    """A line of a stream is a message, the progress so far, or the error that ended the stream."""

    progress: Progress | None = None


class NewMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message to publish. `data` is text. Other bytes go into `data_base64`."""

    data: str | None = None
    data_base64: str | None = None
    attributes: dict[str, str] = {}
    ordering_key: str = ""
    delay_seconds: Seconds = 0
    ttl_seconds: Seconds = 0


class PublishOnce(msgspec.Struct, forbid_unknown_fields=True):
    """A publish-once key: publishes with the same key are stored once."""

    producer: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    epoch: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    sequence: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Publish(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[NewMessage], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]
    once: PublishOnce | None = None
    exported: Annotated[
        bool,
        msgspec.Meta(
            description="The messages come from an export and may have more attributes than a client may set."
        ),
    ] = False


class Publication(msgspec.Struct):
    ids: list[str]
    first_offset: int


# ---------------------------------------------------------------------- reading


async def read_messages(call: Call[PageQuery, None]) -> MessagePage:
    query, topic, test = call.query, await topic_of(call), predicate_of(call.query)
    span, descending = await _span(call, topic), query.order == "desc"
    near = span
    if test is None:
        far = max(span.first, span.until - query.max), min(span.until, span.first + query.max)
        near = Range(far[0], span.until) if descending else Range(span.first, far[1])
    clock = asyncio.get_running_loop().time
    page, ends_at = _Page(query.max, query.body_bytes), clock() + SCAN_SECONDS_MAX
    offset = span.until if descending else span.first
    share = call.context.listing
    async for block in blocks(call.queue, topic, near, share, descending=descending):
        offset = block.rest.until if descending else block.rest.first
        for message in await filter_messages(block.messages, test, share):
            if not page.add(message):
                offset = message.offset + descending
                break
        scanned = span.until - offset if descending else offset - span.first
        if page.full or scanned >= SCAN_MESSAGES_MAX or clock() >= ends_at:
            break
    scanned = span.until - offset if descending else offset - span.first
    records = await records_of(call.context, topic, page.messages, query)
    return MessagePage(records, offset, scanned, scanned >= span.until - span.first)


class _Page:
    """The messages of one answer, within its limits."""

    def __init__(self, most: int, body_bytes: int) -> None:
        self.messages: list[StoredMessage] = []
        self.full = False
        self._most, self._body_bytes, self._bytes = most, body_bytes, 0

    def add(self, message: StoredMessage) -> bool:
        """Add a message. Return False if there is no room for it."""
        left_out = max(0, len(message.data) - self._body_bytes) if self._body_bytes else 0
        self._bytes += message.size - left_out
        if len(self.messages) == self._most or (self.messages and self._bytes > ANSWER_BYTES_MAX):
            self.full = True
            return False
        self.messages.append(message)
        self.full = len(self.messages) == self._most
        return True


async def read_message(call: Call[BodyQuery, None]) -> Message:
    topic = await topic_of(call)
    text = call.path["offset"]
    if not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise InvalidArgumentError("The offset must be a whole number")
    offset = int(text)
    messages = await call.queue.read(topic.name, offset, offset + 1)
    if not messages or messages[0].offset != offset:
        kept = f"it keeps {topic.head} to {topic.tail - 1}" if topic.head < topic.tail else "it keeps none"
        raise NotFoundError(f"No message at offset {offset} of {topic.name}: {kept}")
    return (await records_of(call.context, topic, messages, call.query))[0]


async def _span(call: Call[Any, None], topic: TopicMetadata) -> Range:
    """Return the range of a query, limited to the offsets that the topic keeps."""
    query: RangeQuery = call.query
    first, until = topic.head, topic.tail
    for one, other in (("from", "at"), ("until", "until_time")):
        if getattr(query, "start" if one == "from" else one) is not None and getattr(query, other):
            raise InvalidArgumentError(f"{one} and {other} exclude each other")
    if query.start is not None:
        first = query.start if query.start >= 0 else topic.tail + query.start
    elif query.at:
        first = await _offset_at(call, topic, query.at, "at")
    if query.until is not None:
        until = query.until
    elif query.until_time:
        until = await _offset_at(call, topic, query.until_time, "until_time")
    first, until = max(first, topic.head), min(until, topic.tail)
    return Range(min(first, topic.tail), max(min(first, topic.tail), until))


async def _offset_at(call: Call[Any, Any], topic: TopicMetadata, text: str, name: str) -> int:
    return await call.queue.first_offset_at(
        topic.name, parse_instant(text, name, call.queue.clock_of(topic.name).now())
    )


# ---------------------------------------------------------------------- streams


async def stream_messages(call: Call[StreamQuery, None]) -> Response:
    query, topic, test = call.query, await topic_of(call), predicate_of(call.query)
    if query.follow and (query.order == "desc" or query.until is not None or query.until_time):
        raise InvalidArgumentError("follow has no end: leave out until, until_time and order=desc")
    span = await _span(call, topic)
    if query.follow and query.start is None and not query.at:
        span = Range(topic.tail, topic.tail)
    return Response(200, (("Content-Type", NDJSON_TYPE), _FRESH), parts=_Stream(call, topic, test).parts(span))


class _Stream:
    def __init__(self, call: Call[StreamQuery, None], topic: TopicMetadata, test: Predicate | None) -> None:
        self._queue, self._query, self._topic, self._test = call.queue, call.query, topic, test
        self._context = call.context
        self._encoder = msgspec.json.Encoder()
        self._clock = asyncio.get_running_loop().time
        self._told_at = self._clock()
        self._place = self._scanned = self._found = 0
        self._news = asyncio.Event()

    async def parts(self, span: Range) -> AsyncGenerator[bytes, None]:
        self._place = span.until if self._query.order == "desc" else span.first
        listener = self._queue.on([Published, TopicDeleted], self._on_fact) if self._query.follow else None
        try:
            yield self._progress()  # so that the client gets the head of the answer at once
            async for part in self._read(span):
                yield part
            while self._query.follow and not self._is_done():
                async for part in self._wait():
                    yield part
            yield self._progress()
        except PenstockError as error:
            yield error_body(status_of(error), error.message) + b"\n"
        finally:
            if listener is not None:
                self._queue.off(listener)

    def _on_fact(self, fact: Published | TopicDeleted) -> None:
        if fact.topic == self._topic.number:
            self._news.set()

    async def _wait(self) -> AsyncGenerator[bytes, None]:
        """Yield new messages as soon as there are any, or the progress once a second."""
        self._news.clear()
        topic = await self._queue.find_topic(self._topic.number)
        if topic is None:
            raise NotFoundError(f"Topic not found: {self._topic.name}")
        if topic.tail > self._place:
            async for part in self._read(Range(self._place, topic.tail)):
                yield part
            return
        try:
            await asyncio.wait_for(self._news.wait(), max(0.0, self._told_at + PROGRESS_SECONDS - self._clock()))
        except TimeoutError:
            yield self._progress()

    async def _read(self, span: Range) -> AsyncGenerator[bytes, None]:
        descending = self._query.order == "desc"
        share = self._context.reading
        async for block in blocks(self._queue, self._topic, span, share, descending=descending):
            matches = await filter_messages(block.messages, self._test, share)
            left = max(0, self._query.max - self._found) if self._query.max else len(matches)
            for first in range(0, min(left, len(matches)), PART_MESSAGES):
                part = matches[first : min(left, first + PART_MESSAGES)]
                self._found += len(part)
                yield b"".join(await share.map_chunks(self._encode, part, CHUNK_MESSAGES))
            self._place = block.rest.until if descending else block.rest.first
            if len(matches) > left:  # the first message that was not sent
                self._place = matches[left].offset + descending
            seen = [message for message in block.messages if (message.offset >= self._place) == descending]
            self._scanned += len(seen)
            if self._clock() - self._told_at >= PROGRESS_SECONDS:
                yield self._progress()
            if self._is_done():
                return

    async def _encode(self, messages: Sequence[StoredMessage]) -> list[bytes]:
        records = await make_records(self._context, self._topic, messages, self._query)
        return [self._encoder.encode(record) + b"\n" for record in records]

    def _is_done(self) -> bool:
        return 0 < self._query.max <= self._found

    def _progress(self) -> bytes:
        self._told_at = self._clock()
        progress = Progress(self._place, self._scanned, self._found)
        return self._encoder.encode(StreamLine(progress)) + b"\n"


# ---------------------------------------------------------------------- publishing


async def publish(call: Call[Project, Publish]) -> Publication:
    if not call.body.exported:
        _check_attributes(call.body.messages)
    drafts = [_draft(message, index) for index, message in enumerate(call.body.messages)]
    once = call.body.once
    key = Once(once.producer, once.epoch, once.sequence) if once is not None else None
    name, decoder = call.topic(), call.context.decoder
    topic = await call.queue.find_topic(name) if decoder is not None else None
    if decoder is not None and topic is not None and topic.options.extras:
        drafts = await decoder.validate(topic, drafts)
    appended = await call.queue.publish(name, drafts, key)
    return Publication(appended.message_ids(), appended.first)


def _check_attributes(messages: Sequence[NewMessage]) -> None:
    """Check the number of attributes; their lengths are a limit of the broker."""
    for index, message in enumerate(messages):
        if len(message.attributes) > ATTRIBUTES_MAX:
            raise InvalidArgumentError(f"messages[{index}] may have at most {ATTRIBUTES_MAX} attributes")


def _draft(message: NewMessage, place: int) -> Draft:
    if (message.data is None) == (message.data_base64 is None):
        raise InvalidArgumentError(f"messages[{place}] must have data or data_base64, and not both")
    if message.data is not None:
        data = message.data.encode()
    else:
        try:
            data = base64.b64decode(message.data_base64 or "", validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArgumentError(f"messages[{place}].data_base64 is not Base64") from None
    return Draft(data, message.attributes, message.ordering_key, message.delay_seconds, message.ttl_seconds)


ROUTES = (
    route("GET", "/topics/{topic}/messages", read_messages, "Read messages of a topic without consuming them."),
    route("POST", "/topics/{topic}/messages", publish, "Publish messages: all of them or none."),
    route("GET", "/topics/{topic}/messages/{offset}", read_message, "Read a message of a topic."),
    route(
        "GET",
        "/topics/{topic}/stream",
        stream_messages,
        "Stream messages of a topic as JSON lines.",
        answer=(Message, StreamLine),
        media=NDJSON_TYPE,
    ),
)
