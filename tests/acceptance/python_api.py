"""The harness of the Python API: every kind of queue below the API, and a clock that the test moves.

No test sleeps. A test moves the clock, and then waits for an event. To check that something does not happen, a test
first waits until all tasks and threads are idle.
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
SECONDS = 10  # only a failing test waits this long

Story = Callable[["Harness"], Awaitable[None]]


class Harness:
    """A PubSub client on one kind of queue, with a clock that stands still until the test moves it."""

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
        """Close the store in an orderly way and open it again."""
        await self.close()
        self.pubsub = self._open()
        return self.pubsub

    # ------------------------------------------------------------------ time

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for an event that happens without moving the clock."""
        async with asyncio.timeout(SECONDS):
            while not happened():
                await asyncio.sleep(0 if self.kind == "memory" else 0.0005)

    async def quiet(self) -> None:
        """Wait until all are idle: no thread is at work, and the event loop has nothing to do."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        calm = 0
        async with asyncio.timeout(SECONDS):
            while calm < 3:
                await asyncio.sleep(0.0005 if self._is_busy() else 0)
                calm = 0 if self._is_busy() or ready else calm + 1

    def _is_busy(self) -> bool:
        return bool(self.pubsub.session.queue.loop._writer._waiters)

    async def advance(self, seconds: float) -> None:
        """Move the clock in steps of half a second, so that every timer on the way can run."""
        await self.quiet()
        steps = max(1, round(seconds / 0.5))
        for _ in range(steps):
            self.clock.advance(seconds / steps)
            await self.quiet()

    # ------------------------------------------------------------------ shortcuts

    async def topic(self, name: str = "my-topic", **options: Any) -> Topic:
        topic = self.pubsub.topic(name, **options)
        return await topic.create()

    def listen(self, subscription: Subscription, answer: Callable[[Message], Any] | None = None) -> list[Message]:
        """Open the subscription and return the list of messages that it receives.

        Each is passed to `answer`, if given.
        """
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
    """Turn a coroutine into a test that runs with each of these kinds of queue."""

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
    """Close without waiting for unanswered messages."""
    for subscription in list(harness.pubsub.session.streams):
        subscription.set_options(close_options={"behavior": "NACK"})
    await harness.close()
