"""Flow control of streaming pulls: the messages sent to a stream that are neither settled nor returned.

It follows the broker's facts, so it is exact however a message was settled: on the stream, by a unary call or by the
end of its lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.broker import facts as f
from penstock.engine.port import Delivery, News

UNLIMITED_MESSAGES = 50_000  # the limits of a stream that asks for no limit
UNLIMITED_BYTES = 512 << 20


class Outstanding:
    """The outstanding messages of one stream."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages if 0 < max_messages < UNLIMITED_MESSAGES else UNLIMITED_MESSAGES
        self._max_bytes = max_bytes if 0 < max_bytes < UNLIMITED_BYTES else UNLIMITED_BYTES
        self._sizes: dict[int, int] = {}  # bytes of each outstanding message, by offset
        self._bytes = 0
        self._changed = asyncio.Event()

    @property
    def room_messages(self) -> int:
        return self._max_messages - len(self._sizes) if self._bytes < self._max_bytes else 0

    @property
    def room_bytes(self) -> int:
        return self._max_bytes - self._bytes

    def add(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            message = delivery[0]
            if message.offset not in self._sizes:
                self._sizes[message.offset] = message.size
                self._bytes += message.size

    def drop(self, offsets: Iterable[int]) -> None:
        sizes = self._sizes
        for offset in offsets:
            self._bytes -= sizes.pop(offset, 0)
        self._changed.set()

    def clear(self) -> None:
        self._sizes.clear()
        self._bytes = 0
        self._changed.set()

    def touch(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        """Wait until a message is no longer outstanding, or the subscription changed."""
        self._changed.clear()
        await self._changed.wait()


class FlowControl:
    """The outstanding messages of all streams, by the number of the subscription."""

    def __init__(self) -> None:
        self._by_subscription: dict[int, set[Outstanding]] = {}

    def open(self, subscription: int, outstanding: Outstanding) -> None:
        self._by_subscription.setdefault(subscription, set()).add(outstanding)

    def close_one(self, subscription: int, outstanding: Outstanding) -> None:
        streams = self._by_subscription.get(subscription, set())
        streams.discard(outstanding)
        if not streams:
            self._by_subscription.pop(subscription, None)

    def follow(self, queue: News) -> None:
        queue.on([f.Acked, f.Removed, f.Returned], self._on_settled)
        queue.on([f.Sought, f.Detached, f.SubscriptionDeleted, f.SubscriptionChanged], self._on_changed)

    def _on_settled(self, fact: f.Acked | f.Removed | f.Returned) -> None:
        for outstanding in self._by_subscription.get(fact.subscription, ()):
            outstanding.drop(fact.offsets)

    def _on_changed(self, fact: f.Sought | f.Detached | f.SubscriptionDeleted | f.SubscriptionChanged) -> None:
        for outstanding in self._by_subscription.get(fact.subscription, ()):
            if isinstance(fact, f.SubscriptionChanged):
                outstanding.touch()
            else:
                outstanding.clear()
