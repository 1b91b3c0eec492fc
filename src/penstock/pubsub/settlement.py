"""The settlement of deliveries: acks, nacks and new deadlines on their way to the queue, many in one step.

The rule kept here: an answer leaves the inventory at once and reaches the queue soon; what the queue refuses becomes
an `error` event, what came too late a `debug` event, and nothing is dropped in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from penstock.broker.consuming import Settled
from penstock.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PenstockError,
    PermissionDeniedError,
)
from penstock.faces.clock import Alarm
from penstock.pubsub.message import AckResponse, Message
from penstock.pubsub.session import Session

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription

RESPONSES: dict[type[PenstockError], AckResponse] = {
    InvalidArgumentError: AckResponse.INVALID,
    PermissionDeniedError: AckResponse.PERMISSION_DENIED,
    FailedPreconditionError: AckResponse.FAILED_PRECONDITION,
    NotFoundError: AckResponse.FAILED_PRECONDITION,
}


class Settlement:
    def __init__(self, subscription: Subscription, session: Session) -> None:
        self.subscription = subscription
        self._session = session
        self._acks: list[Message] = []
        self._nacks: list[Message] = []
        self._extensions: dict[float, list[Message]] = {}
        self._held_back = 0
        self._alarm: Alarm | None = None  # when what is held back goes
        self._sending: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ answers, soon

    def ack(self, message: Message) -> None:
        self._session.in_loop(self._note, message, self._acks)

    def nack(self, message: Message) -> None:
        self._session.in_loop(self._note, message, self._nacks)

    def extend(self, message: Message, seconds: float) -> None:
        self._session.in_loop(self._note_extension, [message], seconds)

    def extend_all(self, messages: list[Message], seconds: float) -> None:
        """For leases that are extended automatically; their inventory knows."""
        self._extensions.setdefault(seconds, []).extend(messages)
        self._count(len(messages))

    def _note(self, message: Message, messages: list[Message]) -> None:
        shelf = message._shelf
        if shelf is not None:
            shelf.inventory.release(message)
        messages.append(message)
        self._count(1)

    def _note_extension(self, messages: list[Message], seconds: float) -> None:
        for message in messages:
            if message._shelf is not None:
                message._shelf.inventory.move(message, seconds)
        self.extend_all(messages, seconds)

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
            send = self._send(self._extensions, _receipts(self._acks), _receipts(self._nacks))
            task = self._session.spawn(send)
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
            self._extensions, self._held_back = {}, 0
            self._acks.clear()
            self._nacks.clear()

    async def drain(self) -> None:
        """Until every answer given so far is in the queue."""
        self.flush()
        if self._sending:
            await asyncio.wait(self._sending)

    async def _send(self, extensions: dict[float, list[Message]], acks: list[str], nacks: list[str]) -> None:
        queue = self._session.queue
        for seconds, messages in extensions.items():
            receipts = _receipts([message for message in messages if not message._answered])
            if receipts:
                await self._settle("deadline", queue.extend(receipts, seconds))
        if acks:
            await self._settle("ack", queue.ack(acks))
        if nacks:
            await self._settle("nack", queue.nack(nacks))

    async def _settle(self, what: str, settling: Awaitable[Settled]) -> None:
        try:
            settled = await settling
        except PenstockError as error:
            self.subscription.report(error)
        else:
            if settled.stale:
                self.subscription.remark(f"{len(settled.stale)} x {what} came too late")

    # ------------------------------------------------------------------ answers with a response

    async def ack_now(self, message: Message) -> AckResponse:
        return await self._now(message, self._session.use("ack_with_response()").ack)

    async def nack_now(self, message: Message) -> AckResponse:
        return await self._now(message, self._session.use("nack_with_response()").nack)

    async def _now(self, message: Message, settle: Callable[[Sequence[str]], Awaitable[Settled]]) -> AckResponse:
        if message._shelf is not None:
            message._shelf.inventory.release(message)
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
