"""The start and end offsets of a read, computed from the options.

Offsets are a plain dictionary sorted by full topic name, because Spark stores it as it is and compares it as text.
Ends are exclusive. A checkpoint also holds the identities of the topics: a topic that was deleted and created again has
the same name but other messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_penstock.client import Bound, BrokerClient, log, loss_message
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.values import EARLIEST, IDENTITIES, LATEST

Offsets = dict[str, int]


def sort_offsets(offsets: Mapping[str, int]) -> Offsets:
    return dict(sorted(offsets.items()))


def offsets_in(checkpoint: Mapping[str, Any]) -> Offsets:
    return {name: offset for name, offset in checkpoint.items() if name != IDENTITIES}


def identities(checkpoint: Mapping[str, Any]) -> dict[str, str]:
    """Return the topic identities in a checkpoint. One written by an older release has none."""
    return dict(checkpoint.get(IDENTITIES, {}))


def to_checkpoint(offsets: Mapping[str, int], bounds: Mapping[str, Bound]) -> dict[str, Any]:
    """Return the offsets in the form that Spark stores."""
    identities = {name: bounds[name].identity for name in sorted(offsets) if name in bounds and bounds[name].identity}
    return ({IDENTITIES: identities} if identities else {}) | sort_offsets(offsets)


def is_replaced(name: str, expected: Mapping[str, str], bounds: Mapping[str, Bound]) -> bool:
    """Tell whether the topic of this name is not the one whose identity is expected."""
    current = bounds[name].identity if name in bounds else ""
    return expected.get(name, current) != current and current != ""


class Positions:
    """The topics that the options select, with the start and end offset of each."""

    def __init__(self, broker: BrokerClient, options: Options) -> None:
        self._broker = broker
        self._options = options

    def bounds(self, **more: Any) -> dict[str, Bound]:
        options = self._options
        selection: dict[str, Any] = {"topics": list(options.source_topics)}
        if options.pattern:
            selection = {"pattern": options.pattern} | ({"project": options.project} if options.project else {})
        return self._broker.bounds(**selection, **more)

    def starting(self, bounds: Mapping[str, Bound], default: str) -> Offsets:
        options = self._options
        if options.starting_time is not None:
            offsets = sort_offsets(self._broker.find(dict.fromkeys(bounds, options.starting_time)))
            for name, offset in offsets.items():
                if offset >= bounds[name].tail and options.strategy == "error":
                    raise PenstockError(
                        f"nothing was published to {name} since startingTimestamp; "
                        "set startingOffsetsByTimestampStrategy to latest to start at the next message"
                    )
            return offsets
        start = options.starting or default
        if isinstance(start, str):
            heads = {name: bound.head if start == "earliest" else bound.tail for name, bound in bounds.items()}
            return sort_offsets(heads)
        offsets = _resolve(start, bounds, "startingOffsets", EARLIEST)
        for name in bounds:
            if is_replaced(name, identities(start), bounds):
                self.report_loss(replaced_message(name), topic=name)
                offsets[name] = bounds[name].head
        return offsets

    def start_may_move(self) -> bool:
        """Tell whether computing the start of a stream again later may give other offsets."""
        if self._options.starting_time is not None:
            return self._options.strategy == "latest"
        start = self._options.starting or "latest"
        return start == "latest" or (isinstance(start, dict) and LATEST in start.values())

    def ending(self, bounds: Mapping[str, Bound]) -> Offsets:
        if self._options.ending_time is not None:
            return sort_offsets(self._broker.find(dict.fromkeys(bounds, self._options.ending_time)))
        end = self._options.ending or "latest"
        if isinstance(end, str):
            return sort_offsets({name: bound.tail if end == "latest" else bound.head for name, bound in bounds.items()})
        for name in bounds:
            if is_replaced(name, identities(end), bounds):
                raise DataLossError(f"endingOffsets are from another topic: {replaced_message(name)}", topic=name)
        return _resolve(end, bounds, "endingOffsets", LATEST)

    def report_loss(self, sentence: str, hint: str = "", **facts: Any) -> None:
        """Raise DataLossError, or log a warning if failOnDataLoss is false."""
        if self._options.fail_on_loss:
            raise DataLossError(sentence + hint, **facts)
        log.warning("penstock: %s", sentence)

    def report_gone(self, name: str) -> None:
        hint = "; set failOnDataLoss to false to continue without it"
        self.report_loss(f"{name}, which this query reads, was deleted", hint, topic=name)

    def no_match(self) -> str:
        return (
            f"no topic matches topicPattern {self._options.pattern}; the pattern must match the whole name, "
            "projects/P/topics/T, or the whole short name in the default project"
        )


def _resolve(positions: Mapping[str, Any], bounds: Mapping[str, Bound], option: str, default: int) -> Offsets:
    """Return the offsets of an option by full topic name. Raise PenstockError for a topic that is not read."""
    given = {}
    for short, offset in offsets_in(positions).items():
        full = [short] if short in bounds else [name for name in bounds if name.endswith(f"/topics/{short}")]
        if len(full) != 1:
            raise PenstockError(f"{option} contains {short}, which is not one of the topics to read")
        given[full[0]] = offset
    resolved = {}
    for name, bound in bounds.items():
        offset = given.get(name, default)
        resolved[name] = {EARLIEST: bound.head, LATEST: bound.tail}.get(offset, offset)
    return sort_offsets(resolved)


def replaced_message(name: str) -> str:
    return (
        f"{name} was deleted and created again since it was read, and its unread messages are lost; use a new "
        "checkpoint, or set failOnDataLoss to false to continue with all messages of the new topic"
    )


def unselected_message(name: str) -> str:
    """Return the sentence for a topic of the checkpoint that the options do not select."""
    return (
        f"the checkpoint of this query has the topic {name}, but the options do not, so the rest of the topic would "
        "not be read; use a new checkpoint, add the topic again, or set failOnDataLoss to false to continue without it"
    )


def check_available(start: Mapping[str, int], bounds: Mapping[str, Bound]) -> None:
    """Raise DataLossError for the first topic whose start offset is not available."""
    for name, offset in start.items():
        if offset < bounds[name].head:
            raise DataLossError(loss_message(name, offset, bounds[name].head), topic=name, wanted=offset)
        if offset > bounds[name].tail:
            raise DataLossError(
                f"{name} ends at offset {bounds[name].tail}, but reading should start at {offset}; was the topic "
                "deleted and created again, or is this another broker? Set failOnDataLoss to false to continue at "
                "the end of the topic",
                topic=name,
                wanted=offset,
            )


def backwards_message(name: str, first: int, until: int) -> str:
    return f"the batch starts at offset {first} of {name} but ends before it, at {until}"
