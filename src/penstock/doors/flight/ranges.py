"""Ranges of topics: limits on what a reader takes at a time, and splits into parts.

Both use stored bytes. Positions in the log give the bytes of a range without reading its messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.doors.flight.errors import OutOfRangeError
from penstock.doors.flight.ipc import TopicBounds
from penstock.doors.flight.topic_log import TopicLog
from penstock.errors import InvalidArgumentError

PARTS_MAX = 10_000


class TooManyPartsError(InvalidArgumentError):
    """The ranges have more than 10,000 parts; ask for larger ones"""


class Span(NamedTuple):
    """A range of one topic, in offsets and in bytes."""

    topic: TopicBounds
    first: int
    until: int
    start: int
    end: int

    @property
    def rows(self) -> int:
        return self.until - self.first

    @property
    def bytes(self) -> int:
        return self.end - self.start


def span(log: TopicLog, topic: TopicBounds, first: int, until: int) -> Span:
    return Span(topic, first, until, log.position(topic, first), log.position(topic, until))


def limit(log: TopicLog, spans: Sequence[Span], rows: int | None, size: int | None) -> dict[str, int]:
    """Return where each range ends so that all together are within the limits.

    If there are messages, the ranges have at least one.
    """
    until = {span.topic.name: span.until for span in spans}
    total_rows, total_bytes = sum(span.rows for span in spans), sum(span.bytes for span in spans)
    if rows is not None and rows < total_rows:
        shares = apportion(max(rows, 1), [span.rows for span in spans])
        until |= {span.topic.name: span.first + share for span, share in zip(spans, shares, strict=True)}
    if size is not None and size < total_bytes:
        for span in spans:
            share = span.start + size * span.bytes // total_bytes
            # The last offset with at most the share before it.
            end = log.offset(span.topic, share + 1, span.first, span.until)
            end = end if log.position(span.topic, end) <= share else end - 1
            until[span.topic.name] = min(until[span.topic.name], max(end, span.first))
    if total_rows and all(until[span.topic.name] == span.first for span in spans):
        longest = max(spans, key=lambda span: span.rows)
        until[longest.topic.name] = longest.first + 1
    return until


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Share an amount in proportion to weights, in whole numbers. The amount is at most the sum of the weights."""
    total = sum(weights)
    shares = [amount * weight // total for weight in weights]
    rests = sorted(range(len(weights)), key=lambda index: (-(amount * weights[index] % total), index))
    for index in rests[: amount - sum(shares)]:
        shares[index] += 1
    return shares


def backlog(log: TopicLog, topic: TopicBounds, first: int, until: int | None) -> Span:
    """Return the range that a reader has not read yet. It begins at the head if that is beyond `first`."""
    if first > topic.tail:
        raise InvalidArgumentError(f"Topic {topic.name} ends at offset {topic.tail}; it has no offset {first} yet")
    end = topic.tail if until is None else min(until, topic.tail)
    start = min(max(first, topic.head), topic.tail)
    return span(log, topic, start, max(start, end))


def split(log: TopicLog, spans: Sequence[Span], size: int, rows: int | None, parts: int) -> list[Span]:
    """Split ranges into at least `parts` parts of about `size` bytes and at most `rows` rows."""
    total = sum(span.bytes for span in spans)
    target = max(1, min(size, -(-total // max(parts, 1))))
    found: list[Span] = []
    if sum(-(-span.bytes // target) for span in spans) > PARTS_MAX + len(spans):
        raise TooManyPartsError
    for span in spans:
        for part in _by_bytes(log, span, target):
            found += _by_rows(log, part, rows)
            if len(found) > PARTS_MAX:
                raise TooManyPartsError
    return _at_least(log, found, min(parts, PARTS_MAX))


def _by_bytes(log: TopicLog, whole: Span, target: int) -> Iterator[Span]:
    count = max(1, -(-whole.bytes // target))
    first, start = whole.first, whole.start
    for number in range(1, count + 1):
        until = whole.until
        if number < count:
            until = log.offset(whole.topic, whole.start + whole.bytes * number // count, first, whole.until)
        if until > first:
            end = whole.end if until == whole.until else log.position(whole.topic, until)
            yield Span(whole.topic, first, until, start, end)
            first, start = until, end


def _by_rows(log: TopicLog, part: Span, rows: int | None) -> list[Span]:
    count = 1 if rows is None else max(1, -(-part.rows // max(rows, 1)))
    if count > PARTS_MAX:
        raise TooManyPartsError
    edges = [part.first + part.rows * number // count for number in range(count + 1)]
    return [span(log, part.topic, first, until) for first, until in pairwise(edges)]


def _at_least(log: TopicLog, found: list[Span], parts: int) -> list[Span]:
    """Halve the longest parts until there are enough parts, or each part is a single message."""
    while len(found) < parts and found:
        index = max(range(len(found)), key=lambda position: found[position].rows)
        if found[index].rows < 2:
            break
        found[index : index + 1] = _by_rows(log, found[index], -(-found[index].rows // 2))
    return found


def check_range(topic: TopicBounds, first: int, until: int, *, lossy: bool = False) -> tuple[int, int]:
    """Check that a range can be read, and return it. A lossy range begins at the head if that is later."""
    if not 0 <= first <= until:
        raise InvalidArgumentError(f"A range goes from 0 or more upwards, not from {first} to {until}")
    if until > topic.tail:
        raise InvalidArgumentError(f"Topic {topic.name} ends at offset {topic.tail}; it cannot be read until {until}")
    if first < topic.head and first < until:
        if not lossy:
            raise OutOfRangeError(topic.name, first, topic.head)
        first = min(topic.head, until)
    return first, until
