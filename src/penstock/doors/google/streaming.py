"""StreamingPull: messages flow to a client as long as it settles what it holds.

    first request: which subscription, which deadline, how much at a time
    later ones:    acks, deadlines, a new deadline for the stream, or nothing at all (I am still here)

No more is leased than the client has room for and than the connection takes, so a client that does not read or does
not ack costs one response and what is outstanding on it, whatever waits in the subscription.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from penstock.doors.consumers import Consumer, Consumers
from penstock.doors.google import codec
from penstock.doors.google.calls import StreamingCall
from penstock.doors.google.errors import invalid, not_found
from penstock.doors.google.flow_control import FlowControl, Outstanding
from penstock.doors.google.messages import StreamingPullResponse
from penstock.doors.google.pulling import (
    DEADLINE_MAX_SECONDS,
    RESPONSE_BYTES_MAX,
    attached,
    own_receipts,
    refuse_malformed,
)
from penstock.doors.google.subscriptions import ACK_DEADLINE_MAX_SECONDS, ACK_DEADLINE_MIN_SECONDS, found
from penstock.engine.port import Delivery, Leased, Queue, SubscriptionMetadata
from penstock.errors import NotFoundError

MESSAGES_AT_ONCE = 1000
WAIT_SECONDS = 60.0


class StreamingPull:
    def __init__(self, queue: Queue, flow_control: FlowControl, consumers: Consumers) -> None:
        self._queue = queue
        self._consumers = consumers
        self._flow_control = flow_control
        self._holders: set[tuple[int, str]] = set()  # of open streams
        self._numbers = count(1)

    async def serve(self, call: StreamingCall) -> None:
        first = await call.next_request()
        if first is None:
            raise invalid("The first message must set subscription.")
        check_first(first)
        metadata = await attached(self._queue, first.subscription)
        call.begin(metadata.name)
        outstanding = Outstanding(first.max_outstanding_messages, first.max_outstanding_bytes)
        holder = self._holder(metadata.number, first.client_id)
        listener = Listener(self._queue, call, metadata.name, first, outstanding, holder)
        self._flow_control.open(metadata.number, outstanding)
        self._holders.add((metadata.number, holder))
        self._queue.time.connect(metadata.number, holder, first.stream_ack_deadline_seconds)
        try:
            window = max(0, first.max_outstanding_messages)
            with self._consumers.present(metadata.name, Consumer("stream", holder, call.peer, window=window)):
                await listener.serve(first)
        finally:
            self._flow_control.close_one(metadata.number, outstanding)
            self._holders.discard((metadata.number, holder))
            self._queue.time.disconnect(metadata.number, holder)

    def _holder(self, subscription: int, client_id: str) -> str:
        """A client that comes back under its name goes on with its keys; parallel streams have keys of their own."""
        if client_id and (subscription, client_id) not in self._holders:
            return client_id
        return f"stream-{next(self._numbers)}"


class Listener:
    """One open stream: it reads requests, leases messages and sends them, and all three end together."""

    def __init__(
        self, queue: Queue, call: StreamingCall, name: str, first: Any, outstanding: Outstanding, holder: str
    ) -> None:
        self._queue = queue
        self._call = call
        self._name = name
        self._outstanding = outstanding
        self._deadline_seconds = first.stream_ack_deadline_seconds
        self._batches: asyncio.Queue[Leased] = asyncio.Queue(1)
        self._unsent: list[list[Delivery]] = []  # batches on their way to the client
        self._holder = holder
        self._answers_pings = first.protocol_version >= 1

    async def serve(self, first: Any) -> None:
        self._call.open()
        await self._settle(first)
        tasks = [asyncio.ensure_future(work) for work in (self._read(), self._pull(), self._write())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except NotFoundError:
            raise not_found(self._name) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._queue.put_back([delivery for batch in self._unsent for delivery in batch])

    # ------------------------------------------------------------------ messages out

    async def _pull(self) -> None:
        """Lease batch after batch; while one is on its way to the disk the next is chosen."""
        while True:
            metadata, held = await attached(self._queue, self._name), self._outstanding
            if metadata.detached or held.room_messages <= 0:
                await held.changed()
                continue
            leased = await self._queue.lease(
                self._name,
                min(held.room_messages, MESSAGES_AT_ONCE),
                lease_seconds=self._deadline_seconds,
                max_bytes=min(held.room_bytes, RESPONSE_BYTES_MAX),
                wait_seconds=WAIT_SECONDS,
                holder=self._holder,
            )
            if leased.deliveries:
                self._unsent.append(leased.deliveries)
                held.add(leased.deliveries)
                await self._batches.put(leased)

    async def _write(self) -> None:
        while True:
            leased = await self._batches.get()
            await leased.durable
            options = (await found(self._queue, self._name)).options
            messages = codec.received_messages(leased.deliveries, with_attempts=bool(options.dead_letter_topic))
            await self._call.send(messages + self._properties(options))
            self._call.messages += len(leased.deliveries)
            self._unsent.remove(leased.deliveries)

    def _properties(self, options: Any) -> bytes:
        return codec.subscription_properties(exactly_once=options.exactly_once, ordering=options.ordering)

    # ------------------------------------------------------------------ requests in

    async def _read(self) -> None:
        while (request := await self._call.next_request()) is not None:
            check_later(request)
            if request.stream_ack_deadline_seconds:
                self._deadline_seconds = request.stream_ack_deadline_seconds
            if request.ack_ids or request.modify_deadline_ack_ids:
                await self._settle(request)
            elif self._answers_pings and not request.stream_ack_deadline_seconds:
                await self._call.send(self._properties((await found(self._queue, self._name)).options))

    async def _settle(self, request: Any) -> None:
        metadata = await found(self._queue, self._name)
        confirmations = StreamingPullResponse()
        if request.ack_ids:
            await self._ack(metadata, list(request.ack_ids), confirmations.acknowledge_confirmation)
        if request.modify_deadline_ack_ids:
            await self._extend(metadata, request, confirmations.modify_ack_deadline_confirmation)
        if metadata.options.exactly_once and confirmations.ByteSize():
            await self._call.send(confirmations.SerializeToString() + self._properties(metadata.options))

    async def _ack(self, metadata: SubscriptionMetadata, receipts: list[str], confirmation: Any) -> None:
        own = own_receipts(metadata, receipts)
        bad = set((await self._queue.examine(own)).stale) if metadata.options.exactly_once else set()
        settled = await self._queue.ack([receipt for receipt in own if receipt not in bad])
        refuse_malformed(settled.malformed)
        if metadata.options.exactly_once:  # their leases may have ended since
            bad.update(settled.stale)
        good = [receipt for receipt in own if receipt not in bad]
        self._call.acks += len(good)
        confirmation.ack_ids.extend(good)
        confirmation.invalid_ack_ids.extend(sorted(bad))

    async def _extend(self, metadata: SubscriptionMetadata, request: Any, confirmation: Any) -> None:
        receipts = list(request.modify_deadline_ack_ids)
        own = set(own_receipts(metadata, receipts))
        bad = set((await self._queue.examine(list(own))).stale) if metadata.options.exactly_once else set()
        by_seconds: dict[int, list[str]] = {}
        for receipt, seconds in zip(receipts, request.modify_deadline_seconds, strict=True):
            if receipt in own and receipt not in bad:
                by_seconds.setdefault(seconds, []).append(receipt)
        for seconds, group in by_seconds.items():
            settled = await self._queue.extend(group, seconds)
            refuse_malformed(settled.malformed)
            if metadata.options.exactly_once:
                bad.update(settled.stale)
            confirmation.ack_ids.extend(receipt for receipt in group if receipt not in bad)
        confirmation.invalid_ack_ids.extend(sorted(bad))


def check_first(request: Any) -> None:
    if not request.subscription:
        raise invalid("The first message must set subscription.")
    if not request.stream_ack_deadline_seconds:
        raise invalid("The first message must set stream_ack_deadline_seconds.")
    _check_any(request)


def check_later(request: Any) -> None:
    if request.subscription:
        raise invalid("The subscription may only be set in the first message.")
    if request.max_outstanding_messages or request.max_outstanding_bytes:
        raise invalid("Flow control settings may only be set in the first message.")
    if request.protocol_version:
        raise invalid("The protocol_version may only be set in the first message.")
    _check_any(request)


def _check_any(request: Any) -> None:
    seconds = request.stream_ack_deadline_seconds
    if seconds and not ACK_DEADLINE_MIN_SECONDS <= seconds <= ACK_DEADLINE_MAX_SECONDS:
        raise invalid("The stream_ack_deadline_seconds must be between 10 and 600 seconds.")
    if len(request.modify_deadline_ack_ids) != len(request.modify_deadline_seconds):
        raise invalid("The ack IDs and deadlines must have the same size.")
    if any(not 0 <= each <= DEADLINE_MAX_SECONDS for each in request.modify_deadline_seconds):
        raise invalid("The modify_deadline_seconds must be between 0 and 600 seconds.")
