"""The acks, nacks and deadlines of a subscription handle, sent to the queue in batches.

A refusal of the queue becomes an `error` event, an answer after the deadline a `debug` event.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.consuming import Settled
from penstock.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PenstockError,
    PermissionDeniedError,
)
from penstock.pubsub.message import ACK, NACK, AckResponse, Received
from penstock.pubsub.session import Outbox, Session

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

RESPONSES: dict[type[PenstockError], AckResponse] = {
    InvalidArgumentError: AckResponse.INVALID,
    PermissionDeniedError: AckResponse.PERMISSION_DENIED,
    FailedPreconditionError: AckResponse.FAILED_PRECONDITION,
    NotFoundError: AckResponse.FAILED_PRECONDITION,
}

RAISED_FIRST_SECONDS = 0.1  # delay after a listener's second failure; it doubles with each further one
RAISED_LAST_SECONDS = 60.0


class Return(NamedTuple):
    """The way in which messages are returned."""

    delay_seconds: float | None = None  # None: the retry policy's delay, or none
    unseen: bool = False  # True: the message reached no listener, so the delivery does not count as an attempt


FAILED = Return()


class Acks:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self.subscription = subscription
        self._session = session
        self._read_clock = session.clock.now
        self.seen_at = 0  # time of the last answer
        self._acks: list[Received] = []  # acks before the deadline, which count even if they are sent after it
        self._other_acks: list[Received] = []  # other acks; the queue decides whether they count
        self._returns: dict[Return, list[Received]] = {}
        self._held_back = 0
        self.outbox = Outbox(session, self._send)
        self.in_loop = session.in_loop  # runs a function in the event loop, from any thread

    # ------------------------------------------------------------------ answers, sent in batches

    def ack(self, message: Received) -> None:
        (self._acks if self._release(message) else self._other_acks).append(message)
        self._count()

    def nack(self, message: Received, how: Return = FAILED) -> None:
        self._release(message)
        self._returns.setdefault(how, []).append(message)
        self._count()

    def fail(self, message: Received) -> None:
        """Return a message whose listener raised: at once the first time, then after growing delays."""
        if message.take_answer(NACK):
            stored, again = self.subscription.stored(), message.delivery_attempt - 2
            if again < 0 or (stored is not None and stored.options.retry_minimum_seconds > 0):
                self.nack(message)
            else:
                pause = min(RAISED_FIRST_SECONDS * 2 ** min(again, 30), RAISED_LAST_SECONDS)
                self.nack(message, Return(pause))

    def put_back(self, message: Received) -> None:
        """Return a message that reached no listener."""
        if message.take_answer(NACK):
            self.nack(message, Return(unseen=True))

    def _release(self, message: Received) -> bool:
        self.seen_at = self._read_clock()
        return message.leases is not None and message.leases.release(message, self.seen_at)

    def _count(self) -> None:
        options = self.subscription.options
        if not self._held_back:
            self.outbox.hold_back(options.batch_seconds)
        self._held_back += 1
        if self._held_back >= options.batch_messages:
            self.outbox.flush()

    def _send(self) -> asyncio.Task[None]:
        """Send the batch. Acks are decided now, so that a busy event loop does not delay them past their deadlines."""
        queue = self._session.queue
        acks = [queue.ack(_receipts(self._acks), lapsed=True)] if self._acks else []
        acks += [queue.ack(_receipts(self._other_acks))] if self._other_acks else []
        task = self._session.spawn(self._store(acks, self._returns))
        self._acks, self._other_acks, self._returns, self._held_back = [], [], {}, 0
        return task

    async def _store(self, acks: list[asyncio.Future[Settled]], returns: dict[Return, list[Received]]) -> None:
        for ack in acks:
            await self._report("ack", ack)
        for how, messages in returns.items():
            nack = self._session.queue.nack(_receipts(messages), how.delay_seconds, unseen=how.unseen)
            await self._report("nack", nack)

    async def _report(self, action: str, decision: asyncio.Future[Settled]) -> None:
        try:
            settled = await decision
        except PenstockError as error:
            self.subscription.report(error)
        else:
            if settled.stale:
                self.subscription.remark(f"{len(settled.stale)} x {action} came too late")

    # ------------------------------------------------------------------ deadlines, sent at once

    def extend(self, message: Received, seconds: float) -> None:
        if message.leases is not None:
            message.leases.catch_up()
        self._set_deadline([message], seconds, lapsed=False)
        if message.leases is not None:
            message.leases.move(message, seconds)

    def hold(self, messages: list[Received], seconds: float) -> None:
        """Extend leases of messages in listeners, also leases that ended unnoticed while the event loop was busy."""
        self._set_deadline(messages, seconds, lapsed=True)

    def _set_deadline(self, messages: list[Received], seconds: float, *, lapsed: bool) -> None:
        decision = self._session.queue.extend(_receipts(messages), seconds, lapsed=lapsed)
        self._session.spawn(self._report("deadline", decision))

    # ------------------------------------------------------------------ answers with a response

    async def respond(self, message: Received, answer: str) -> AckResponse:
        queue = self._session.use()
        self._release(message)
        try:
            settled = await (queue.ack if answer == ACK else queue.nack)([message.ack_id])
        except PenstockError as error:
            return RESPONSES.get(type(error), AckResponse.OTHER)
        return self.late() if settled.stale or settled.malformed else AckResponse.SUCCESS

    def late(self) -> AckResponse:
        """Return the response to an answer that came too late."""
        stored = self.subscription.stored()
        if stored is None:
            return AckResponse.FAILED_PRECONDITION
        if not stored.options.exactly_once:
            return AckResponse.SUCCESS
        return AckResponse.FAILED_PRECONDITION if stored.detached else AckResponse.INVALID


def _receipts(messages: list[Received]) -> list[str]:
    return [message.ack_id for message in messages]
