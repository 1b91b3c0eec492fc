"""Reading a stream: which offsets the next micro-batch ends at, and the partitions of a batch.

The rule kept here: Spark's checkpoint is the truth. Offsets are decided here and remembered there; the cursor on the
broker pins where a named query starts, holds retention and shows lag, and is not asked once there is a checkpoint.
A trigger costs one question about all topics, and an idle one waits inside the broker.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_penstock.broker import Broker
from pyspark_penstock.errors import DataLossError, PenstockError, UnreachableError
from pyspark_penstock.options import Options
from pyspark_penstock.positions import GO_ON, Bound, Offsets, bounds, check_kept, may_move, ordered, starting
from pyspark_penstock.reading import log, read, split

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_SECONDS = 0.5  # how long a trigger that finds nothing waits in the broker: stopping a query may wait as long
DISCOVERY_SECONDS = 1.0  # how old the list of topics that match a pattern may be


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("penstock")`."""

    def __init__(self, options: Options, columns: Sequence[str], refusal: str | None = None) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.refusal = refusal  # what is wrong with the options
        self.broker = Broker(options.access)
        self._start: Offsets | None = None
        self._start_may_move = False  # whether another instance would start elsewhere
        self._planned = False  # whether this instance has decided where a batch ends
        self._known: dict[str, Bound] = {}  # the topics that are read
        self._known_since = float("-inf")
        self._pinned: Offsets | None = None  # where an AvailableNow run ends
        self._tails: Offsets | None = None
        self._holding_since: float | None = None  # since when messages wait for minOffsetsPerTrigger

    def _check_options(self) -> None:
        if self.refusal is not None:
            raise PenstockError(self.refusal)

    # ------------------------------------------------------------------ where it starts

    def initialOffset(self) -> dict[str, Any]:
        self._check_options()
        if self._start is None:
            known = bounds(self.broker, self.options)
            begin = starting(self.broker, self.options, known, "latest")
            self._start_may_move = may_move(self.options)
            self._start = self._pin(begin) if self.options.consumer and begin else begin
            log.info("penstock: starts at %s", self._start)
        return dict(self._start)

    def _pin(self, begin: Offsets) -> Offsets:
        """Where the cursors stand: the first to name them says where, everybody after goes on from there."""
        said = self.broker.ask("cursor.open", name=self.options.consumer, offsets=begin, many=self.options.many)
        self._start_may_move = self._start_may_move and bool(said["opened"])
        return ordered(said["offsets"])

    # ------------------------------------------------------------------ where a batch ends

    def prepareForTriggerAvailableNow(self) -> None:
        self._check_options()
        self._known = bounds(self.broker, self.options)
        self._pinned = ordered({name: bound.tail for name, bound in self._known.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        # It can say one limit only; the bytes are added in latestOffset.
        return ReadMaxRows(self.options.rows_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return dict(self._tails) if self._tails is not None else None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._check_options()
        self._planned = True
        begin = self._begin(start)
        end = self._end(begin, limit)
        if self._pinned is None and not self._enough(begin, end, limit) and self._await_more(begin, end):
            begin = self._begin(start)
            end = self._end(begin, limit)
        if not self._enough(begin, end, limit):
            return ordered(start)  # the very same text, so that Spark sees nothing new
        self._holding_since = None
        return dict(end)

    def _begin(self, start: Mapping[str, int]) -> Offsets:
        """Where the next batch begins; a topic that is new here begins with its earliest message."""
        self._look_for_topics()
        gone = [name for name in start if name not in self._known and self._is_read(name)]
        if gone and self.options.fail_on_loss:
            raise DataLossError(f"{gone[0]}, which this query reads, is not there any more; {GO_ON}")
        for name in gone:
            log.warning("penstock: %s, which this query reads, is not there any more", name)
        return ordered({name: start.get(name, bound.head) for name, bound in self._known.items()})

    def _is_read(self, name: str) -> bool:
        return self.options.pattern is not None and re.fullmatch(self.options.pattern, name) is not None

    def _look_for_topics(self) -> None:
        now = time.monotonic()
        stale = self.options.pattern is not None and now - self._known_since > DISCOVERY_SECONDS
        if self._pinned is None and (stale or not self._known):
            self._known = bounds(self.broker, self.options)
            self._known_since = now

    def _end(self, begin: Offsets, limit: ReadLimit) -> Offsets:
        """The end of a batch that begins here, as far as the limits and the pinned end allow."""
        if not begin:
            return begin
        end, known = self._limited(begin, limit)
        if any(not known[name].head <= at <= known[name].tail for name, at in begin.items()):
            if self.options.fail_on_loss:
                check_kept(begin, known)
            there = {name: min(max(at, known[name].head), known[name].tail) for name, at in begin.items()}
            end, known = self._limited(there, limit)
        self._tails = ordered({name: bound.tail for name, bound in known.items()})
        return end

    def _limited(self, begin: Offsets, limit: ReadLimit) -> tuple[Offsets, dict[str, Bound]]:
        asked: dict[str, Any] = {"from": begin, **_sizes(limit, self.options)}
        if self._pinned is not None:
            asked["until"] = {name: max(self._pinned[name], at) for name, at in begin.items()}
        try:
            said = self.broker.ask("limit", **asked)
        except PenstockError as error:
            if error.code == "invalid_argument":  # a topic may end before the batch begins
                return begin, self._bounds_of(begin)
            raise
        known = {name: Bound(head, said["tails"][name]) for name, head in said["heads"].items()}
        return ordered(said["until"]), known

    # ------------------------------------------------------------------ waiting for more

    def _enough(self, begin: Offsets, end: Offsets, limit: ReadLimit) -> bool:
        """Whether there is something to read, and as much as was asked to wait for, or for long enough."""
        if begin == end:
            return False
        wanted = limit.min_rows if isinstance(limit, ReadMinRows) else self.options.rows_wanted
        if wanted is None or self._pinned is not None or isinstance(limit, ReadAllAvailable):
            return True
        if sum((self._tails or {}).values()) - sum(begin.values()) >= wanted:
            return True
        now = time.monotonic()
        self._holding_since = now if self._holding_since is None else self._holding_since
        return now - self._holding_since >= self.options.delay_seconds

    def _await_more(self, begin: Offsets, end: Offsets) -> bool:
        """Wait in the broker, for a moment, until there is more than we know of; False if nothing came."""
        after = (begin if begin == end else self._tails) or {"no-topic-yet": 0}  # without one the broker does not wait
        seconds = IDLE_SECONDS
        if self._holding_since is not None:
            seconds = min(seconds, max(0.0, self._holding_since + self.options.delay_seconds - time.monotonic()))
        self._known = bounds(self.broker, self.options, after=after, wait_seconds=seconds)
        self._known_since = time.monotonic()
        held_long_enough = self._holding_since is not None and begin != end
        return held_long_enough or any(bound.tail > after.get(name, bound.head) for name, bound in self._known.items())

    # ------------------------------------------------------------------ a batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._check_start(start)
        heads = self._heads([name for name in end if name not in start])
        ranges = {name: (start.get(name, heads.get(name, 0)), until) for name, until in end.items()}
        for name, (first, until) in ranges.items():
            if first > until:
                self._lament(_backwards(name, first, until))
        return split(self.broker, self.options, ranges)

    def _heads(self, names: list[str]) -> Offsets:
        return {name: bound.head for name, bound in self._bounds_of(names).items()}

    def _bounds_of(self, names: Iterable[str]) -> dict[str, Bound]:
        said = self.broker.ask("bounds", topics=list(names))["topics"]
        return {name: Bound(bound["head"], bound["tail"]) for name, bound in said.items()}

    def _check_start(self, start: Mapping[str, int]) -> None:
        """A first batch that Spark runs again must begin where it began: refuse to guess."""
        if not self._planned and self._start_may_move and start == self._start:
            self._lament(
                "the first batch of this query is run again, and where it began was not kept; "
                "set startingOffsets to where it is to begin, and give queries that start at latest a consumerName"
            )

    def _lament(self, sentence: str) -> None:
        if self.options.fail_on_loss:
            raise DataLossError(sentence)
        log.warning("penstock: %s", sentence)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self.options, self.columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is done with everything before: the cursor follows."""
        if not self.options.consumer or not end:
            return
        try:
            self.broker.ask("cursor.advance", name=self.options.consumer, offsets=end, many=self.options.many)
        except UnreachableError as error:
            log.warning("%s; the cursor follows with the next batch", error)

    def stop(self) -> None:
        """Nothing is held: Spark may not call this at all."""


def _sizes(limit: ReadLimit, options: Options) -> dict[str, int | None]:
    """How many rows and bytes a batch may have."""
    if isinstance(limit, ReadAllAvailable):
        return {"rows": None, "bytes": None}
    rows, size = options.rows_per_trigger, options.bytes_per_trigger
    if isinstance(limit, ReadMaxRows):
        rows = min(rows, limit.max_rows)
    if isinstance(limit, ReadMaxBytes):
        size = min(size, limit.max_bytes)
    return {"rows": rows, "bytes": size}


def _backwards(name: str, first: int, until: int) -> str:
    return (
        f"the batch to run begins at offset {first} of {name} and ends before it, at {until}: it was planned with "
        "another start; name the query with consumerName, so that its start is kept, and use a new checkpoint"
    )
