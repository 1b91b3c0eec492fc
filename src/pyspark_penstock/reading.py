"""Reading a batch: ranges of topics, cut into partitions by the broker, each read by one task.

A partition is ranges of offsets and nothing else, so a task that runs again, or twice at the same time, reads the same
rows. No row is touched in Python: batches go to Spark as they come off the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_penstock.client import Bound, BrokerClient, Span, lost, warn_removed
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.positions import Positions, backwards, check_kept, replaced

if TYPE_CHECKING:
    import pyarrow as pa

# A task takes Spark tens of milliseconds, in which a reader sends about as much.
SHARED_BYTES = 8 << 20
SHARED_ROWS = 200_000
SHARED_RANGES = 500


class RangePartition(InputPartition):
    """Ranges of topics, and where to get them: most often one, several where they are small."""

    def __init__(self, endpoint: str, *spans: Span) -> None:
        super().__init__(None)
        self.endpoint = endpoint
        self.spans = spans


class PenstockReader(DataSourceReader):
    """`spark.read.format("penstock")`."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self.options = options
        self.columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        broker = BrokerClient(self.options.access)
        positions = Positions(broker, self.options)
        known = positions.bounds()
        if not known and self.options.pattern:
            raise PenstockError(positions.no_match())
        first, until = positions.starting(known, "earliest"), positions.ending(known)
        self._check(first, until, known)
        spans = [
            Span(name, min(max(first[name], bound.head), bound.tail), until[name], bound.identity)
            for name, bound in known.items()
        ]
        return split(broker, self.options, self._narrowed(broker, spans))

    def _check(self, first: Mapping[str, int], until: Mapping[str, int], known: Mapping[str, Bound]) -> None:
        if self.options.fail_on_loss:
            check_kept(first, known)
        for name, end in until.items():
            if end > known[name].tail:
                raise PenstockError(f"endingOffsets asks for offset {end} of {name}, which ends at {known[name].tail}")
            if first[name] > end and self.options.fail_on_loss:
                raise PenstockError(backwards(name, first[name], end))

    def _narrowed(self, broker: BrokerClient, spans: list[Span]) -> list[Span]:
        """What is left of the ranges when filters are applied to them; there are none here."""
        return spans

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self.options, self.columns, partition)


def split(broker: BrokerClient, options: Options, spans: Sequence[Span]) -> list[InputPartition]:
    """The partitions of these ranges, in one question; none if there is nothing to read."""
    full = [span for span in sorted(spans) if span.first < span.until]
    if not full:
        return []
    answer = broker.ask(
        "split",
        ranges=[span._asdict() for span in full],
        bytes=options.bytes_per_partition,
        rows=options.rows_per_partition,
        parts=options.min_partitions or 1,
    )
    positions = Positions(broker, options)
    for name in answer["gone"]:
        positions.report_gone(name)
    for name in answer["replaced"]:
        positions.report_loss(replaced(name), topic=name)
    known = [span for span in full if span.topic not in {*answer["replaced"], *answer["gone"]}]
    for topic, wanted, earliest in _cut_off(broker, known, answer):
        if options.fail_on_loss:
            raise DataLossError(lost(topic, wanted, earliest), topic=topic, wanted=wanted)
        warn_removed(topic, wanted, earliest)
    identities = {span.topic: span.identity for span in full}
    parts = [
        (Span(part["topic"], part["first"], part["until"], identities[part["topic"]]), part["bytes"])
        for part in answer["parts"]
    ]
    return [RangePartition(options.endpoint, *group) for group in shared(parts, options)]


def shared(parts: Sequence[tuple[Span, int]], options: Options) -> list[list[Span]]:
    """Ranges and their bytes by partition: small ones share one, as a task costs more than they do."""
    groups: list[list[Span]] = []
    rows = size = 0
    spare = len(parts) - (options.min_partitions or 1)  # how many may go with the one before
    rows_max = options.rows_per_partition or SHARED_ROWS
    for span, span_bytes in parts:
        rows, size = rows + span.until - span.first, size + span_bytes
        fits = rows <= rows_max and size <= min(options.bytes_per_partition, SHARED_BYTES)
        if groups and spare > 0 and fits and len(groups[-1]) < SHARED_RANGES:
            last = groups[-1][-1]
            if last.topic == span.topic and last.until == span.first:  # a topic is in a partition once
                groups[-1][-1] = last._replace(until=span.until)
            else:
                groups[-1].append(span)
            spare -= 1
        else:
            groups.append([span])
            rows, size = span.until - span.first, span_bytes
    return groups


def _cut_off(broker: BrokerClient, spans: Sequence[Span], answer: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """The broker leaves out what it has no longer: the ranges not all there, as topic, wanted and earliest offset."""
    rows: dict[str, int] = {}
    for part in answer["parts"]:
        rows[part["topic"]] = rows.get(part["topic"], 0) + part["until"] - part["first"]
    cut = {span.topic: span.first for span in spans if rows.get(span.topic, 0) < span.until - span.first}
    if not cut:
        return []
    known = broker.bounds(topics=list(cut))
    return [(topic, first, known[topic].head) for topic, first in cut.items()]


def read(options: Options, columns: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition; Spark makes an empty one when there is nothing to read."""
    if not isinstance(partition, RangePartition):
        return
    lossy = not options.fail_on_loss
    # A lossy read follows its progress by topics and offsets.
    fetched = (*columns, *(name for name in ("topic", "offset") if lossy and name not in columns))
    broker = BrokerClient(replace(options.access, endpoint=partition.endpoint))
    for batch in broker.read(partition.spans, fetched, lossy):
        yield batch if batch.schema.names == list(columns) else batch.select(list(columns))
