"""Pull, Acknowledge and ModifyAckDeadline.

An empty answer comes before the caller's deadline, never after it; and where delivery is exactly once, a request with
receipts that are no longer good changes nothing and names them, so that the client can repeat the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from penstock.broker.names import parse_receipt
from penstock.doors.consumers import Consumer, Consumers, pull_holder
from penstock.doors.google import codec, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import CallError, Code, bad_argument, failed_precondition, invalid
from penstock.doors.google.messages import Empty
from penstock.doors.google.subscriptions import found, is_detached, is_pushed
from penstock.engine.port import Queue, Settled, SubscriptionMetadata

PULL_MESSAGES_MAX = 1000
# Clients refuse answers of 4 MiB. What the broker counts as bytes leaves out the framing, at most some 900 KB of it.
RESPONSE_BYTES_MAX = 3 << 20
PULL_WAIT_SECONDS = 30.0  # where the caller has no deadline
PULL_MARGIN_SECONDS = 1.0
ACK_REQUEST_BYTES_MAX = 524_288
DEADLINE_MAX_SECONDS = 600

INVALID_RECEIPTS = (
    "Some acknowledgement ids in the request were invalid. This could be because the acknowledgement ids have expired "
    "or the acknowledgement ids were malformed."
)
DETAILS_BYTES_MAX = 5_000  # clients may refuse trailers beyond 8 KiB, and these travel in base64
PERMANENT = "PERMANENT_FAILURE_INVALID_ACK_ID"


class Pulling:
    def __init__(self, queue: Queue, consumers: Consumers) -> None:
        self._queue = queue
        self._consumers = consumers
        self._numbers = count(1)

    async def pull(self, request: Any, context: Context) -> bytes:
        if request.max_messages <= 0:
            raise bad_argument("max_messages")
        metadata = await attached(self._queue, request.subscription)
        most = min(request.max_messages, PULL_MESSAGES_MAX)
        holder = pull_holder(next(self._numbers), context.peer)
        with self._consumers.present(metadata.name, Consumer("pull", holder, context.peer, window=most)):
            deliveries = await self._queue.pull(
                metadata.name,
                most,
                max_bytes=RESPONSE_BYTES_MAX,
                wait_seconds=0 if request.return_immediately else wait_seconds(context.time_remaining()),
                holder=holder,
            )
        return codec.received_messages(deliveries, with_attempts=bool(metadata.options.dead_letter_topic))

    async def acknowledge(self, request: Any, context: Context) -> Any:
        receipts, exactly_once = await self._receipts(request, context)
        _answer_for(await self._queue.ack(receipts), receipts, exactly_once)
        return Empty()

    async def modify_ack_deadline(self, request: Any, context: Context) -> Any:
        await found(self._queue, request.subscription)
        ranges.within("ack_deadline_seconds", request.ack_deadline_seconds, 0, DEADLINE_MAX_SECONDS)
        receipts, exactly_once = await self._receipts(request, context)
        _answer_for(await self._queue.extend(receipts, request.ack_deadline_seconds), receipts, exactly_once)
        return Empty()

    async def _receipts(self, request: Any, context: Context) -> tuple[list[str], bool]:
        """The receipts of a request, if it may act on them, and whether delivery is exactly once."""
        metadata = await found(self._queue, request.subscription)
        if context.size > ACK_REQUEST_BYTES_MAX:
            raise invalid(f"Request payload size exceeds the limit: {ACK_REQUEST_BYTES_MAX} bytes.")
        if not request.ack_ids:
            raise bad_argument("ack_ids")
        receipts = own_receipts(metadata, list(request.ack_ids))
        if metadata.options.exactly_once:
            _answer_for(await self._queue.examine(receipts), receipts, exactly_once=True)
        return receipts, metadata.options.exactly_once


def _answer_for(settled: Settled, receipts: Sequence[str], exactly_once: bool) -> None:
    """CallError for what was wrong with receipts."""
    if not exactly_once:
        return refuse_malformed(settled.malformed)
    stale = settled.stale + settled.malformed
    if stale:
        listed = stale[: max(1, DETAILS_BYTES_MAX // (max(map(len, stale)) + len(PERMANENT) + 8))]
        # Clients repeat what is not listed only if the code is one of those that pass.
        code = Code.INVALID_ARGUMENT if len(listed) == len(receipts) else Code.ABORTED
        raise CallError(code, INVALID_RECEIPTS, dict.fromkeys(listed, PERMANENT), "EXACTLY_ONCE_ACKID_FAILURE")


def own_receipts(metadata: SubscriptionMetadata, receipts: list[str]) -> list[str]:
    """The receipts to act on; exactly-once says itself what is wrong with one of another subscription."""
    prefix = f"{metadata.number}-"
    foreign = [receipt for receipt in receipts if not receipt.startswith(prefix)]
    if foreign and metadata.options.exactly_once:
        foreign = [receipt for receipt in foreign if parse_receipt(receipt) is None]
    refuse_malformed(foreign)
    return receipts


def refuse_malformed(receipts: Sequence[str]) -> None:
    if receipts:
        raise invalid(f"{INVALID_RECEIPTS} (ack_id={receipts[0][:100]})")


def wait_seconds(remaining: float | None) -> float:
    """How long to wait for messages, so that the answer arrives before the caller gives up."""
    if remaining is None:
        return PULL_WAIT_SECONDS
    return max(0.0, remaining - min(PULL_MARGIN_SECONDS, remaining / 2))


async def attached(queue: Queue, name: str) -> SubscriptionMetadata:
    """A subscription that may be pulled: one without its topic may be, and gives nothing."""
    metadata = await found(queue, name)
    if metadata.detached and is_detached(metadata):
        raise failed_precondition("The subscription is detached from its topic.")
    if is_pushed(metadata):
        raise failed_precondition("This method is not supported for push subscriptions.")
    return metadata
