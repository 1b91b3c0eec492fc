"""The actions of the door: one function each, from a JSON body to a JSON answer.

The rule kept here: one action asks the server once, or once for each thing it has to know, and decides nothing that
the broker decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock.doors.flight import codec, ranges
from penstock.doors.flight.broker import Broker
from penstock.doors.flight.letters import CursorAt, CursorSeen, TopicBounds
from penstock.doors.flight.staging import Staging
from penstock.errors import InvalidArgumentError, NotFoundError

MICROSECOND = 1000  # in nanoseconds, the broker's unit
INSTANT_MAX = 2**63 // MICROSECOND - 1


class Action(NamedTuple):
    act: Callable[[Any], Any]
    request: type[Any]
    help: str


class Actions:
    def __init__(self, broker: Broker, names: codec.Names, staging: Staging) -> None:
        self._broker = broker
        self._names = names
        self._staging = staging
        self.table: dict[str, Action] = {
            "bounds": Action(self._bounds, codec.Bounds, "Head, tail and kept bytes of topics; can wait for more."),
            "find": Action(self._find, codec.Find, "The first offset published at or after a time, by topic."),
            "limit": Action(self._limit, codec.Limit, "Where to read until, within limits in rows and bytes."),
            "split": Action(self._split, codec.Split, "Ranges cut into parts, by stored bytes."),
            "cursor.open": Action(self._open, codec.CursorMove, "Open named cursors, or say where they stand."),
            "cursor.advance": Action(self._advance, codec.CursorMove, "Move named cursors forward."),
            "cursor.list": Action(self._list, codec.CursorList, "Named cursors, where they stand and their lag."),
            "cursor.delete": Action(self._delete, codec.CursorDelete, "Delete the cursors of a consumer."),
            "topic.ensure": Action(self._ensure, codec.TopicEnsure, "Create a topic unless it is there."),
            "stage.decide": Action(self._decide, codec.StageDecide, "Publish staged rows of an epoch, once."),
            "stage.last": Action(self._last, codec.StageLast, "The last decided epoch of a query."),
            "help": Action(self._help, codec.Request, "What there is."),
        }

    def answer(self, kind: str, body: bytes) -> bytes:
        action = self.table.get(kind)
        if action is None:
            raise NotFoundError(f"There is no action {kind[:100]}; the action help says what there is")
        return codec.write(action.act(codec.read(body, action.request, kind)))

    # ------------------------------------------------------------------ topics

    def _bounds(self, asked: codec.Bounds) -> Any:
        if asked.topics is not None and asked.pattern is not None:
            raise InvalidArgumentError("bounds: topics and pattern exclude each other")
        if not 0 <= asked.wait_seconds <= 30:
            raise InvalidArgumentError("bounds: wait_seconds is from 0 to 30")
        pattern = codec.compile_pattern(asked.pattern) if asked.pattern is not None else None
        names = None if asked.topics is None else [self._names.topic(name) for name in asked.topics]
        wait_seconds = asked.wait_seconds if asked.after else 0
        after = self._names.topics(asked.after)
        found = self._broker.bounds(names, after, wait_seconds, missing_ok=asked.missing_ok)
        chosen = [t for t in found if pattern is None or self._names.matches(pattern, t.name, asked.project)]
        if names is None:  # rows that wait there belong to other topics
            chosen = [topic for topic in chosen if topic.name != self._staging.topic]
        return {"topics": {topic.name: _shown(topic) for topic in chosen}}

    def _find(self, asked: codec.Find) -> Any:
        offsets = {}
        for name, at in self._names.topics(asked.times).items():
            offsets[name] = self._broker.find(name, max(0, min(at, INSTANT_MAX)) * MICROSECOND)
        self._broker.bounds([])  # an offset that was told of is durable
        return {"offsets": offsets}

    def _limit(self, asked: codec.Limit) -> Any:
        for limit in (asked.rows, asked.bytes):
            if limit is not None and limit < 1:
                raise InvalidArgumentError("limit: rows and bytes are 1 or more, or null")
        start, until = self._names.topics(asked.start), self._names.topics(asked.until)
        topics = self._topics(start)
        spans = [ranges.backlog(self._broker, topics[name], first, until.get(name)) for name, first in start.items()]
        ends = ranges.limited(self._broker, spans, asked.rows, asked.bytes)
        return {"until": ends, **ranges.heads_and_tails(topics), "identities": _identities(topics.values())}

    def _split(self, asked: codec.Split) -> Any:
        if asked.bytes < 1 or asked.parts < 0 or (asked.rows is not None and asked.rows < 1):
            raise InvalidArgumentError("split: bytes and rows are 1 or more, parts is 0 or more")
        names = [self._names.topic(each.topic) for each in asked.ranges]
        topics = {topic.name: topic for topic in self._broker.bounds(list(dict.fromkeys(names)), missing_ok=True)}
        spans, replaced = [], []
        for name, each in zip(names, asked.ranges, strict=True):
            if name not in topics:
                continue
            topic = topics[name]
            if each.identity not in ("", topic.identity):
                replaced.append(topic.name)
                continue
            first, until = ranges.checked(self._broker, topic, each.first, each.until, lossy=True)
            if first < until:
                spans.append(ranges.span(self._broker, topic, first, until))
        parts = ranges.split(self._broker, spans, asked.bytes, asked.rows, asked.parts)
        found = [{"topic": p.topic.name, "first": p.first, "until": p.until, "bytes": p.bytes} for p in parts]
        return {"parts": found, "replaced": replaced, "gone": [name for name in names if name not in topics]}

    def _topics(self, named: Mapping[str, Any]) -> dict[str, TopicBounds]:
        return {topic.name: topic for topic in self._broker.bounds(list(named))}

    def _ensure(self, asked: codec.TopicEnsure) -> Any:
        name = self._names.topic(asked.topic)
        return {"topic": name, "created": self._broker.ensure_topic(name)}

    # ------------------------------------------------------------------ cursors

    def _open(self, asked: codec.CursorMove) -> Any:
        seen = self._broker.open_cursors(self._cursors(asked))
        replaced = [each.topic for each in seen if each.replaced]
        told = {"replaced": replaced} if replaced else {}
        return {**_offsets(seen), "opened": [each.topic for each in seen if each.opened], **told}

    def _advance(self, asked: codec.CursorMove) -> Any:
        return _offsets(self._broker.advance_cursors(self._cursors(asked)))

    def _cursors(self, asked: codec.CursorMove) -> list[CursorAt]:
        many = asked.many or len(asked.offsets) > 1
        identities = self._names.topics(asked.identities)
        found = []
        for topic, offset in self._names.topics(asked.offsets).items():
            name, other = (codec.cursor_name(asked.name, topic, many=each) for each in (many, not many))
            found.append(CursorAt(name, asked.name, topic, offset, identities.get(topic, ""), other))
        return found

    def _list(self, asked: codec.CursorList) -> Any:
        seen = self._broker.cursors(asked.name)
        return {
            "cursors": [
                {"name": each.consumer, "topic": each.topic, "offset": each.offset, "lag": each.lag} for each in seen
            ]
        }

    def _delete(self, asked: codec.CursorDelete) -> Any:
        return {"deleted": self._broker.delete_cursors(asked.name)}

    # ------------------------------------------------------------------ the rest

    def _decide(self, asked: codec.StageDecide) -> Any:
        return self._staging.decide(asked)

    def _last(self, asked: codec.StageLast) -> Any:
        known = self._broker.decision(asked.query)
        return {"epoch": None if known is None else known.epoch}

    def _help(self, _: codec.Request) -> Any:
        return {"actions": {name: action.help for name, action in self.table.items()}}


def _shown(topic: TopicBounds) -> dict[str, Any]:
    size = topic.position - topic.head_position
    return {"head": topic.head, "tail": topic.tail, "bytes": size, "identity": topic.identity}


def _identities(topics: Iterable[TopicBounds]) -> dict[str, str]:
    return {topic.name: topic.identity for topic in topics}


def _offsets(seen: list[CursorSeen]) -> dict[str, Any]:
    return {"offsets": {each.topic: each.offset for each in seen}}
