"""Where reading begins and ends: what the options say, turned into offsets of topics.

The rule kept here: an offset is a place in one topic's log, ends are exclusive, and a set of offsets is a plain
dictionary sorted by the full names of topics: Spark compares it as text and stores it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark_penstock.broker import Broker, lost
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.values import EARLIEST, LATEST

Offsets = dict[str, int]
GO_ON = "set failOnDataLoss to false to go on without"


class Bound(NamedTuple):
    """The offsets a topic has: from the earliest kept to the next to be given."""

    head: int
    tail: int


def ordered(offsets: Mapping[str, int]) -> Offsets:
    return dict(sorted(offsets.items()))


def bounds(broker: Broker, options: Options, **more: Any) -> dict[str, Bound]:
    """The topics that are asked for, by full name."""
    asked = {"pattern": options.pattern} if options.pattern else {"topics": list(options.source_topics)}
    said = broker.ask("bounds", **asked, **more)["topics"]
    return {name: Bound(said[name]["head"], said[name]["tail"]) for name in sorted(said)}


def starting(broker: Broker, options: Options, known: Mapping[str, Bound], default: str) -> Offsets:
    """Where to begin in each topic."""
    if options.starting_time is not None:
        return _at_time(broker, options, known, options.starting_time)
    said = options.starting or default
    if isinstance(said, str):
        return ordered({name: bound.head if said == "earliest" else bound.tail for name, bound in known.items()})
    given = _by_full_name(said, known, "startingOffsets")
    return ordered({name: _place(given.get(name, EARLIEST), bound) for name, bound in known.items()})


def may_move(options: Options) -> bool:
    """Whether a start of a stream is another one when it is worked out later."""
    if options.starting_time is not None:
        return options.strategy == "latest"
    said = options.starting or "latest"
    return said == "latest" or (isinstance(said, dict) and LATEST in said.values())


def ending(broker: Broker, options: Options, known: Mapping[str, Bound]) -> Offsets:
    """Where to end in each topic, exclusive."""
    if options.ending_time is not None:
        return _find(broker, dict.fromkeys(known, options.ending_time))
    said = options.ending or "latest"
    if isinstance(said, str):
        return ordered({name: bound.tail if said == "latest" else bound.head for name, bound in known.items()})
    given = _by_full_name(said, known, "endingOffsets")
    return ordered({name: _place(given.get(name, LATEST), bound) for name, bound in known.items()})


def _place(offset: int, bound: Bound) -> int:
    return {EARLIEST: bound.head, LATEST: bound.tail}.get(offset, offset)


def _find(broker: Broker, times: Mapping[str, int]) -> Offsets:
    return ordered(broker.ask("find", times=dict(times))["offsets"]) if times else {}


def _at_time(broker: Broker, options: Options, known: Mapping[str, Bound], time: int) -> Offsets:
    found = _find(broker, dict.fromkeys(known, time))
    for name, offset in found.items():
        if offset >= known[name].tail and options.strategy == "error":
            raise PenstockError(
                f"nothing was published to {name} since startingTimestamp; "
                "set startingOffsetsByTimestampStrategy to latest to begin with what comes"
            )
    return found


def _by_full_name(said: Mapping[str, int], known: Iterable[str], option: str) -> Offsets:
    """The same offsets under the names the broker uses; a topic that is not read here is an error."""
    names = set(known)
    found = {}
    for written, offset in said.items():
        full = [written] if written in names else [name for name in names if name.endswith(f"/topics/{written}")]
        if len(full) != 1:
            raise PenstockError(f"{option} names {written}, which is not among the topics that are read")
        found[full[0]] = offset
    return found


def check_kept(first: Mapping[str, int], known: Mapping[str, Bound]) -> None:
    """Raise for the first topic that cannot be read from where it should."""
    for name, offset in first.items():
        if offset < known[name].head:
            raise DataLossError(lost(name, offset, known[name].head), topic=name, wanted=offset)
        if offset > known[name].tail:
            raise DataLossError(shrunk(name, offset, known[name].tail), topic=name, wanted=offset)


def shrunk(topic: str, wanted: int, tail: int) -> str:
    return (
        f"{topic} ends at offset {tail}, and reading was to begin at {wanted}; was it deleted and made again, "
        "or is this another broker? Set failOnDataLoss to false to go on from there"
    )
