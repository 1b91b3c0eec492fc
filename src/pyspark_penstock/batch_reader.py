"""The reader of a batch: the broker cuts topic ranges into partitions, and one task reads each partition.

A partition consists of offset ranges only, so a task that is retried or run twice reads the same rows. Python touches
no row: record batches go to Spark as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_penstock.client import Bound, BrokerClient, Span, loss_message, warn_removed
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.positions import Positions, backwards_message, check_available, replaced_message
from pyspark_penstock.schema import as_text

if TYPE_CHECKING:
    import pyarrow as pa

# Limits of a shared partition. A task costs Spark tens of milliseconds, in which a reader sends about this much.
SHARED_BYTES = 8 << 20
SHARED_ROWS = 200_000
SHARED_RANGES = 500


class RangePartition(InputPartition):
    """A partition: usually one topic range, or several small ones, and the broker's address."""

    def __init__(self, endpoint: str, *spans: Span) -> None:
        super().__init__(None)
        self.endpoint = endpoint
        self.spans = spans


class PenstockReader(DataSourceReader):
    """The reader of `spark.read.format("penstock")`."""

    def __init__(self, options: Options, columns: Sequence[str], *, text: bool = False) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.text = text  # True: the data column is a string

    def partitions(self) -> Sequence[InputPartition]:
        broker = BrokerClient(self.options.access)
        positions = Positions(broker, self.options)
        bounds = positions.bounds()
        if not bounds and self.options.pattern:
            raise PenstockError(positions.no_match())
        first, until = positions.starting(bounds, "earliest"), positions.ending(bounds)
        self._check(first, until, bounds)
        spans = [
            Span(name, min(max(first[name], bound.head), bound.tail), until[name], bound.identity)
            for name, bound in bounds.items()
        ]
        return split(broker, self.options, self._narrow(broker, spans))

    def _check(self, first: Mapping[str, int], until: Mapping[str, int], bounds: Mapping[str, Bound]) -> None:
        if self.options.fail_on_loss:
            check_available(first, bounds)
        for name, end in until.items():
            if end > bounds[name].tail:
                raise PenstockError(
                    f"endingOffsets has offset {end} of {name}, but the topic ends at {bounds[name].tail}"
                )
            if first[name] > end and self.options.fail_on_loss:
                raise PenstockError(backwards_message(name, first[name], end))

    def _narrow(self, broker: BrokerClient, spans: list[Span]) -> list[Span]:
        """Apply pushed-down filters to the ranges. This reader has none."""
        return spans

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = read(self.options, self.columns, partition)
        return map(as_text, rows) if self.text else rows


def split(broker: BrokerClient, options: Options, spans: Sequence[Span]) -> list[InputPartition]:
    """Cut the ranges into partitions, with one request to the broker. Empty ranges give no partition."""
    filled = [span for span in sorted(spans) if span.first < span.until]
    if not filled:
        return []
    answer = broker.ask(
        "split",
        ranges=[span._asdict() for span in filled],
        bytes=options.bytes_per_partition,
        rows=options.rows_per_partition,
        parts=options.min_partitions or 1,
    )
    positions = Positions(broker, options)
    for name in answer["gone"]:
        positions.report_gone(name)
    for name in answer["replaced"]:
        positions.report_loss(replaced_message(name), topic=name)
    remaining = [span for span in filled if span.topic not in {*answer["replaced"], *answer["gone"]}]
    for topic, wanted, earliest in _find_losses(broker, remaining, answer):
        if options.fail_on_loss:
            raise DataLossError(loss_message(topic, wanted, earliest), topic=topic, wanted=wanted)
        warn_removed(topic, wanted, earliest)
    identities = {span.topic: span.identity for span in filled}
    parts = [
        (Span(part["topic"], part["first"], part["until"], identities[part["topic"]]), part["bytes"])
        for part in answer["parts"]
    ]
    return [RangePartition(options.endpoint, *group) for group in group_parts(parts, options)]


def group_parts(parts: Sequence[tuple[Span, int]], options: Options) -> list[list[Span]]:
    """Group ranges, given with their sizes in bytes, into partitions. Small ranges share one, to save tasks."""
    groups: list[list[Span]] = []
    rows = size = 0
    spare = len(parts) - (options.min_partitions or 1)  # number of ranges that may join the previous partition
    rows_max = options.rows_per_partition or SHARED_ROWS
    for span, span_bytes in parts:
        rows, size = rows + span.until - span.first, size + span_bytes
        fits = rows <= rows_max and size <= min(options.bytes_per_partition, SHARED_BYTES)
        if groups and spare > 0 and fits and len(groups[-1]) < SHARED_RANGES:
            last = groups[-1][-1]
            if last.topic == span.topic and last.until == span.first:  # a partition has one range per topic
                groups[-1][-1] = last._replace(until=span.until)
            else:
                groups[-1].append(span)
            spare -= 1
        else:
            groups.append([span])
            rows, size = span.until - span.first, span_bytes
    return groups


def _find_losses(broker: BrokerClient, spans: Sequence[Span], answer: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return the ranges with removed messages, which the broker left out, as topic, wanted and earliest offset."""
    rows: dict[str, int] = {}
    for part in answer["parts"]:
        rows[part["topic"]] = rows.get(part["topic"], 0) + part["until"] - part["first"]
    cut = {span.topic: span.first for span in spans if rows.get(span.topic, 0) < span.until - span.first}
    if not cut:
        return []
    bounds = broker.bounds(topics=list(cut))
    return [(topic, first, bounds[topic].head) for topic, first in cut.items()]


def read(options: Options, columns: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):  # Spark's own empty partition, when there is nothing to read
        return
    lossy = not options.fail_on_loss
    # A lossy read tracks its progress by topic and offset.
    fetched = (*columns, *(name for name in ("topic", "offset") if lossy and name not in columns))
    broker = BrokerClient(replace(options.access, endpoint=partition.endpoint))
    for batch in broker.read(partition.spans, fetched, lossy):
        yield batch if batch.schema.names == list(columns) else batch.select(list(columns))
