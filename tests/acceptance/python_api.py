"""The harness of the Python API: every kind of queue it can stand on, and a clock that waits for nobody.

No test waits for time. It moves the clock, and then waits for what should have happened; what
should not have happened is checked once everybody has had the chance to do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import ManualClock, Message, MessageQueue, PubSub, Subscription, Topic
from penstock.assembly import open_queue

KINDS = ("memory", "sqlite", "shared memory", "shared sqlite")
SECONDS = 10  # only a failing test waits so long

Story = Callable[["Harness"], Awaitable[None]]


class Harness:
    """A PubSub over one kind of queue, at a time that stands still until it is moved."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.clock = ManualClock()
        self._folder = folder / "data"
        self._shared: MessageQueue | None = None
        self.errors: list[Exception] = []
        self.remarks: list[str] = []
        self.pubsub = self._open()

    def _open(self) -> PubSub:
        data = self._folder if "sqlite" in self.kind else None
        if not self.kind.startswith("shared"):
            return PubSub(data=data, clock=self.clock)
        self._shared = self._shared or open_queue(data, clock=self.clock)
        return PubSub(queue=self._shared)

    async def close(self) -> None:
        await self.pubsub.close()
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    async def reopen(self) -> PubSub:
        """The same store, after an orderly end."""
        await self.close()
        self.pubsub = self._open()
        return self.pubsub

    # ------------------------------------------------------------------ time

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for something that needs no more time on the clock."""
        async with asyncio.timeout(SECONDS):
            while not happened():
                await asyncio.sleep(0 if self.kind == "memory" else 0.0005)

    async def quiet(self) -> None:
        """Everybody who could do something now has done it: no thread is at work, and the loop has nothing to do."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        calm = 0
        async with asyncio.timeout(SECONDS):
            while calm < 3:
                await asyncio.sleep(0.0005 if self._is_busy() else 0)
                calm = 0 if self._is_busy() or ready else calm + 1

    def _is_busy(self) -> bool:
        return bool(self.pubsub.session.queue.loop._writer._waiters)

    async def advance(self, seconds: float) -> None:
        """Let time pass, half a second at a time, so that those it concerns see it pass."""
        await self.quiet()
        steps = max(1, round(seconds / 0.5))
        for _ in range(steps):
            self.clock.advance(seconds / steps)
            await self.quiet()

    # ------------------------------------------------------------------ short ways to say common things

    async def topic(self, name: str = "my-topic", **options: Any) -> Topic:
        topic = self.pubsub.topic(name, **options)
        return await topic.create()

    def listen(self, subscription: Subscription, answer: Callable[[Message], Any] | None = None) -> list[Message]:
        """Open it; what it receives, each message answered with `answer` if there is one."""
        received: list[Message] = []

        def listener(message: Message) -> Any:
            received.append(message)
            return answer(message) if answer is not None else None

        subscription.on("message", listener)
        self.hear(subscription)
        subscription.open()
        return received

    def hear(self, subscription: Subscription) -> None:
        subscription.on("error", self.errors.append)
        subscription.on("debug", self.remarks.append)


def ack(message: Message) -> None:
    message.ack()


def bodies(messages: list[Message]) -> list[str]:
    return [message.data.decode() for message in messages]


def story(*kinds: str) -> Callable[[Story], Callable[..., None]]:
    """A test told as a coroutine, in each of these kinds of harness."""

    def decorate(tell: Story) -> Callable[..., None]:
        @pytest.mark.parametrize("kind", kinds or KINDS)
        def test(kind: str, tmp_path: Path) -> None:
            asyncio.run(_tell(tell, kind, tmp_path))

        test.__name__, test.__doc__, test.__module__ = tell.__name__, tell.__doc__, tell.__module__
        return test

    return decorate


async def _tell(tell: Story, kind: str, folder: Path) -> None:
    harness = Harness(kind, folder)
    try:
        async with asyncio.timeout(3 * SECONDS):
            await tell(harness)
    finally:
        await _end(harness)


async def _end(harness: Harness) -> None:
    """Close without waiting for messages nobody answered."""
    for subscription in list(harness.pubsub.session.streams):
        subscription.set_options(close_options={"behavior": "NACK"})
    await harness.close()
