"""Where reading begins and ends: the options as offsets of topics.

A set of offsets is a plain dictionary, sorted by the full names of topics: Spark compares it as text and stores it as
it is. Ends are exclusive. Beside the offsets are the identities of their topics: a topic that was deleted and made
again has the same name, and other messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark_penstock.client import BrokerClient, log, lost
from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.options import Options
from pyspark_penstock.values import EARLIEST, IDENTITIES, LATEST

Offsets = dict[str, int]


def report_loss(options: Options, sentence: str, hint: str = "", **facts: Any) -> None:
    """Fail, or warn if the query is to go on without what is lost."""
    if options.fail_on_loss:
        raise DataLossError(sentence + hint, **facts)
    log.warning("penstock: %s", sentence)


def report_gone(options: Options, name: str) -> None:
    hint = "; set failOnDataLoss to false to go on without"
    report_loss(options, f"{name}, which this query reads, is not there any more", hint, topic=name)


class Bound(NamedTuple):
    """The offsets a topic has: from the earliest kept to the next to be given."""

    head: int
    tail: int
    identity: str = ""  # empty: not known


def ordered(offsets: Mapping[str, int]) -> Offsets:
    return dict(sorted(offsets.items()))


def places(said: Mapping[str, Any]) -> Offsets:
    """The offsets in what Spark keeps."""
    return {name: place for name, place in said.items() if name != IDENTITIES}


def identities(said: Mapping[str, Any]) -> dict[str, str]:
    """Which topics they are of; none in what an older release wrote."""
    return dict(said.get(IDENTITIES, {}))


def kept(offsets: Mapping[str, int], known: Mapping[str, Bound]) -> dict[str, Any]:
    """Offsets as Spark keeps them."""
    found = {name: known[name].identity for name in sorted(offsets) if name in known and known[name].identity}
    return ({IDENTITIES: found} if found else {}) | ordered(offsets)


def is_replaced(name: str, meant: Mapping[str, str], known: Mapping[str, Bound]) -> bool:
    """Whether the topic that has the name now is another one than was meant."""
    there = known[name].identity if name in known else ""
    return meant.get(name, there) != there and there != ""


def replaced(name: str) -> str:
    return (
        f"{name} was deleted and made again since it was read, and what was left in it is lost; use a new checkpoint, "
        "or set failOnDataLoss to false to go on with all that the new topic has"
    )


def bounds(broker: BrokerClient, options: Options, **more: Any) -> dict[str, Bound]:
    """The topics that are asked for, by full name."""
    asked: dict[str, Any] = {"topics": list(options.source_topics)}
    if options.pattern:
        asked = {"pattern": options.pattern} | ({"project": options.project} if options.project else {})
    return bounds_in(broker.ask("bounds", **asked, **more))


def bounds_in(answer: Mapping[str, Any]) -> dict[str, Bound]:
    said = sorted(answer["topics"].items())
    return {name: Bound(bound["head"], bound["tail"], bound["identity"]) for name, bound in said}


def no_match(options: Options) -> str:
    return (
        f"no topic matches topicPattern {options.pattern}; it is compared with the whole name, projects/P/topics/T, "
        "or with the short one in the default project"
    )


def starting(broker: BrokerClient, options: Options, known: Mapping[str, Bound], default: str) -> Offsets:
    """Where to begin in each topic."""
    if options.starting_time is not None:
        found = find(broker, dict.fromkeys(known, options.starting_time))
        for name, offset in found.items():
            if offset >= known[name].tail and options.strategy == "error":
                raise PenstockError(
                    f"nothing was published to {name} since startingTimestamp; "
                    "set startingOffsetsByTimestampStrategy to latest to begin with what comes"
                )
        return found
    said = options.starting or default
    if isinstance(said, str):
        return ordered({name: bound.head if said == "earliest" else bound.tail for name, bound in known.items()})
    given = _by_full_name(places(said), known, "startingOffsets")
    found = {name: _place(given.get(name, EARLIEST), bound) for name, bound in known.items()}
    for name in known:
        if is_replaced(name, identities(said), known):
            report_loss(options, replaced(name), topic=name)
            found[name] = known[name].head
    return ordered(found)


def may_move(options: Options) -> bool:
    """Whether a start of a stream is another one when it is worked out later."""
    if options.starting_time is not None:
        return options.strategy == "latest"
    said = options.starting or "latest"
    return said == "latest" or (isinstance(said, dict) and LATEST in said.values())


def ending(broker: BrokerClient, options: Options, known: Mapping[str, Bound]) -> Offsets:
    """Where to end in each topic, exclusive."""
    if options.ending_time is not None:
        return find(broker, dict.fromkeys(known, options.ending_time))
    said = options.ending or "latest"
    if isinstance(said, str):
        return ordered({name: bound.tail if said == "latest" else bound.head for name, bound in known.items()})
    for name in known:
        if is_replaced(name, identities(said), known):
            raise DataLossError(f"endingOffsets were taken from another topic: {replaced(name)}", topic=name)
    given = _by_full_name(places(said), known, "endingOffsets")
    return ordered({name: _place(given.get(name, LATEST), bound) for name, bound in known.items()})


def _place(offset: int, bound: Bound) -> int:
    return {EARLIEST: bound.head, LATEST: bound.tail}.get(offset, offset)


def find(broker: BrokerClient, times: Mapping[str, int]) -> Offsets:
    """The first offset published then or later, by topic."""
    return ordered(broker.ask("find", times=dict(times))["offsets"]) if times else {}


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
            raise DataLossError(
                f"{name} ends at offset {known[name].tail}, and reading was to begin at {offset}; was it deleted and "
                "made again, or is this another broker? Set failOnDataLoss to false to go on from there",
                topic=name,
                wanted=offset,
            )


def backwards(name: str, first: int, until: int) -> str:
    return f"the batch to run begins at offset {first} of {name} and ends before it, at {until}"
