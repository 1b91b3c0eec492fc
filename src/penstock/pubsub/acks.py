"""Acks, nacks and new deadlines of a subscription on their way to the queue, many in one step.

What the queue refuses becomes an `error` event, what came too late a `debug` event; nothing is dropped in between.
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

RAISED_FIRST_SECONDS = 0.1  # how long a message waits whose listener raised for the second time
RAISED_LAST_SECONDS = 60.0


class Return(NamedTuple):
    """How a message goes back."""

    delay_seconds: float | None = None  # None: as the retry policy says, or at once
    unseen: bool = False  # it reached no listener, so it counts as no attempt


FAILED = Return()


class Acks:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self.subscription = subscription
        self._session = session
        self._read_clock = session.clock.now
        self.seen_at = 0  # when the last answer was given
        self._acks: list[Received] = []  # of messages still held: in time, whatever the clock says when they are sent
        self._other_acks: list[Received] = []  # it is up to the queue
        self._returns: dict[Return, list[Received]] = {}
        self._held_back = 0
        self.outbox = Outbox(session, self._send)
        self.in_loop = session.in_loop  # what messages call the following with, from any thread

    # ------------------------------------------------------------------ answers, soon

    def ack(self, message: Received) -> None:
        (self._acks if self._release(message) else self._other_acks).append(message)
        self._count()

    def nack(self, message: Received, how: Return = FAILED) -> None:
        self._release(message)
        self._returns.setdefault(how, []).append(message)
        self._count()

    def failed(self, message: Received) -> None:
        """Its listener raised. Once may be chance; from then on it waits longer and longer before it comes again."""
        if message.take_answer(NACK):
            stored, again = self.subscription.stored(), message.delivery_attempt - 2
            if again < 0 or (stored is not None and stored.options.retry_minimum_seconds > 0):
                self.nack(message)
            else:
                pause = min(RAISED_FIRST_SECONDS * 2 ** min(again, 30), RAISED_LAST_SECONDS)
                self.nack(message, Return(pause))

    def put_back(self, message: Received) -> None:
        """It reached no listener."""
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
        """Acks are decided now: what keeps the loop busy next must not make them late."""
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

    async def _report(self, what: str, decision: asyncio.Future[Settled]) -> None:
        try:
            settled = await decision
        except PenstockError as error:
            self.subscription.report(error)
        else:
            if settled.stale:
                self.subscription.remark(f"{len(settled.stale)} x {what} came too late")

    # ------------------------------------------------------------------ deadlines, at once

    def extend(self, message: Received, seconds: float) -> None:
        if message.leases is not None:
            message.leases.catch_up()
        self._set_deadline([message], seconds, lapsed=False)
        if message.leases is not None:
            message.leases.move(message, seconds)

    def hold(self, messages: list[Received], seconds: float) -> None:
        """They are being worked on. Their leases may be over, as the loop was kept busy, but nothing has seen it."""
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
        """The response to an answer that changes nothing any more."""
        stored = self.subscription.stored()
        if stored is None:
            return AckResponse.FAILED_PRECONDITION
        if not stored.options.exactly_once:
            return AckResponse.SUCCESS
        return AckResponse.FAILED_PRECONDITION if stored.detached else AckResponse.INVALID


def _receipts(messages: list[Received]) -> list[str]:
    return [message.ack_id for message in messages]
