"""StreamingPull: messages are sent to a client within its flow control limits.

    first request:   the subscription, the ack deadline, the flow control limits
    later requests:  acks, deadlines, a new deadline for the stream, or nothing (a ping)

The stream leases only messages for which the client and the connection have room. So a client that does not read or
does not ack costs one response and its outstanding messages, however large the backlog is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
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
    foreign_receipts,
    get_pullable,
    invalid_receipts,
    refuse_malformed,
)
from penstock.doors.google.settling import Settling
from penstock.doors.google.subscriptions import ACK_DEADLINE_MAX_SECONDS, ACK_DEADLINE_MIN_SECONDS, get_subscription
from penstock.engine.port import Delivery, Leased, Queue, SubscriptionMetadata
from penstock.errors import NotFoundError

MESSAGES_AT_ONCE = 1000
WAIT_SECONDS = 60.0
# The newest message is delivered this long after its commit, so that its publisher gets the answer first. Answer and
# message use different connections, so a client would often see the message first if both were sent together. An event
# loop rounds timers to a millisecond, so the delay is not longer.
ANSWER_LEAD_SECONDS = 0.001


class StreamingPull:
    def __init__(self, queue: Queue, flow_control: FlowControl, consumers: Consumers) -> None:
        self._queue = queue
        self._consumers = consumers
        self._flow_control = flow_control
        self._holders: set[tuple[int, str]] = set()  # subscription and holder of every open stream
        self._numbers = count(1)

    async def serve(self, call: StreamingCall) -> None:
        first = await call.next_request()
        if first is None:
            raise invalid("The first message must set subscription.")
        check_first(first)
        metadata = await get_pullable(self._queue, first.subscription)
        call.begin(metadata.name)
        outstanding = Outstanding(first.max_outstanding_messages, first.max_outstanding_bytes)
        holder = self._holder(metadata.number, first.client_id)
        listener = Listener(self._queue, call, metadata.name, first, outstanding, holder)
        self._flow_control.open(metadata.number, outstanding)
        self._holders.add((metadata.number, holder))
        self._queue.connect_consumer(metadata.number, holder, first.stream_ack_deadline_seconds)
        try:
            window = max(0, first.max_outstanding_messages)
            with self._consumers.present(metadata.name, Consumer("stream", holder, call.peer, window=window)):
                await listener.serve(first)
        finally:
            self._flow_control.close_one(metadata.number, outstanding)
            self._holders.discard((metadata.number, holder))
            self._queue.disconnect_consumer(metadata.number, holder)

    def _holder(self, subscription: int, client_id: str) -> str:
        """Return the holder name of a stream. A client that reconnects keeps its name, and so its ordering keys."""
        if client_id and (subscription, client_id) not in self._holders:
            return client_id
        return f"stream-{next(self._numbers)}"


class Listener:
    """One open stream: tasks that read requests, await commits, lease messages and send them. They end together."""

    def __init__(
        self, queue: Queue, call: StreamingCall, name: str, first: Any, outstanding: Outstanding, holder: str
    ) -> None:
        self._queue = queue
        self._call = call
        self._name = name
        self._outstanding = outstanding
        self._deadline_seconds = first.stream_ack_deadline_seconds
        self._batches: asyncio.Queue[Leased] = asyncio.Queue(1)
        self._settling = Settling(call)
        self._unsent: list[list[Delivery]] = []  # leased batches that are not sent yet
        self._loop = asyncio.get_running_loop()
        self._quiet_until = 0.0  # in the time of the event loop: until then publishers get their answers
        self._holder = holder
        self._answers_pings = first.protocol_version >= 1

    async def serve(self, first: Any) -> None:
        self._call.open()
        works = (self._read(first), self._settling.run(), self._pull(), self._write())
        tasks = [asyncio.ensure_future(work) for work in works]
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
            self._settling.close()
            self._queue.put_back([delivery for batch in self._unsent for delivery in batch])

    # ------------------------------------------------------------------ messages out

    async def _pull(self) -> None:
        """Lease batch after batch. The next batch is chosen while the last one is being committed."""
        waited = False
        while True:
            metadata, held = await get_pullable(self._queue, self._name), self._outstanding
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
                if waited or leased.deliveries[-1].message.offset + 1 >= leased.tail:  # possibly just published
                    leased.durable.add_done_callback(self._begin_quiet)
                await self._batches.put(leased)
            waited = not leased.deliveries

    def _begin_quiet(self, _: asyncio.Future[None]) -> None:
        self._quiet_until = self._loop.time() + ANSWER_LEAD_SECONDS

    async def _write(self) -> None:
        while True:
            leased = await self._batches.get()
            await leased.durable
            if (quiet_seconds := self._quiet_until - self._loop.time()) > 0:
                await asyncio.sleep(quiet_seconds)
            options = (await get_subscription(self._queue, self._name)).options
            messages = codec.received_messages(leased.deliveries, with_attempts=bool(options.dead_letter_topic))
            await self._call.send(messages + self._properties(options))
            self._call.messages += len(leased.deliveries)
            self._unsent.remove(leased.deliveries)

    def _properties(self, options: Any) -> bytes:
        return codec.subscription_properties(exactly_once=options.exactly_once, ordering=options.ordering)

    # ------------------------------------------------------------------ requests in

    async def _read(self, first: Any) -> None:
        try:
            await self._settle(first)
            while (request := await self._call.next_request()) is not None:
                check_later(request)
                if request.stream_ack_deadline_seconds:
                    self._deadline_seconds = request.stream_ack_deadline_seconds
                if request.ack_ids or request.modify_deadline_ack_ids:
                    await self._settle(request)
                elif self._answers_pings and not request.stream_ack_deadline_seconds:
                    await self._call.send(self._properties((await get_subscription(self._queue, self._name)).options))
        except Exception:
            await self._settling.done()  # a wrong request does not undo those before it
            raise
        await self._settling.done()

    async def _settle(self, request: Any) -> None:
        metadata = await get_subscription(self._queue, self._name)
        if metadata.options.exactly_once:
            await self._settle_confirmed(metadata, request)
        else:
            await self._settle_unconfirmed(metadata, request)

    async def _settle_unconfirmed(self, metadata: SubscriptionMetadata, request: Any) -> None:
        if request.ack_ids:
            receipts = list(request.ack_ids)
            refuse_malformed(foreign_receipts(metadata, receipts))
            await self._settling.begin(self._queue.ack, receipts, acks=len(receipts))
        refuse_malformed(foreign_receipts(metadata, request.modify_deadline_ack_ids))
        for seconds, receipts in _by_seconds(request, ()).items():
            await self._settling.begin(self._queue.extend, receipts, seconds)

    async def _settle_confirmed(self, metadata: SubscriptionMetadata, request: Any) -> None:
        confirmations = StreamingPullResponse()
        if request.ack_ids:
            await self._ack(metadata, list(request.ack_ids), confirmations.acknowledge_confirmation)
        if request.modify_deadline_ack_ids:
            await self._extend(metadata, request, confirmations.modify_ack_deadline_confirmation)
        if confirmations.ByteSize():
            await self._call.send(confirmations.SerializeToString() + self._properties(metadata.options))

    async def _ack(self, metadata: SubscriptionMetadata, receipts: list[str], confirmation: Any) -> None:
        bad = set(await invalid_receipts(self._queue, metadata, receipts))
        settled = await self._queue.ack([receipt for receipt in receipts if receipt not in bad], strict=False)
        bad.update(settled.stale, settled.malformed)  # leases that ended after they were examined
        good = [receipt for receipt in receipts if receipt not in bad]
        self._call.acks += len(good)
        confirmation.ack_ids.extend(good)
        confirmation.invalid_ack_ids.extend(sorted(bad))

    async def _extend(self, metadata: SubscriptionMetadata, request: Any, confirmation: Any) -> None:
        bad = set(await invalid_receipts(self._queue, metadata, list(request.modify_deadline_ack_ids)))
        for seconds, receipts in _by_seconds(request, bad).items():
            settled = await self._queue.extend(receipts, seconds, strict=False)
            bad.update(settled.stale, settled.malformed)
            confirmation.ack_ids.extend(receipt for receipt in receipts if receipt not in bad)
        confirmation.invalid_ack_ids.extend(sorted(bad))


def _by_seconds(request: Any, bad: Collection[str]) -> dict[int, list[str]]:
    """Group the receipts of a request by their new deadline in seconds, leaving out the bad ones."""
    groups: dict[int, list[str]] = {}
    for receipt, seconds in zip(request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=True):
        if receipt not in bad:
            groups.setdefault(seconds, []).append(receipt)
    return groups


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
    if any(not 0 <= value <= DEADLINE_MAX_SECONDS for value in request.modify_deadline_seconds):
        raise invalid("The modify_deadline_seconds must be between 0 and 600 seconds.")
