"""Deliveries as doors see them: leasing messages, and settling them by their receipts."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol

from penstock.broker.consuming import Delivery, Peeked, Renewed, Settled
from penstock.engine.views import Holding, Lease, Unsettled


class Leased(NamedTuple):
    """Messages that have just been leased."""

    deliveries: list[Delivery]
    tail: int  # of the topic. Once the lease is durable, all messages before the tail are durable, too
    durable: Future[None]  # done when the lease is durable, failed if it never will be


class Leasing(Protocol):
    def pull(
        self,
        name: str,
        max_messages: int,
        *,
        lease_seconds: float | None = None,
        max_bytes: int = 0,
        wait_seconds: float = 0,
        holder: str = "",
    ) -> Awaitable[list[Delivery]]:
        """Lease up to `max_messages`. If no message is ready, wait up to `wait_seconds` for one.

        `holder` names the consumer. While a holder has messages of an ordering key, no other holder gets messages with
        that key. If the caller is cancelled, the messages leased for it are returned. The wait ends with an
        UnavailableError when the server stops.
        """

    def lease(
        self,
        name: str,
        max_messages: int,
        *,
        lease_seconds: float | None = None,
        max_bytes: int = 0,
        wait_seconds: float = 0,
        holder: str = "",
    ) -> Awaitable[Leased]:
        """Lease messages without waiting for the commit of the lease, so that the caller can lease the next ones.

        If no message is ready, wait until there may be one, and return without messages. The caller then tries again.
        """

    def lease_at(self, name: str, offsets: Sequence[int], *, holder: str = "") -> Awaitable[list[Delivery]]:
        """Lease the messages at these offsets, if they are unacked and not leased. The leases have no deadline.

        Raise FailedPreconditionError for a subscription with message ordering.
        """

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return leased messages that never reached a consumer. The delivery does not count as an attempt."""

    def peek(self, name: str, max_messages: int) -> Future[Peeked]:
        """Return messages that a pull would lease, without leasing them."""


class Settling(Protocol):
    def ack(self, receipts: Sequence[str], *, lapsed: bool = False, strict: bool = True) -> Future[Settled]:
        """Ack deliveries by their receipts.

        `lapsed`: also accept receipts of leases that ended after the client sent the ack, if the end was not noticed.
        `strict`: a receipt is valid until its deadline. Otherwise it is valid until the message is delivered again.
        Subscriptions with exactly-once delivery are always strict.
        """

    def ack_delivered(self, subscription: int, places: Sequence[tuple[int, ...]]) -> Future[int]:
        """Ack deliveries of a subscription by offset and stamp. Return how many of them were still valid."""

    def nack(
        self,
        receipts: Sequence[str],
        delay_seconds: float | None = None,
        *,
        unseen: bool = False,
        strict: bool = True,
    ) -> Future[Settled]:
        """Return messages by their receipts. `strict`: as for `ack`.

        `unseen`: the messages never reached a consumer, so the delivery does not count as an attempt.
        """

    def extend(
        self, receipts: Sequence[str], seconds: float, *, lapsed: bool = False, strict: bool = True
    ) -> Future[Settled]:
        """Set the deadlines of leases to `seconds` from now. 0 returns the messages.

        `lapsed`, `strict`: as for `ack`.
        """

    def renew(self, receipt: str, seconds: float, data: bytes | None = None, *, strict: bool = True) -> Future[Renewed]:
        """Replace a receipt by a new one with a new deadline, and optionally the body. `strict`: as for `ack`."""

    def examine(self, receipts: Sequence[str]) -> Awaitable[Settled]:
        """Return which receipts a strict ack would refuse, without settling any."""


class Inspecting(Protocol):
    def is_unacked(self, name: str, offset: int) -> Awaitable[bool]:
        """Return whether a message is still to be settled on a subscription and has not expired."""

    def unacked(self, name: str, first: int, most: int) -> Awaitable[list[int]]:
        """Return up to `most` ascending offsets from `first` that a subscription has not settled, leased or not."""

    def unsettled(self, name: str, first: int, most: int) -> Awaitable[list[Unsettled]]:
        """Return the same messages as `unacked`, each with its stage and the time it waits for."""

    def leases(self, name: str, first: int, most: int) -> Awaitable[list[Lease]]:
        """Return up to `most` leases of a subscription in ascending order of offset, from `first`."""

    def holdings(self, name: str, most: int) -> Awaitable[list[Holding]]:
        """Return the leases of a subscription summed up by consumer, from at most `most` leases."""
