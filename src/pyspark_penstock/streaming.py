"""Reading a stream: which offsets the next micro-batch ends at, and the partitions of a batch.

Offsets are decided here and kept in Spark's checkpoint. The cursor on the broker pins where a named query starts, holds
retention and shows lag; it is not read once there is a checkpoint. A trigger costs one request for all topics, and an
idle one waits inside the broker.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import datasource as limits

from pyspark_penstock.client import Bound, BrokerClient, Span, log
from pyspark_penstock.errors import PenstockError, UnreachableError
from pyspark_penstock.options import Options
from pyspark_penstock.positions import (
    Offsets,
    Positions,
    backwards,
    check_kept,
    identities,
    is_replaced,
    kept,
    not_asked_for,
    offsets_in,
    ordered,
    replaced,
)
from pyspark_penstock.reading import read, split

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_SECONDS = 0.5  # how long a trigger that finds nothing waits in the broker: stopping a query may wait as long
DISCOVERY_SECONDS = 1.0  # how old the list of topics that match a pattern may be


class PenstockStreamReader(DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """`spark.readStream.format("penstock")`."""

    def __init__(self, options: Options, columns: Sequence[str], refusal: str | None = None) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.refusal = refusal  # what is wrong with the options
        self.broker = BrokerClient(options.access)
        self._positions = Positions(self.broker, options)
        self._start: dict[str, Any] | None = None
        self._start_may_move = False  # whether another instance would start elsewhere
        self._planned = False  # whether this instance has decided where a batch ends
        self._known: dict[str, Bound] = {}  # the topics that are read
        self._known_since = float("-inf")
        self._pinned: Offsets | None = None  # where an AvailableNow run ends
        self._tails: Offsets | None = None
        self._holding_since: float | None = None  # since when messages wait for minOffsetsPerTrigger
        self._joined: Offsets = {}  # where topics begin that came later
        self._reported: set[str] = set()  # losses, each reported once

    def _check_options(self) -> None:
        if self.refusal is not None:
            raise PenstockError(self.refusal)

    # ------------------------------------------------------------------ where it starts

    def initialOffset(self) -> dict[str, Any]:
        self._check_options()
        if self._start is None:
            known = self._positions.bounds()
            if not known:
                log.warning("penstock: %s; the query waits for one", self._positions.no_match())
            begin = self._positions.starting(known, "latest")
            self._start_may_move = self._positions.start_may_move()
            self._start = kept(self._pin(begin) if self.options.consumer and begin else begin, known)
            log.info("penstock: starts at %s", self._start)
        return dict(self._start)

    def _pin(self, begin: Offsets) -> Offsets:
        """Where the cursors stand: the first query to name them says where, later ones go on from there."""
        answer = self.broker.ask("cursor.open", name=self.options.consumer, offsets=begin, many=self.options.many)
        self._start_may_move = self._start_may_move and bool(answer["opened"])
        for name in answer.get("replaced", ()):
            log.warning("penstock: %s was deleted and made again; all that it has now is read", name)
        return ordered(answer["offsets"])

    # ------------------------------------------------------------------ where a batch ends

    def prepareForTriggerAvailableNow(self) -> None:
        self._check_options()
        self._known = self._positions.bounds()
        self._pinned = ordered({name: bound.tail for name, bound in self._known.items()})

    def getDefaultReadLimit(self) -> limits.ReadLimit:
        # It can say one limit only; the bytes are added in latestOffset.
        return limits.ReadMaxRows(self.options.rows_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return dict(self._tails) if self._tails is not None else None

    def latestOffset(self, start: dict[str, Any], limit: limits.ReadLimit) -> dict[str, Any]:
        self._check_options()
        self._planned = True
        meant = identities(start)
        begin, end = self._planned_range(offsets_in(start), meant, limit)
        if self._pinned is None and not self._enough(begin, end, limit) and self._await_more(begin, end):
            begin, end = self._planned_range(offsets_in(start), meant, limit)
        if not self._enough(begin, end, limit):
            return dict(start)  # the very same text, so that Spark sees nothing new
        self._holding_since = None
        return kept(end, self._known)

    def _planned_range(self, start: Offsets, meant: dict[str, str], limit: limits.ReadLimit) -> tuple[Offsets, Offsets]:
        """Where a batch begins and ends that follows this; in a topic that was made again it begins anew."""
        begin = self._begin(start)
        end, known = self._limited(begin, limit)
        anew = [name for name in begin if is_replaced(name, meant, known)]
        for name in anew:
            self._report_once(replaced(name))
        if anew or any(not known[name].head <= at <= known[name].tail for name, at in begin.items()):
            begin |= {name: known[name].head for name in anew}
            if self.options.fail_on_loss:
                check_kept(begin, known)
            there = {name: min(max(at, known[name].head), known[name].tail) for name, at in begin.items()}
            end, known = self._limited(there, limit)
        self._known |= known
        self._tails = ordered({name: bound.tail for name, bound in known.items()})
        return begin, end

    def _begin(self, start: Mapping[str, int]) -> Offsets:
        """Where the next batch begins; a topic that is new here begins with its earliest message."""
        pattern, now = self.options.pattern, time.monotonic()
        stale = pattern is not None and now - self._known_since > DISCOVERY_SECONDS
        if self._pinned is None and (stale or not self._known):
            self._known, self._known_since = self._positions.bounds(), now
        for name in start:
            if name in self._known:
                continue
            if pattern is not None and any(re.fullmatch(pattern, each) for each in (name, name.rpartition("/")[2])):
                self._positions.report_gone(name)
            else:
                self._report_once(not_asked_for(name))
        new = {name: bound.head for name, bound in self._known.items() if name not in start}
        return ordered({name: start[name] for name in self._known if name in start} | self._joining(new))

    def _joining(self, heads: Offsets) -> Offsets:
        """Where topics begin that the batch before did not have: at their cursor, or with their earliest message."""
        unknown = {name: head for name, head in heads.items() if name not in self._joined}
        if unknown and self.options.consumer:
            unknown = self._pin(unknown)
        self._joined |= unknown
        return {name: self._joined[name] for name in heads}

    def _limited(self, begin: Offsets, limit: limits.ReadLimit) -> tuple[Offsets, dict[str, Bound]]:
        if not begin:
            return begin, {}
        asked: dict[str, Any] = {"from": begin, **_sizes(limit, self.options)}
        if self._pinned is not None:
            asked["until"] = {name: max(self._pinned[name], at) for name, at in begin.items()}
        try:
            answer = self.broker.ask("limit", **asked)
        except PenstockError as error:
            if error.code == "invalid_argument":  # a topic may end before the batch begins
                return begin, self.broker.bounds(topics=list(begin))
            raise
        tails, identity = answer["tails"], answer["identities"]
        return ordered(answer["until"]), {
            name: Bound(head, tails[name], identity[name]) for name, head in answer["heads"].items()
        }

    # ------------------------------------------------------------------ waiting for more

    def _enough(self, begin: Offsets, end: Offsets, limit: limits.ReadLimit) -> bool:
        """Whether there is something to read, and as much as was asked to wait for, or for long enough."""
        if begin == end:
            return False
        wanted = limit.min_rows if isinstance(limit, limits.ReadMinRows) else self.options.rows_wanted
        if wanted is None or self._pinned is not None or isinstance(limit, limits.ReadAllAvailable):
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
        self._known = self._positions.bounds(after=after, wait_seconds=seconds)
        self._known_since = time.monotonic()
        held_long_enough = self._holding_since is not None and begin != end
        return held_long_enough or any(bound.tail > after.get(name, bound.head) for name, bound in self._known.items())

    # ------------------------------------------------------------------ a batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, meant, after = offsets_in(start), identities(end), offsets_in(end)
        # A first batch that Spark runs again must begin where it began.
        if not self._planned and self._start_may_move and before == offsets_in(self._start or {}):
            self._report_once(
                "the first batch of this query is run again, and where it began was not kept; "
                "set startingOffsets to where it is to begin, and give queries that start at latest a consumerName"
            )
        # A topic that is new in this batch, or was made again before it.
        was = identities(start)
        anew = {name for name in after if name in was and name in meant and was[name] != meant[name]}
        new = [name for name in after if name not in before or name in anew]
        known = self.broker.bounds(topics=new, missing_ok=True) if new else {}
        heads = {name: bound.head for name, bound in known.items()}
        first = before | {name: head for name, head in heads.items() if name in anew}
        first |= self._joining({name: head for name, head in heads.items() if name not in before})
        first |= {name: 0 for name in after if name not in first}  # it is gone: split reports it
        for name, until in after.items():
            if first[name] > until:
                self._report_once(
                    f"{backwards(name, first[name], until)}: it was planned with another start; name the query with "
                    "consumerName, so that its start is kept, and use a new checkpoint"
                )
        spans = [Span(name, first[name], until, meant.get(name, "")) for name, until in after.items()]
        return split(self.broker, self.options, spans)

    def _report_once(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._positions.report_loss(sentence)
        self._reported.add(sentence)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self.options, self.columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is done with everything before: the cursor follows."""
        if not self.options.consumer or not end:
            return
        try:
            self.broker.ask(
                "cursor.advance",
                name=self.options.consumer,
                offsets=offsets_in(end),
                identities=identities(end),
                many=self.options.many,
            )
        except UnreachableError as error:
            log.warning("%s; the cursor follows with the next batch", error)


def _sizes(limit: limits.ReadLimit, options: Options) -> dict[str, int | None]:
    """How many rows and bytes a batch may have."""
    if isinstance(limit, limits.ReadAllAvailable):
        return {"rows": None, "bytes": None}
    rows, size = options.rows_per_trigger, options.bytes_per_trigger
    if isinstance(limit, limits.ReadMaxRows):
        rows = min(rows, limit.max_rows)
    if isinstance(limit, limits.ReadMaxBytes):
        size = min(size, limit.max_bytes)
    return {"rows": rows, "bytes": size}
