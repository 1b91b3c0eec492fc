"""The reader of a stream: it plans the end of each micro-batch and cuts batches into partitions.

Spark's checkpoint keeps the offsets. The cursor on the broker pins the start of a named query, holds retention and
shows lag. Once there is a checkpoint, the cursor is not read. A trigger costs one request for all topics, and an idle
trigger waits inside the broker.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import datasource as limits

from pyspark_penstock.batch_reader import read, split
from pyspark_penstock.client import Bound, BrokerClient, Span, log
from pyspark_penstock.errors import PenstockError, UnreachableError
from pyspark_penstock.leases import leases
from pyspark_penstock.options import Options
from pyspark_penstock.positions import (
    Offsets,
    Positions,
    backwards_message,
    check_available,
    identities,
    is_replaced,
    offsets_in,
    replaced_message,
    sort_offsets,
    to_checkpoint,
    unselected_message,
)
from pyspark_penstock.schema import as_text
from pyspark_penstock.values import matches_whole

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_SECONDS = 0.5  # wait of an idle trigger in the broker, which also delays the stop of a query
DISCOVERY_SECONDS = 1.0  # maximum age of the list of topics that match a pattern


class PenstockStreamReader(DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """The reader of `spark.readStream.format("penstock")`."""

    def __init__(
        self, options: Options, columns: Sequence[str], refusal: str | None = None, *, text: bool = False
    ) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.refusal = refusal  # the error in the options, if there is one
        self.text = text  # True: the data column is a string
        self.broker = BrokerClient(options.access)
        self._positions = Positions(self.broker, options)
        self._start: dict[str, Any] | None = None
        self._start_may_move = False  # True: another instance would start at other offsets
        self._planned = False  # True: this instance has planned the end of a batch
        self._bounds: dict[str, Bound] = {}  # by topic that is read
        self._listed_at = float("-inf")  # when the topics were last listed
        self._final: Offsets | None = None  # end of an AvailableNow run
        self._tails: Offsets | None = None
        self._holding_since: float | None = None  # start of the wait for minOffsetsPerTrigger
        self._added: Offsets = {}  # start of each topic that was added later
        self._reported: set[str] = set()  # losses that were reported
        self._owner = uuid.uuid4().hex  # names this instance to the broker

    def _check_options(self) -> None:
        if self.refusal is not None:
            raise PenstockError(self.refusal)

    # ------------------------------------------------------------------ the start

    def initialOffset(self) -> dict[str, Any]:
        self._check_options()
        if self._start is None:
            bounds = self._positions.bounds()
            if not bounds:
                log.warning("penstock: %s; the query waits for one", self._positions.no_match())
            begin = self._positions.starting(bounds, "latest")
            self._start_may_move = self._positions.start_may_move()
            self._start = to_checkpoint(self._pin(begin) if self.options.consumer and begin else begin, bounds)
            log.info("penstock: starts at %s", self._start)
        return dict(self._start)

    def _pin(self, begin: Offsets) -> Offsets:
        """Return the positions of the query's cursors. Cursors that do not exist are created at `begin`."""
        self._hold(begin)
        answer = self.broker.ask("cursor.open", name=self.options.consumer, offsets=begin, many=self.options.many)
        self._start_may_move = self._start_may_move and bool(answer["opened"])
        for name in answer.get("replaced", ()):
            log.warning("penstock: %s was deleted and created again; all messages of the new topic are read", name)
        return sort_offsets(answer["offsets"])

    def _hold(self, topics: Iterable[str]) -> None:
        """Take the cursors of these topics. Raise PenstockError if another live query uses one of them."""
        if self.options.consumer:
            leases.hold(self.broker, self.options.consumer, self._owner, topics)

    def stop(self) -> None:
        """Release the cursors. Spark calls this when the query has ended, also if the driver was killed."""
        leases.release(self._owner)

    # ------------------------------------------------------------------ the end of a batch

    def prepareForTriggerAvailableNow(self) -> None:
        self._check_options()
        self._bounds = self._positions.bounds()
        self._final = sort_offsets({name: bound.tail for name, bound in self._bounds.items()})

    def getDefaultReadLimit(self) -> limits.ReadLimit:
        # Only one limit can be returned; latestOffset adds the limit of bytes.
        return limits.ReadMaxRows(self.options.rows_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return dict(self._tails) if self._tails is not None else None

    def latestOffset(self, start: dict[str, Any], limit: limits.ReadLimit) -> dict[str, Any]:
        self._check_options()
        self._planned = True
        self._hold(offsets_in(start))
        expected = identities(start)
        begin, end = self._plan_range(offsets_in(start), expected, limit)
        if self._final is None and not self._enough(begin, end, limit) and self._await_more(begin, end):
            begin, end = self._plan_range(offsets_in(start), expected, limit)
        if not self._enough(begin, end, limit):
            return dict(start)  # exactly the same text, so that Spark sees nothing new
        self._holding_since = None
        return to_checkpoint(end, self._bounds)

    def _plan_range(self, start: Offsets, expected: dict[str, str], limit: limits.ReadLimit) -> tuple[Offsets, Offsets]:
        """Return the range of the batch after `start`. It starts at the head of a topic that was created again."""
        begin = self._begin(start)
        end, bounds = self._apply_limit(begin, limit)
        replaced = [name for name in begin if is_replaced(name, expected, bounds)]
        for name in replaced:
            self._report_once(replaced_message(name))
        if replaced or any(not bounds[name].head <= offset <= bounds[name].tail for name, offset in begin.items()):
            begin |= {name: bounds[name].head for name in replaced}
            if self.options.fail_on_loss:
                check_available(begin, bounds)
            available = {name: min(max(offset, bounds[name].head), bounds[name].tail) for name, offset in begin.items()}
            end, bounds = self._apply_limit(available, limit)
        self._bounds |= bounds
        self._tails = sort_offsets({name: bound.tail for name, bound in bounds.items()})
        return begin, end

    def _begin(self, start: Mapping[str, int]) -> Offsets:
        """Return the start of the next batch, with topics that are new in it."""
        pattern, now = self.options.pattern, time.monotonic()
        stale = pattern is not None and now - self._listed_at > DISCOVERY_SECONDS
        if self._final is None and (stale or not self._bounds):
            self._bounds, self._listed_at = self._positions.bounds(), now
        for name in start:
            if name in self._bounds:
                continue
            if pattern is not None and any(matches_whole(pattern, text) for text in (name, name.rpartition("/")[2])):
                self._positions.report_gone(name)
            else:
                self._report_once(unselected_message(name))
        new = {name: bound.head for name, bound in self._bounds.items() if name not in start}
        return sort_offsets({name: start[name] for name in self._bounds if name in start} | self._add_topics(new))

    def _add_topics(self, heads: Offsets) -> Offsets:
        """Return the start of each topic that the previous batch did not have: its cursor, or its earliest message."""
        new = {name: head for name, head in heads.items() if name not in self._added}
        if new and self.options.consumer:
            new = self._pin(new)
        self._added |= new
        return {name: self._added[name] for name in heads}

    def _apply_limit(self, begin: Offsets, limit: limits.ReadLimit) -> tuple[Offsets, dict[str, Bound]]:
        """Return the end of a batch that starts at `begin`, and the bounds of its topics."""
        if not begin:
            return begin, {}
        request: dict[str, Any] = {"from": begin, **_sizes(limit, self.options)}
        if self._final is not None:
            request["until"] = {name: max(self._final[name], offset) for name, offset in begin.items()}
        try:
            answer = self.broker.ask("limit", **request)
        except PenstockError as error:
            if error.code == "invalid_argument":  # a topic may end before the start of the batch
                return begin, self.broker.bounds(topics=list(begin))
            raise
        tails, identity = answer["tails"], answer["identities"]
        return sort_offsets(answer["until"]), {
            name: Bound(head, tails[name], identity[name]) for name, head in answer["heads"].items()
        }

    # ------------------------------------------------------------------ waiting for more

    def _enough(self, begin: Offsets, end: Offsets, limit: limits.ReadLimit) -> bool:
        """Tell whether to run the batch: it has messages, and minOffsetsPerTrigger or maxTriggerDelay is reached."""
        if begin == end:
            return False
        wanted = limit.min_rows if isinstance(limit, limits.ReadMinRows) else self.options.rows_wanted
        if wanted is None or self._final is not None or isinstance(limit, limits.ReadAllAvailable):
            return True
        if sum((self._tails or {}).values()) - sum(begin.values()) >= wanted:
            return True
        now = time.monotonic()
        self._holding_since = now if self._holding_since is None else self._holding_since
        return now - self._holding_since >= self.options.delay_seconds

    def _await_more(self, begin: Offsets, end: Offsets) -> bool:
        """Wait briefly in the broker for new messages. Return False if there are none."""
        after = (begin if begin == end else self._tails) or {"no-topic-yet": 0}  # the broker only waits for a topic
        seconds = IDLE_SECONDS
        if self._holding_since is not None:
            seconds = min(seconds, max(0.0, self._holding_since + self.options.delay_seconds - time.monotonic()))
        self._bounds = self._positions.bounds(after=after, wait_seconds=seconds)
        self._listed_at = time.monotonic()
        held_long_enough = self._holding_since is not None and begin != end
        return held_long_enough or any(bound.tail > after.get(name, bound.head) for name, bound in self._bounds.items())

    # ------------------------------------------------------------------ a batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, expected, after = offsets_in(start), identities(end), offsets_in(end)
        self._hold(after)
        # If Spark repeats a first batch, it must start at the same offsets.
        if not self._planned and self._start_may_move and before == offsets_in(self._start or {}):
            self._report_once(
                "the first batch of this query is repeated, but its start was not stored; set startingOffsets "
                "to the start once, and set consumerName for queries that start at latest"
            )
        # Topics that are new in this batch, or were created again before it.
        previous = identities(start)
        replaced = {
            name for name in after if name in previous and name in expected and previous[name] != expected[name]
        }
        new = [name for name in after if name not in before or name in replaced]
        bounds = self.broker.bounds(topics=new, missing_ok=True) if new else {}
        heads = {name: bound.head for name, bound in bounds.items()}
        first = before | {name: head for name, head in heads.items() if name in replaced}
        first |= self._add_topics({name: head for name, head in heads.items() if name not in before})
        first |= {name: 0 for name in after if name not in first}  # a deleted topic: split reports it
        for name, until in after.items():
            if first[name] > until:
                self._report_once(
                    f"{backwards_message(name, first[name], until)}: it was planned with another start; set "
                    "consumerName, so that the start of the query is stored, and use a new checkpoint"
                )
        spans = [Span(name, first[name], until, expected.get(name, "")) for name, until in after.items()]
        return split(self.broker, self.options, spans)

    def _report_once(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._positions.report_loss(sentence)
        self._reported.add(sentence)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = read(self.options, self.columns, partition)
        return map(as_text, rows) if self.text else rows

    def commit(self, end: dict[str, Any]) -> None:
        """Advance the cursor: Spark has processed all messages before `end`."""
        if not self.options.consumer or not end:
            return
        try:
            self._hold(offsets_in(end))
            self.broker.ask(
                "cursor.advance",
                name=self.options.consumer,
                offsets=offsets_in(end),
                identities=identities(end),
                many=self.options.many,
            )
        except UnreachableError as error:
            log.warning("%s; the next batch advances the cursor", error)


def _sizes(limit: limits.ReadLimit, options: Options) -> dict[str, int | None]:
    """Return the maximum rows and bytes of a batch. None: no limit."""
    if isinstance(limit, limits.ReadAllAvailable):
        return {"rows": None, "bytes": None}
    rows, size = options.rows_per_trigger, options.bytes_per_trigger
    if isinstance(limit, limits.ReadMaxRows):
        rows = min(rows, limit.max_rows)
    if isinstance(limit, limits.ReadMaxBytes):
        size = min(size, limit.max_bytes)
    return {"rows": rows, "bytes": size}
