"""The settlement of deliveries: acks, nacks and new deadlines on their way to the queue, many in one step.

The rule kept here: an answer leaves the inventory at once and reaches the queue soon; what the queue refuses becomes
an `error` event, what came too late a `debug` event, and nothing is dropped in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.consuming import Settled
from penstock.engine.clock import Alarm
from penstock.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PenstockError,
    PermissionDeniedError,
)
from penstock.pubsub.message import NACK, AckResponse, Message
from penstock.pubsub.session import Session

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

    delay_seconds: float | None  # None: as the retry policy says, or at once
    unseen: bool


FAILED, UNSEEN = Return(None, False), Return(None, True)


class Settlement:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self.subscription = subscription
        self._session = session
        self._read_clock = session.clock.now
        self.seen_at = 0  # when the last answer was given
        self._acks: list[Message] = []  # of messages still held: in time, whatever the clock says when they are sent
        self._loose_acks: list[Message] = []  # of others: it is up to the queue
        self._returns: dict[Return, list[Message]] = {}
        self._held_back = 0
        self._alarm: Alarm | None = None  # when what is held back goes
        self._sending: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ answers, soon

    def ack(self, message: Message) -> None:
        self._session.in_loop(self._note_ack, message)

    def nack(self, message: Message, how: Return = FAILED) -> None:
        self._session.in_loop(self._note_return, message, how)

    def failed(self, message: Message) -> None:
        """Its listener raised. Once may be chance; from then on it waits, longer and longer, or it would never rest."""
        if message.take_answer(NACK):
            again = message.delivery_attempt - 2
            pause = min(RAISED_FIRST_SECONDS * 2 ** min(again, 30), RAISED_LAST_SECONDS) if again >= 0 else None
            self.nack(message, FAILED if self._has_retry_policy() else Return(pause, False))

    def _has_retry_policy(self) -> bool:
        queue, name = self._session.queue, self.subscription.name
        return queue.subscription_exists(name) and queue.subscription(name).options.retry_minimum_seconds > 0

    def put_back(self, message: Message) -> None:
        """It never reached anybody."""
        if message.take_answer(NACK):
            self.nack(message, UNSEEN)

    def _note_ack(self, message: Message) -> None:
        """What every message goes through, so it is told once more here what `_let_go` says."""
        shelf, self.seen_at = message._shelf, self._read_clock()
        if shelf is not None and shelf.due <= self.seen_at:
            shelf.inventory.catch_up()
            shelf = message._shelf
        if shelf is None:
            self._loose_acks.append(message)
        else:
            shelf.inventory.release(message)
            self._acks.append(message)
        self._count(1)

    def _note_return(self, message: Message, how: Return) -> None:
        self._let_go(message)
        self._returns.setdefault(how, []).append(message)
        self._count(1)

    def _let_go(self, message: Message) -> None:
        self._look_at(message)
        if message._shelf is not None:
            message._shelf.inventory.release(message)

    def _look_at(self, message: Message) -> None:
        """A lease whose end has passed is extended or over: the event loop has kept us from seeing to it."""
        shelf, self.seen_at = message._shelf, self._read_clock()
        if shelf is not None and shelf.due <= self.seen_at:
            shelf.inventory.catch_up()

    # ------------------------------------------------------------------ deadlines, at once

    def extend(self, message: Message, seconds: float) -> None:
        self._session.in_loop(self._extend, message, seconds)

    def _extend(self, message: Message, seconds: float) -> None:
        self._look_at(message)
        self._set_deadline([message], seconds, lapsed=False)
        if message._shelf is not None:
            message._shelf.inventory.move(message, seconds)

    def hold(self, messages: list[Message], seconds: float) -> None:
        """They are being worked on. Their leases may be over, as the loop was kept busy, but nobody has noticed."""
        self._set_deadline(messages, seconds, lapsed=True)

    def _set_deadline(self, messages: list[Message], seconds: float, *, lapsed: bool) -> None:
        try:
            settled = self._session.queue.decide_extend(_receipts(messages), seconds, lapsed=lapsed)
        except PenstockError as error:
            self.subscription.report(error)
        else:
            self._remark("deadline", settled)

    def _count(self, messages: int) -> None:
        batching = self.subscription.options.batching
        if not self._held_back:
            self._alarm = self._session.hold_back(self, batching.max_seconds)
        self._held_back += messages
        if self._held_back >= batching.max_messages:
            self.flush()

    def flush(self) -> None:
        self._session.let_go(self, self._alarm)
        if self._held_back:
            acked = self._ack_all(self._acks, lapsed=True) | self._ack_all(self._loose_acks, lapsed=False)
            send = self._send(acked, {how: _receipts(each) for how, each in self._returns.items()})
            task = self._session.spawn(send)
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
            self._returns, self._held_back = {}, 0
            self._acks, self._loose_acks = [], []

    def _ack_all(self, messages: list[Message], *, lapsed: bool) -> bool:
        """Decide them now: what keeps the loop busy next must not make them late."""
        if not messages:
            return False
        try:
            settled = self._session.queue.decide_acks(_receipts(messages), lapsed=lapsed)
        except PenstockError as error:
            self.subscription.report(error)
            return False
        self._remark("ack", settled)
        return True

    async def drain(self) -> None:
        """Until every answer given so far is in the queue."""
        self.flush()
        if self._sending:
            await asyncio.wait(self._sending)

    async def _send(self, acked: bool, returns: dict[Return, list[str]]) -> None:
        queue = self._session.queue
        try:
            if acked:
                await queue.commit()
            for how, receipts in returns.items():
                self._remark("nack", await queue.nack(receipts, how.delay_seconds, unseen=how.unseen))
        except PenstockError as error:
            self.subscription.report(error)

    def _remark(self, what: str, settled: Settled) -> None:
        if settled.stale:
            self.subscription.remark(f"{len(settled.stale)} x {what} came too late")

    # ------------------------------------------------------------------ answers with a response

    async def ack_now(self, message: Message) -> AckResponse:
        return await self._now(message, self._session.use("ack_with_response()").ack)

    async def nack_now(self, message: Message) -> AckResponse:
        return await self._now(message, self._session.use("nack_with_response()").nack)

    async def _now(self, message: Message, settle: Callable[[Sequence[str]], Awaitable[Settled]]) -> AckResponse:
        self._let_go(message)
        try:
            settled = await settle([message.ack_id])
        except PenstockError as error:
            return RESPONSES.get(type(error), AckResponse.OTHER)
        return self.late() if settled.stale or settled.malformed else AckResponse.SUCCESS

    def late(self) -> AckResponse:
        """The response to an answer that changes nothing any more."""
        try:
            metadata = self._session.queue.subscription(self.subscription.name)
        except NotFoundError:
            return AckResponse.FAILED_PRECONDITION
        if not metadata.options.exactly_once:
            return AckResponse.SUCCESS
        return AckResponse.FAILED_PRECONDITION if metadata.detached else AckResponse.INVALID


def _receipts(messages: Sequence[Message]) -> list[str]:
    return [message._delivery.receipt for message in messages]
