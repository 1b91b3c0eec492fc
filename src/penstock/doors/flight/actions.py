"""The actions of Flight clients. Actions that need the log are answered here, others are forwarded to the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.doors.flight import codec, ranges
from penstock.doors.flight.link import ReaderEnd
from penstock.doors.flight.staging import Staging
from penstock.doors.flight.topic_log import TopicLog
from penstock.errors import InvalidArgumentError, NotFoundError

PATTERN_MAX = 1000
FORWARDED_BYTES_MAX = 16 << 20  # of a body that is forwarded, which the server reads as a whole


class Actions:
    def __init__(self, link: ReaderEnd, log: TopicLog, names: codec.Names, staging: Staging) -> None:
        self._link = link
        self._log = log
        self._names = names
        self._own: dict[str, Callable[[Any], Any]] = {
            "bounds": self._bounds,
            "limit": self._limit,
            "split": self._split,
            "stage.decide": staging.decide,
            "help": lambda _: {"actions": {name: action.help for name, action in codec.ACTIONS.items()}},
        }

    def answer(self, kind: str, body: bytes) -> bytes:
        action = codec.ACTIONS.get(kind)
        if action is None:
            raise NotFoundError(f"There is no action {kind[:100]}; the action help lists the actions")
        own = self._own.get(kind)
        if own is None:
            return self._forward(kind, body)
        return codec.write(own(codec.read(body, action.request, kind)))

    def _forward(self, kind: str, body: bytes) -> bytes:
        if len(body) > FORWARDED_BYTES_MAX:
            raise InvalidArgumentError(f"{kind}: more than {FORWARDED_BYTES_MAX >> 20} MiB")
        return self._link.call(kind, body)

    def _bounds(self, asked: codec.Bounds) -> Any:
        """Return the server's answer. A pattern is matched here, so that it does not hold up the server."""
        if asked.pattern is not None:
            match_whole(asked.pattern, [])  # says what is wrong with it before any waiting
        answer = self._forward("bounds", codec.write(asked))
        if asked.pattern is None:
            return msgspec.Raw(answer)
        topics = msgspec.json.decode(answer)["topics"]
        short = [self._names.short(name, asked.project) for name in topics]
        matches = zip(topics, match_whole(asked.pattern, list(topics)), match_whole(asked.pattern, short), strict=True)
        return {"topics": {name: topics[name] for name, *matched in matches if any(matched)}}

    def _limit(self, asked: codec.Limit) -> Any:
        for limit in (asked.rows, asked.bytes):
            if limit is not None and limit < 1:
                raise InvalidArgumentError("limit: rows and bytes are 1 or more, or null")
        start, until = self._names.topics(asked.start), self._names.topics(asked.until)
        topics = {topic.name: topic for topic in self._log.bounds(list(start))}
        spans = [ranges.backlog(self._log, topics[name], first, until.get(name)) for name, first in start.items()]
        return {
            "until": ranges.limit(self._log, spans, asked.rows, asked.bytes),
            "heads": {name: topic.head for name, topic in topics.items()},
            "tails": {name: topic.tail for name, topic in topics.items()},
            "identities": {name: topic.identity for name, topic in topics.items()},
        }

    def _split(self, asked: codec.Split) -> Any:
        if asked.bytes < 1 or asked.parts < 0 or (asked.rows is not None and asked.rows < 1):
            raise InvalidArgumentError("split: bytes and rows are 1 or more, parts is 0 or more")
        names = [self._names.topic(part.topic) for part in asked.ranges]
        topics = {topic.name: topic for topic in self._log.bounds(list(dict.fromkeys(names)), missing_ok=True)}
        spans, replaced = [], []
        for name, part in zip(names, asked.ranges, strict=True):
            if name not in topics:
                continue
            topic = topics[name]
            if part.identity not in ("", topic.identity):
                replaced.append(topic.name)
                continue
            first, until = ranges.check_range(topic, part.first, part.until, lossy=True)
            if first < until:
                spans.append(ranges.span(self._log, topic, first, until))
        parts = ranges.split(self._log, spans, asked.bytes, asked.rows, asked.parts)
        rows = [{"topic": p.topic.name, "first": p.first, "until": p.until, "bytes": p.bytes} for p in parts]
        return {"parts": rows, "replaced": replaced, "gone": [name for name in names if name not in topics]}


def match_whole(pattern: str, texts: list[str]) -> list[bool]:
    """Return for each text whether a pattern matches it as a whole.

    Arrow matches with RE2, which reads a text once. Python's `re` can take for ever, and every client would wait.
    """
    if len(pattern) > PATTERN_MAX:
        raise InvalidArgumentError(f"A pattern may have at most {PATTERN_MAX} characters")
    try:
        pc.match_substring_regex(pa.scalar(""), pattern)  # alone: in a group, a parenthesis too many would be valid
        matches: list[bool] = pc.match_substring_regex(pa.array(texts, pa.string()), rf"\A(?:{pattern})\z").to_pylist()
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"The pattern is not a regular expression of RE2: {error}") from None
    return matches
