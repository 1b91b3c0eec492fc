"""The queues that clients have named: where each one is in the broker, and its feed to consumers.

This is only a cache. A queue that was forgotten, or deleted through another protocol, is created again when a client
names it.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from penstock.broker.model import Draft
from penstock.doors.consumers import Consumer
from penstock.doors.resources import (
    QUEUE_OPTIONS,
    SUBSCRIPTIONS,
    TOPICS,
    is_new_name,
    parts_of,
    subscription_name,
    topic_name,
)
from penstock.doors.text.codec import Phrases
from penstock.doors.text.errors import invalid_queue
from penstock.doors.text.feeds import Feed, PutBack
from penstock.doors.text.options import TextOptions
from penstock.engine.port import Appended, Queue
from penstock.errors import PenstockError, ResourceExhaustedError
from penstock.names import NEW_NAME_RULE
from penstock.wording import counted

REMEMBERED_MAX = 10_000
RETRY_SECONDS = 1.0


class TextQueue:
    def __init__(self, name: bytes, project: str, queue: Queue, limits: TextOptions, put_back: PutBack) -> None:
        self.name = name
        self._queue = queue
        short_name = name.decode()
        if limits.projects and "@" in short_name:
            short_name, _, project = short_name.rpartition("@")
        self._topic = topic_name(project, short_name)
        self._subscription = subscription_name(project, short_name)
        self._may_be_new = is_new_name(self._topic, TOPICS)
        self._content_bytes_max = limits.message_bytes_max
        self._phrases: dict[tuple[int, bool], Phrases] = {}
        self.feed = Feed(queue, name, self._topic, self._subscription, limits, put_back, self.provide)

    def send(self, contents: Sequence[bytes]) -> Future[Appended]:
        if not self._may_be_new:
            return asyncio.ensure_future(self._send_existing(contents))
        return self._send(contents)

    def _send(self, contents: Sequence[bytes]) -> Future[Appended]:
        drafts, sizes = list(map(Draft, contents)), self._sizes(contents)
        return self._queue.send(self._topic, self._subscription, QUEUE_OPTIONS, drafts, sizes=sizes)

    async def _send_existing(self, contents: Sequence[bytes]) -> Appended:
        await self._check_exists()
        return await self._send(contents)

    async def provide(self) -> None:
        """T-012: create the queue if it is missing, because a request names it."""
        if await self._queue.find_queue(self._topic, self._subscription) is None:
            if not self._may_be_new:
                await self._check_exists()
            await self._queue.provide_queue(self._topic, self._subscription, QUEUE_OPTIONS)

    async def _check_exists(self) -> None:
        """T-011: a name that no new queue may have is valid for a queue that the store has already."""
        if await self._queue.find_topic(self._topic) is None:
            raise invalid_queue(f"{NEW_NAME_RULE}.")

    def _sizes(self, contents: Sequence[bytes]) -> list[int] | None:
        """Return the sizes of contents, which the frames have checked. None if the broker has a lower limit."""
        most = self._queue.limits.message_max_bytes
        return list(map(len, contents)) if not most or self._content_bytes_max <= most else None

    def phrases(self, version: int, line: bool) -> Phrases:
        phrases = self._phrases.get((version, line))
        if phrases is None:
            phrases = self._phrases[version, line] = Phrases(self.name, version, line)
        return phrases


class Queues:
    def __init__(self, queue: Queue, project: str, limits: TextOptions, log: logging.Logger) -> None:
        self._queue = queue
        self._project = project
        self._limits = limits
        self._log = log
        self._queues: dict[bytes, TextQueue] = {}
        self._work: set[asyncio.Task[None]] = set()

    def get(self, name: bytes) -> TextQueue:
        queue = self._queues.get(name)
        if queue is None:
            if len(self._queues) >= REMEMBERED_MAX:
                self._queues = {name: queue for name, queue in self._queues.items() if queue.feed.in_use}
            put_back = partial(self.give_back, unseen=True)
            queue = self._queues[name] = TextQueue(name, self._project, self._queue, self._limits, put_back)
        return queue

    def consumers(self, subscription: str) -> Sequence[Consumer]:
        project, name = parts_of(subscription, SUBSCRIPTIONS)
        queue = self._queues.get(name.encode()) if project == self._project else None
        return queue.feed.consumers() if queue is not None else ()

    # ------------------------------------------------------------------ back to the queue

    def give_back(self, receipts: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False) -> None:
        """T-034, T-039: return messages to their queues in the background.

        The broker may have to read first, where a dead letter topic is set. T-044: `unseen` messages have reached no
        program, and their attempts do not count.
        """
        if receipts:
            self._start(self._return(receipts, delay_seconds, unseen))

    async def _return(self, receipts: Sequence[str], delay_seconds: float | None, unseen: bool) -> None:
        while True:
            try:
                await self._queue.nack(receipts, delay_seconds, unseen=unseen)
                return
            except ResourceExhaustedError as error:  # the disk is full: only this process has these receipts
                self._log.warning(
                    "waiting to return %s to their queues: %s", counted(len(receipts), "message"), error.message
                )
                await asyncio.sleep(RETRY_SECONDS)
            except PenstockError as error:
                # The messages stay leased until the next start, which ends every lease of this kind.
                self._log.error(
                    "could not return %s to their queues: %s", counted(len(receipts), "message"), error.message
                )
                return

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def wait_for_returns(self) -> None:
        """Wait until all messages were returned, for at most twice the pause between two attempts."""
        if self._work:
            await asyncio.wait(self._work, timeout=2 * RETRY_SECONDS)
