"""The methods Pull, Acknowledge and ModifyAckDeadline.

An empty answer is sent before the caller's deadline. With exactly-once delivery, a request that has expired receipts
changes nothing and its error lists them, so that the client can repeat the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from penstock.doors.consumers import Consumer, Consumers, pull_holder
from penstock.doors.google import codec, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import CallError, Code, bad_argument, failed_precondition, invalid
from penstock.doors.google.messages import Empty
from penstock.doors.google.subscriptions import get_subscription, is_detached, is_pushed
from penstock.engine.port import Queue, Settled, SubscriptionMetadata

PULL_MESSAGES_MAX = 1000
# Clients refuse answers of 4 MiB. The broker's byte counts leave out the framing, which is at most about 900 KB.
RESPONSE_BYTES_MAX = 3 << 20
PULL_WAIT_SECONDS = 30.0  # if the caller has no deadline
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
        metadata = await get_pullable(self._queue, request.subscription)
        limit = min(request.max_messages, PULL_MESSAGES_MAX)
        holder = pull_holder(next(self._numbers), context.peer)
        with self._consumers.present(metadata.name, Consumer("pull", holder, context.peer, window=limit)):
            deliveries = await self._queue.pull(
                metadata.name,
                limit,
                max_bytes=RESPONSE_BYTES_MAX,
                wait_seconds=0 if request.return_immediately else wait_seconds(context.time_remaining()),
                holder=holder,
            )
        return codec.received_messages(deliveries, with_attempts=bool(metadata.options.dead_letter_topic))

    async def acknowledge(self, request: Any, context: Context) -> Any:
        receipts, exactly_once = await self._receipts(request, context)
        _check_settled(await self._queue.ack(receipts, strict=False), receipts, exactly_once)
        return Empty()

    async def modify_ack_deadline(self, request: Any, context: Context) -> Any:
        await get_subscription(self._queue, request.subscription)
        ranges.within("ack_deadline_seconds", request.ack_deadline_seconds, 0, DEADLINE_MAX_SECONDS)
        receipts, exactly_once = await self._receipts(request, context)
        settled = await self._queue.extend(receipts, request.ack_deadline_seconds, strict=False)
        _check_settled(settled, receipts, exactly_once)
        return Empty()

    async def _receipts(self, request: Any, context: Context) -> tuple[list[str], bool]:
        """Return the receipts of a request and whether delivery is exactly once. Refuse invalid receipts."""
        metadata = await get_subscription(self._queue, request.subscription)
        if context.size > ACK_REQUEST_BYTES_MAX:
            raise invalid(f"Request payload size exceeds the limit: {ACK_REQUEST_BYTES_MAX} bytes.")
        if not request.ack_ids:
            raise bad_argument("ack_ids")
        receipts = list(request.ack_ids)
        _refuse_invalid(await invalid_receipts(self._queue, metadata, receipts), receipts)
        return receipts, metadata.options.exactly_once


def _check_settled(settled: Settled, receipts: Sequence[str], exactly_once: bool) -> None:
    """Raise CallError if some receipts were invalid."""
    if exactly_once:
        _refuse_invalid(settled.stale + settled.malformed, receipts)
    else:
        refuse_malformed(settled.malformed)


def _refuse_invalid(bad: Sequence[str], receipts: Sequence[str]) -> None:
    """Refuse a request of an exactly-once subscription, and list the receipts that will never be valid."""
    if not bad:
        return
    listed: dict[str, str] = {}
    room = DETAILS_BYTES_MAX
    for receipt in sorted(bad, key=len):
        room -= len(receipt.encode()) + len(PERMANENT) + 8
        if room < 0:
            break
        listed[receipt] = PERMANENT
    if not listed:  # none fits into the trailers, so this server issued none of them
        raise invalid(INVALID_RECEIPTS)
    # Clients repeat the receipts that are not listed only after a temporary error such as ABORTED.
    code = Code.INVALID_ARGUMENT if set(listed) == set(receipts) else Code.ABORTED
    raise CallError(code, INVALID_RECEIPTS, listed, "EXACTLY_ONCE_ACKID_FAILURE")


async def invalid_receipts(queue: Queue, metadata: SubscriptionMetadata, receipts: Sequence[str]) -> list[str]:
    """Return the receipts that a request must not act on: of another subscription, malformed or stale.

    Without exactly-once delivery the list is empty: foreign receipts are refused, and stale receipts do no harm.
    """
    foreign = foreign_receipts(metadata, receipts)
    if not metadata.options.exactly_once:
        refuse_malformed(foreign)
        return []
    excluded = set(foreign)
    examined = await queue.examine([receipt for receipt in receipts if receipt not in excluded])
    return list(dict.fromkeys([*foreign, *examined.malformed, *examined.stale]))


def foreign_receipts(metadata: SubscriptionMetadata, receipts: Iterable[str]) -> list[str]:
    prefix = f"{metadata.number}-"
    return [receipt for receipt in receipts if not receipt.startswith(prefix)]


def refuse_malformed(receipts: Sequence[str]) -> None:
    if receipts:
        raise invalid(f"{INVALID_RECEIPTS} (ack_id={receipts[0][:100]})")


def wait_seconds(remaining: float | None) -> float:
    """Return how long to wait for messages, so that the answer arrives before the caller's deadline."""
    if remaining is None:
        return PULL_WAIT_SECONDS
    return max(0.0, remaining - min(PULL_MARGIN_SECONDS, remaining / 2))


async def get_pullable(queue: Queue, name: str) -> SubscriptionMetadata:
    """Return a subscription. Raise CallError if it is detached by request or has a push endpoint."""
    metadata = await get_subscription(queue, name)
    if metadata.detached and is_detached(metadata):
        raise failed_precondition("The subscription is detached from its topic.")
    if is_pushed(metadata):
        raise failed_precondition("This method is not supported for push subscriptions.")
    return metadata
