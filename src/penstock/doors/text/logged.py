"""A connection with lines in the request log: one for each queue of what one read asks, with a count of messages.

A client sends hundreds of messages in a read and is answered after one commit; so is the log.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Any

from penstock.doors.text.connection import TextConnection
from penstock.doors.text.queues import Turn
from penstock.doors.text.requests import Consume, Fault, Return
from penstock.wire.requestlog import BEGUN, RequestLog
from penstock.wire.textframes import ACKNOWLEDGE, CONSUME, RETURN, SEND, UNREAD

if TYPE_CHECKING:
    from penstock.doors.text.server import TextDoor

VERBS = {SEND: "send", CONSUME: "consume", ACKNOWLEDGE: "acknowledge", RETURN: "return", UNREAD: "unread"}
OK, LOST = "ok", "unavailable"


class LoggedConnection(TextConnection):
    __slots__ = ("_consuming", "_requests")

    def __init__(self, host: TextDoor, requests: RequestLog) -> None:
        super().__init__(host)
        self._requests = requests
        self._consuming: dict[bytes, float] = {}  # since when, by queue

    def connection_lost(self, exc: Exception | None) -> None:
        for queue in list(self._consuming):
            self._end_consume(queue)
        super().connection_lost(exc)

    def _publish(self, turn: Turn) -> None:
        turn.since = self._requests.clock()
        super()._publish(turn)

    def _conclude(self, turn: Turn) -> None:
        acks = list(turn.acks)  # those that are durable are gone afterwards
        super()._conclude(turn)
        for batch in turn.batches.values():
            if batch.sent is not None:
                self._settled(SEND, batch.queue.name, batch.sent, turn.since, len(batch.contents))
        for ack in acks:
            self._settled(ACKNOWLEDGE, ack.window.feed.name, ack.done, turn.since, len(ack.taken))

    def _settled(self, kind: int, queue: bytes, done: Future[Any], since: float, messages: int) -> None:
        self._line(kind, queue, OK if done.exception() is None else LOST, since, messages=messages)

    def _consume(self, event: Consume) -> None:
        super()._consume(event)
        if event.limit:
            self._consuming.setdefault(event.queue, self._requests.clock())
            self._line(CONSUME, event.queue, BEGUN, window=event.limit)
        else:
            self._end_consume(event.queue)

    def _end_consume(self, queue: bytes) -> None:
        since, window = self._consuming.pop(queue, None), (self._windows or {}).get(queue)
        if since is not None and window is not None:
            self._line(CONSUME, queue, OK, since, messages=window.sent, outstanding=len(window.held))

    def _give_back(self, event: Return, turn: Turn) -> None:
        before = len(turn.answers)
        super()._give_back(event, turn)
        if len(turn.answers) == before:  # not refused
            self._line(UNREAD if event.unread else RETURN, event.queue, OK, messages=1)

    def _note(self, fault: Fault) -> bool:
        self._line(fault.refused, fault.queue, fault.code)
        return super()._note(fault)

    def _line(self, kind: int, queue: bytes, result: str, since: float | None = None, **counts: int) -> None:
        self._requests.write(VERBS.get(kind, ""), queue.decode(errors="replace"), result, since, **counts)
