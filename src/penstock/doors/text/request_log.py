"""A connection whose requests are logged: one line for each queue that one read names, with the number of messages.

One read can bring hundreds of messages, which share one commit. So they share one line.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Any

from penstock.doors.text.connection import TextConnection
from penstock.doors.text.replies import Reply
from penstock.doors.text.requests import Consume, Fault, Return
from penstock.wire.request_log import BEGUN, RequestLog
from penstock.wire.text_frames import ACKNOWLEDGE, CONSUME, RETURN, SEND, UNREAD

if TYPE_CHECKING:
    from penstock.doors.text.server import TextDoor

VERBS = {SEND: "send", CONSUME: "consume", ACKNOWLEDGE: "acknowledge", RETURN: "return", UNREAD: "unread"}
OK, LOST = "ok", "unavailable"


class LoggedConnection(TextConnection):
    __slots__ = ("_consuming", "_requests")

    def __init__(self, host: TextDoor, requests: RequestLog) -> None:
        super().__init__(host)
        self._requests = requests
        self._consuming: dict[bytes, float] = {}  # the time at which the consumer began, by queue

    def connection_lost(self, exc: Exception | None) -> None:
        for queue in list(self._consuming):
            self._end_consume(queue)
        super().connection_lost(exc)

    def _publish(self, reply: Reply) -> None:
        reply.since = self._requests.clock()
        super()._publish(reply)

    def _conclude(self, reply: Reply) -> None:
        acks = list(reply.acks)  # _conclude() removes the durable ones
        super()._conclude(reply)
        for batch in reply.batches.values():
            if batch.sent is not None:
                self._log_commit(SEND, batch.queue.name, batch.sent, reply.since, len(batch.contents))
        for ack in acks:
            self._log_commit(ACKNOWLEDGE, ack.window.feed.name, ack.done, reply.since, len(ack.released))

    def _log_commit(self, kind: int, queue: bytes, done: Future[Any], since: float, messages: int) -> None:
        self._log(kind, queue, OK if done.exception() is None else LOST, since, messages=messages)

    def _consume(self, event: Consume) -> None:
        super()._consume(event)
        if event.limit:
            self._consuming.setdefault(event.queue, self._requests.clock())
            self._log(CONSUME, event.queue, BEGUN, window=event.limit)
        else:
            self._end_consume(event.queue)

    def _end_consume(self, queue: bytes) -> None:
        since, window = self._consuming.pop(queue, None), (self._windows or {}).get(queue)
        if since is not None and window is not None:
            self._log(CONSUME, queue, OK, since, messages=window.sent, outstanding=len(window.held))

    def _give_back(self, event: Return, reply: Reply) -> None:
        before = len(reply.answers)
        super()._give_back(event, reply)
        if len(reply.answers) == before:  # not refused
            self._log(UNREAD if event.unread else RETURN, event.queue, OK, messages=1)

    def _note(self, fault: Fault) -> bool:
        self._log(fault.refused, fault.queue, fault.code)
        return super()._note(fault)

    def _log(self, kind: int, queue: bytes, result: str, since: float | None = None, **counts: int) -> None:
        self._requests.write(VERBS.get(kind, ""), queue.decode(errors="replace"), result, since, **counts)
