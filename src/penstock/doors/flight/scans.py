"""Scans: ranges of topics as record batches, read from the store piece by piece."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock.doors.flight import codec, ranges
from penstock.doors.flight.columns import COUNTED, counted_batches, join_small, record_batches
from penstock.doors.flight.downloads import Place
from penstock.doors.flight.errors import OutOfRangeError, flight_errors
from penstock.doors.flight.ipc import TopicBounds
from penstock.doors.flight.topic_log import TopicLog


class Span(NamedTuple):
    """A range of an existing topic."""

    topic: TopicBounds
    first: int
    until: int


class Scan:
    def __init__(
        self,
        log: TopicLog,
        names: codec.Names,
        wanted: Sequence[codec.Range],
        columns: list[str] | None,
        logger: logging.Logger,
        *,
        lossy: bool,
    ) -> None:
        self._log = log
        self._columns = columns
        self._logger = logger
        self._lossy = lossy
        self._spans = list(self._find(names, wanted))

    def batches(self, place: Place, batch_bytes: Callable[[], int]) -> Iterator[tuple[pa.RecordBatch, Place]]:
        """Return the batches from a place on, each with the place of the next batch."""
        pieces = self._pieces(place, batch_bytes)
        return pieces if len(self._spans) == 1 else join_small(pieces, batch_bytes)

    def _find(self, names: codec.Names, wanted: Sequence[codec.Range]) -> Iterator[Span]:
        full = [names.topic(part.topic) for part in wanted]
        known = self._log.bounds(list(dict.fromkeys(full)), missing_ok=self._lossy)
        topics = {topic.name: topic for topic in known}
        for name, part in zip(full, wanted, strict=True):
            if name not in topics:
                continue
            topic = topics[name]
            if part.identity in ("", topic.identity):
                yield Span(topic, *ranges.check_range(topic, part.first, part.until, lossy=self._lossy))
            elif not self._lossy:
                raise OutOfRangeError(name, part.first)

    def _pieces(self, place: Place, batch_bytes: Callable[[], int]) -> Iterator[tuple[pa.RecordBatch, Place]]:
        with flight_errors(self._logger, "a scan"):
            for index in range(place.range, len(self._spans)):
                span = self._spans[index]
                if index == place.range and place.offset is not None:
                    span = span._replace(first=place.offset)
                for batch, offset in self._span(span, batch_bytes):
                    yield batch, Place(index, offset)

    def _span(self, span: Span, batch_bytes: Callable[[], int]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Return the batches of a span, each with the offset after it."""
        topic, first, until = span
        if self._columns is not None and COUNTED.issuperset(self._columns):
            for batch in counted_batches(topic.name, topic.first_id, first, until, self._columns, batch_bytes):
                first += batch.num_rows
                yield batch, first
            return
        while first < until:
            try:
                stored = self._log.stored(topic, first, until)
                for batch in record_batches(
                    topic.name, topic.first_id, stored, first, until, self._columns, batch_bytes
                ):
                    first += batch.num_rows
                    yield batch, first
            except OutOfRangeError as error:
                if not self._lossy:
                    raise
                if error.earliest is None:  # another topic has the name now
                    return
                first = error.earliest
