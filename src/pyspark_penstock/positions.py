"""Where reading begins and ends: the options as offsets of topics.

A set of offsets is a plain dictionary, sorted by the full names of topics: Spark compares it as text and stores it as
it is. Ends are exclusive. Beside the offsets are the identities of their topics: a topic that was deleted and made
again has the same name, and other messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_penstock.client import Bound, BrokerClient, log, lost
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.values import EARLIEST, IDENTITIES, LATEST

Offsets = dict[str, int]


def ordered(offsets: Mapping[str, int]) -> Offsets:
    return dict(sorted(offsets.items()))


def offsets_in(given: Mapping[str, Any]) -> Offsets:
    """The offsets in what Spark keeps."""
    return {name: offset for name, offset in given.items() if name != IDENTITIES}


def identities(given: Mapping[str, Any]) -> dict[str, str]:
    """Which topics they are of; none in what an older release wrote."""
    return dict(given.get(IDENTITIES, {}))


def kept(offsets: Mapping[str, int], known: Mapping[str, Bound]) -> dict[str, Any]:
    """Offsets as Spark keeps them."""
    found = {name: known[name].identity for name in sorted(offsets) if name in known and known[name].identity}
    return ({IDENTITIES: found} if found else {}) | ordered(offsets)


def is_replaced(name: str, meant: Mapping[str, str], known: Mapping[str, Bound]) -> bool:
    """Whether the topic that has the name now is another one than was meant."""
    there = known[name].identity if name in known else ""
    return meant.get(name, there) != there and there != ""


class Positions:
    """The topics that the options name, and where to begin and end in each."""

    def __init__(self, broker: BrokerClient, options: Options) -> None:
        self._broker = broker
        self._options = options

    def bounds(self, **more: Any) -> dict[str, Bound]:
        options = self._options
        asked: dict[str, Any] = {"topics": list(options.source_topics)}
        if options.pattern:
            asked = {"pattern": options.pattern} | ({"project": options.project} if options.project else {})
        return self._broker.bounds(**asked, **more)

    def starting(self, known: Mapping[str, Bound], default: str) -> Offsets:
        options = self._options
        if options.starting_time is not None:
            found = ordered(self._broker.find(dict.fromkeys(known, options.starting_time)))
            for name, offset in found.items():
                if offset >= known[name].tail and options.strategy == "error":
                    raise PenstockError(
                        f"nothing was published to {name} since startingTimestamp; "
                        "set startingOffsetsByTimestampStrategy to latest to begin with what comes"
                    )
            return found
        given = options.starting or default
        if isinstance(given, str):
            return ordered({name: bound.head if given == "earliest" else bound.tail for name, bound in known.items()})
        found = _offsets(given, known, "startingOffsets", EARLIEST)
        for name in known:
            if is_replaced(name, identities(given), known):
                self.report_loss(replaced(name), topic=name)
                found[name] = known[name].head
        return found

    def start_may_move(self) -> bool:
        """Whether the start of a stream is another one when it is worked out later."""
        if self._options.starting_time is not None:
            return self._options.strategy == "latest"
        given = self._options.starting or "latest"
        return given == "latest" or (isinstance(given, dict) and LATEST in given.values())

    def ending(self, known: Mapping[str, Bound]) -> Offsets:
        if self._options.ending_time is not None:
            return ordered(self._broker.find(dict.fromkeys(known, self._options.ending_time)))
        given = self._options.ending or "latest"
        if isinstance(given, str):
            return ordered({name: bound.tail if given == "latest" else bound.head for name, bound in known.items()})
        for name in known:
            if is_replaced(name, identities(given), known):
                raise DataLossError(f"endingOffsets were taken from another topic: {replaced(name)}", topic=name)
        return _offsets(given, known, "endingOffsets", LATEST)

    def report_loss(self, sentence: str, hint: str = "", **facts: Any) -> None:
        """Fail, or warn if the query is to go on without what is lost."""
        if self._options.fail_on_loss:
            raise DataLossError(sentence + hint, **facts)
        log.warning("penstock: %s", sentence)

    def report_gone(self, name: str) -> None:
        hint = "; set failOnDataLoss to false to go on without"
        self.report_loss(f"{name}, which this query reads, is not there any more", hint, topic=name)

    def no_match(self) -> str:
        return (
            f"no topic matches topicPattern {self._options.pattern}; it is compared with the whole name, "
            "projects/P/topics/T, or with the short one in the default project"
        )


def _offsets(given: Mapping[str, Any], known: Mapping[str, Bound], option: str, default: int) -> Offsets:
    """Offsets of an option under the names the broker uses; a topic that is not read here is an error."""
    named = {}
    for written, offset in offsets_in(given).items():
        full = [written] if written in known else [name for name in known if name.endswith(f"/topics/{written}")]
        if len(full) != 1:
            raise PenstockError(f"{option} names {written}, which is not among the topics that are read")
        named[full[0]] = offset
    found = {}
    for name, bound in known.items():
        offset = named.get(name, default)
        found[name] = {EARLIEST: bound.head, LATEST: bound.tail}.get(offset, offset)
    return ordered(found)


def replaced(name: str) -> str:
    return (
        f"{name} was deleted and made again since it was read, and what was left in it is lost; use a new checkpoint, "
        "or set failOnDataLoss to false to go on with all that the new topic has"
    )


def not_asked_for(name: str) -> str:
    """Return the sentence for a topic of the checkpoint that the options do not name."""
    return (
        f"the checkpoint of this query has the topic {name}, which the options do not name, so the rest of it would "
        "not be read; use a new checkpoint, name the topic again, or set failOnDataLoss to false to go on without it"
    )


def check_kept(first: Mapping[str, int], known: Mapping[str, Bound]) -> None:
    """Raise for the first topic that cannot be read from where it should."""
    for name, offset in first.items():
        if offset < known[name].head:
            raise DataLossError(lost(name, offset, known[name].head), topic=name, wanted=offset)
        if offset > known[name].tail:
            raise DataLossError(
                f"{name} ends at offset {known[name].tail}, and reading was to begin at {offset}; was it deleted and "
                "made again, or is this another broker? Set failOnDataLoss to false to go on from there",
                topic=name,
                wanted=offset,
            )


def backwards(name: str, first: int, until: int) -> str:
    return f"the batch to run begins at offset {first} of {name} and ends before it, at {until}"
