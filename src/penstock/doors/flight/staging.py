"""Staged rows: rows that are uploaded first, and published when a decision says which of them count.

Decided rows are copied in pieces. The pieces and their publish-once keys depend only on the decision and the log, so
each row is published once, even if a process ends during the copy.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from penstock.broker.model import Message
from penstock.doors.flight import codec
from penstock.doors.flight.ipc import Decided, Decision, Row, Rows, pack, unpack
from penstock.doors.flight.link import ReaderEnd
from penstock.doors.flight.publisher import Publisher, result
from penstock.doors.flight.topic_log import TopicLog
from penstock.errors import DamagedStoreError, PenstockError, where
from penstock.journal.codec import decode_messages

TARGET = "penstock-target"  # the attribute with the topic of a staged row
PIECE_ROWS = 5_000
PIECE_BYTES = 4 << 20
IN_FLIGHT = 4  # publishes


class Staging:
    def __init__(self, link: ReaderEnd, topics: TopicLog, publisher: Publisher, log: logging.Logger) -> None:
        self._link = link
        self._topics = topics
        self._publisher = publisher
        self._log = log
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)  # by query
        self._topic = ""

    def topic(self) -> str:
        """Return the topic of staged rows. The first call creates it."""
        if not self._topic:
            self._topic = unpack(self._link.call("staging.open"), str)
        return self._topic

    def decide(self, asked: codec.StageDecide) -> dict[str, Any]:
        with self._locks[asked.query]:
            self._publish_unfinished(asked.query)
            decided: Decided = unpack(self._link.call("decision.put", codec.write(asked)), Decided)
            if not decided.decision.finished:
                self._publish(decided.decision)
        rows = sum(until - first for first, until in decided.decision.ranges)
        return {"repeated": decided.repeated, "rows": rows}

    def finish(self, queries: list[str]) -> None:
        """Publish the decisions made before this process started, each query in a thread."""
        for query in queries:
            threading.Thread(target=self._finish, args=(query,), daemon=True).start()

    def _finish(self, query: str) -> None:
        try:
            with self._locks[query]:
                done = self._publish_unfinished(query)
            if done is not None:
                self._log.info("epoch %d of query %s is published", done.epoch, query)
        except PenstockError as error:
            self._log.error("a decided epoch of query %s could not be published: %s", query, error.message)
        except Exception as error:  # noqa: BLE001 - a bug: the next decision of the query tries again
            self._log.error("publishing an epoch of query %s failed: %s", query, where(error))

    def _publish_unfinished(self, query: str) -> Decision | None:
        decision: Decision | None = unpack(self._link.call("decision.unfinished", pack(query)), Decision | None)
        if decision is not None:
            self._publish(decision)
        return decision

    def _publish(self, decision: Decision) -> None:
        producer = f"staging:{decision.query}"
        answers: deque[Future[bytes]] = deque()
        for sequence, messages in enumerate(self._pieces(decision.ranges)):
            for topic, rows in _by_target(messages).items():
                answers.append(self._publisher.publish(topic, [rows], producer, decision.epoch, sequence))
            while len(answers) > IN_FLIGHT:
                result(answers.popleft())
        for answer in answers:
            result(answer)
        self._link.call("decision.finish", pack((decision.query, decision.epoch)))

    def _pieces(self, ranges: list[tuple[int, int]]) -> Iterator[list[Message]]:
        if not ranges:
            return
        topic = self._topics.topic(self.topic())
        for first, until in ranges:
            piece: list[Message] = []
            size = 0
            for batch in self._topics.stored(topic, first, until):
                for message in decode_messages(batch.body):
                    if first <= message.offset < until:
                        piece.append(message)
                        size += message.size
                        if len(piece) >= PIECE_ROWS or size >= PIECE_BYTES:
                            yield piece
                            piece, size = [], 0
            if piece:
                yield piece


def _by_target(messages: list[Message]) -> dict[str, Rows[Row]]:
    topics: dict[str, Rows[Row]] = {}
    for message in messages:
        attributes = dict(message.attributes)
        target = attributes.pop(TARGET, None)
        if target is None:
            raise DamagedStoreError("A staged message has no target topic")
        rows = topics.setdefault(target, Rows([], []))
        rows.drafts.append((message.data, attributes, message.ordering_key))
        rows.sizes.append(message.size - len(TARGET) - len(target.encode()))
    return topics
