"""Rows that count only when somebody says so: staged first, published by a decision.

The rule kept here: what a decision covers is published once, whoever dies and whoever asks again. The pieces in
which rows are copied follow from the decision and the log alone, so their publish-once keys are the same every time.
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
from penstock.doors.flight.broker import Broker
from penstock.doors.flight.letters import CursorAt, Decision, Rows
from penstock.errors import DamagedStoreError, InvalidArgumentError, PenstockError, where
from penstock.journal.codec import decode_messages

TARGET = "penstock-target"  # the attribute that says where a staged row goes
TOPIC_ID = "penstock-staging"
KEEP_SECONDS = 86400  # rows that no decision was made on are kept so long, whatever the server's retention
PIECE_ROWS = 5_000
PIECE_BYTES = 4 << 20
IN_FLIGHT = 4  # publishes on their way


class Staging:
    def __init__(self, broker: Broker, names: codec.Names, log: logging.Logger) -> None:
        self._broker = broker
        self._names = names
        self._log = log
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self.topic = names.topic(TOPIC_ID)
        self._ready = False

    def open(self) -> str:
        """The topic where staged rows wait."""
        if not self._ready:
            self._broker.ensure_topic(self.topic, KEEP_SECONDS)
            self._ready = True
        return self.topic

    def decide(self, asked: codec.StageDecide) -> dict[str, Any]:
        if not asked.query or len(asked.query) > 200:
            raise InvalidArgumentError("stage.decide: a query has a name of 1 to 200 characters")
        ranges = [(part.first, part.first + part.rows) for parts in asked.parts for part in parts if part.rows]
        self._check(ranges)
        with self._locks[asked.query]:
            known = self._broker.decision(asked.query)
            if known is not None and not known.finished and known.epoch < asked.epoch:
                self._publish(known)
            decided = self._broker.decide(Decision(asked.query, asked.epoch, ranges))
            if not decided.decision.finished:
                self._publish(decided.decision)
        rows = sum(until - first for first, until in decided.decision.ranges)
        return {"repeated": decided.repeated, "rows": rows}

    def finish(self, queries: list[str]) -> None:
        """Publish what was decided before this process began, in a thread of its own."""
        for query in queries:
            threading.Thread(target=self._finish, args=(query,), daemon=True).start()

    def _finish(self, query: str) -> None:
        try:
            with self._locks[query]:
                known = self._broker.decision(query)
                if known is not None and not known.finished:
                    self._publish(known)
                    self._log.info("epoch %d of query %s is published", known.epoch, query)
        except PenstockError as error:
            self._log.error("a decided epoch of query %s could not be published: %s", query, error.message)
        except Exception as error:  # noqa: BLE001 - a bug; the next decision of the query tries again
            self._log.error("publishing an epoch of query %s failed: %s", query, where(error))

    def _check(self, ranges: list[tuple[int, int]]) -> None:
        if not ranges:
            return
        topic = self._broker.topic(self.open())
        for first, until in ranges:
            if not topic.head <= first < until <= topic.tail:
                raise InvalidArgumentError(f"stage.decide: no rows are staged from {first} to {until}")

    # ------------------------------------------------------------------ the copy

    def _publish(self, decision: Decision) -> None:
        if decision.ranges:
            holder = f"staging-{decision.query}"
            first = min(first for first, _ in decision.ranges)
            cursor = CursorAt(
                self.topic.replace("/topics/", "/subscriptions/") + f"-{decision.query}", holder, self.topic, first
            )
            self._broker.open_cursors([cursor])  # nothing is forgotten while it is copied
            self._copy(decision)
            self._broker.finish(decision.query, decision.epoch)
            self._broker.delete_cursors(holder)
        else:
            self._broker.finish(decision.query, decision.epoch)

    def _copy(self, decision: Decision) -> None:
        producer = f"staging:{decision.query}"
        answers: deque[Future[bytes]] = deque()
        for sequence, messages in enumerate(self._pieces(decision.ranges)):
            for topic, rows in _by_target(messages).items():
                answers.append(self._broker.publish(topic, [rows], producer, decision.epoch, sequence))
            while len(answers) > IN_FLIGHT:
                self._broker.published(answers.popleft())
        for answer in answers:
            self._broker.published(answer)

    def _pieces(self, ranges: list[tuple[int, int]]) -> Iterator[list[Message]]:
        topic = self._broker.topic(self.topic)
        for first, until in ranges:
            piece: list[Message] = []
            size = 0
            for batch in self._broker.stored(topic, first, until):
                for message in decode_messages(batch.body):
                    if first <= message.offset < until:
                        piece.append(message)
                        size += message.size
                        if len(piece) >= PIECE_ROWS or size >= PIECE_BYTES:
                            yield piece
                            piece, size = [], 0
            if piece:
                yield piece


def _by_target(messages: list[Message]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for message in messages:
        attributes = dict(message.attributes)
        target = attributes.pop(TARGET, None)
        if target is None:
            raise DamagedStoreError("A staged message does not say where it goes")
        rows = found.setdefault(target, Rows([], []))
        rows.drafts.append((message.data, attributes, message.ordering_key))
        rows.sizes.append(message.size - len(TARGET) - len(target.encode()))
    return found
