"""Reading a batch: ranges of topics, cut into partitions by the broker, each read by one task.

The rule kept here: a partition is a range of offsets and nothing else, so a task can be run again, or twice at the same
time, and reads the same rows. No row is touched in Python: batches go to Spark as they come off the wire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_penstock.broker import Broker, lost
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.positions import Bound, bounds, check_kept, ending, starting

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("pyspark_penstock")


class RangePartition(InputPartition):
    """A range of one topic, and where to get it."""

    def __init__(self, endpoint: str, topic: str, first: int, until: int) -> None:
        super().__init__(None)
        self.endpoint = endpoint
        self.topic = topic
        self.first = first
        self.until = until


class PenstockReader(DataSourceReader):
    """`spark.read.format("penstock")`."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self.options = options
        self.columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        broker = Broker(self.options.access)
        known = bounds(broker, self.options)
        first = starting(broker, self.options, known, "earliest")
        until = ending(broker, self.options, known)
        self._check(first, until, known)
        ranges = {
            name: (min(max(offset, known[name].head), known[name].tail), until[name]) for name, offset in first.items()
        }
        return split(broker, self.options, ranges)

    def _check(self, first: Mapping[str, int], until: Mapping[str, int], known: Mapping[str, Bound]) -> None:
        if self.options.fail_on_loss:
            check_kept(first, known)
        for name, end in until.items():
            if end > known[name].tail:
                raise PenstockError(f"endingOffsets asks for offset {end} of {name}, which ends at {known[name].tail}")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self.options, self.columns, partition)


def split(broker: Broker, options: Options, ranges: Mapping[str, tuple[int, int]]) -> list[InputPartition]:
    """The partitions of these ranges, in one question; none if there is nothing to read."""
    full = [{"topic": name, "first": a, "until": b} for name, (a, b) in sorted(ranges.items()) if a < b]
    if not full:
        return []
    parts = broker.ask(
        "split",
        ranges=full,
        bytes=options.bytes_per_partition,
        rows=options.rows_per_partition,
        parts=options.min_partitions or 1,
    )["parts"]
    for topic, wanted, earliest in _gone(broker, full, parts):
        if options.fail_on_loss:
            raise DataLossError(lost(topic, wanted, earliest), topic=topic, wanted=wanted)
        _warn(topic, wanted, earliest)
    return [RangePartition(options.endpoint, part["topic"], part["first"], part["until"]) for part in parts]


def _gone(broker: Broker, ranges: list[dict[str, Any]], parts: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """The broker leaves out what it has no longer: the ranges not all there, as topic, wanted and earliest offset."""
    rows: dict[str, int] = {}
    for part in parts:
        rows[part["topic"]] = rows.get(part["topic"], 0) + part["until"] - part["first"]
    cut = {
        each["topic"]: each["first"] for each in ranges if rows.get(each["topic"], 0) < each["until"] - each["first"]
    }
    if not cut:
        return []
    heads = broker.ask("bounds", topics=list(cut))["topics"]
    return [(topic, first, heads[topic]["head"]) for topic, first in cut.items()]


def _warn(topic: str, wanted: int, earliest: int) -> None:
    log.warning("penstock: messages %d to %d of %s were removed before they were read", wanted, earliest - 1, topic)


def read(options: Options, columns: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition; Spark makes an empty one when there is nothing to read."""
    if not isinstance(partition, RangePartition):
        return
    lossy = not options.fail_on_loss
    # A read that may jump over lost messages shows where it is by their offsets.
    fetched = tuple(columns) if not lossy or "offset" in columns else (*columns, "offset")
    at = partition.first
    broker = Broker(replace(options.access, endpoint=partition.endpoint))
    for batch in broker.read(partition.topic, partition.first, partition.until, fetched, lossy):
        if lossy:
            at = _warn_of_gap(partition.topic, at, batch)
        yield batch if batch.schema.names == list(columns) else batch.select(list(columns))


def _warn_of_gap(topic: str, expected: int, batch: pa.RecordBatch) -> int:
    found = int(batch.column("offset")[0].as_py())
    if found > expected:
        _warn(topic, expected, found)
    return found + int(batch.num_rows)
