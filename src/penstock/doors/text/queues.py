"""The queues clients have named: where each lives in the broker, its feed to consumers, and what one read sends to it.

Remembering queues is only a cache: one that was forgotten, or deleted through another door, is made again when it is
next named.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from penstock.broker.model import Draft
from penstock.doors.consumers import Consumer
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, parts_of, subscription_name, topic_name
from penstock.doors.text.codec import Phrases, encode_fault
from penstock.doors.text.errors import fault_of
from penstock.doors.text.options import TextOptions
from penstock.doors.text.requests import Fault
from penstock.doors.text.windows import Feed, Place, PutBack, Window
from penstock.engine.port import Appended, Queue
from penstock.errors import LostReplyError, PenstockError, ResourceExhaustedError
from penstock.wire.textframes import SEND
from penstock.wording import counted

REMEMBERED_MAX = 10_000
RETRY_SECONDS = 1.0


class TextQueue:
    def __init__(self, name: bytes, project: str, queue: Queue, limits: TextOptions, put_back: PutBack) -> None:
        self.name = name
        self._queue = queue
        place, at, other = name.decode().rpartition("@") if limits.projects else ("", "", name.decode())
        place, project = (place, other) if at else (name.decode(), project)
        self._topic = topic_name(project, place)
        self._subscription = subscription_name(project, place)
        self._content_bytes_max = limits.message_bytes_max
        self._phrases: dict[tuple[int, bool], Phrases] = {}
        self.feed = Feed(queue, name, self._topic, self._subscription, limits, put_back)

    def send(self, contents: Sequence[bytes]) -> Future[Appended]:
        drafts, sizes = list(map(Draft, contents)), self._sizes(contents)
        return self._queue.send(self._topic, self._subscription, QUEUE_OPTIONS, drafts, sizes=sizes)

    def _sizes(self, contents: Sequence[bytes]) -> list[int] | None:
        """What the frames have checked already, unless the broker is stricter."""
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
        self._known: dict[bytes, TextQueue] = {}
        self._work: set[asyncio.Task[None]] = set()

    def named(self, name: bytes) -> TextQueue:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known = {each: one for each, one in self._known.items() if one.feed.in_use}
            put_back = partial(self.give_back, unseen=True)
            known = self._known[name] = TextQueue(name, self._project, self._queue, self._limits, put_back)
        return known

    def consumers(self, subscription: str) -> Sequence[Consumer]:
        project, name = parts_of(subscription, SUBSCRIPTIONS)
        known = self._known.get(name.encode()) if project == self._project else None
        return known.feed.consumers() if known is not None else ()

    # ------------------------------------------------------------------ back to the queue

    def give_back(self, receipts: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False) -> None:
        """T-034, T-039: soon, because where a dead letter topic is set the broker may have to read first.

        T-044: what is `unseen` reached no program, and the attempt does not count.
        """
        if receipts:
            self._start(self._return(receipts, delay_seconds, unseen))

    async def _return(self, receipts: Sequence[str], delay_seconds: float | None, unseen: bool) -> None:
        while True:
            try:
                await self._queue.nack(receipts, delay_seconds, unseen=unseen)
                return
            except ResourceExhaustedError as error:  # the disk is full: try again; only this door has these receipts
                self._log.warning(
                    "waiting to return to their queues: %s: %s", counted(len(receipts), "message"), error.message
                )
                await asyncio.sleep(RETRY_SECONDS)
            except PenstockError as error:
                # They stay leased until the next start, which ends every lease of this kind.
                self._log.error(
                    "could not return to their queues: %s: %s", counted(len(receipts), "message"), error.message
                )
                return

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def rest(self) -> None:
        """Until all that was given back has arrived, or will not arrive any more."""
        if self._work:
            await asyncio.wait(self._work, timeout=2 * RETRY_SECONDS)


class Batch:
    """What one read sends to one queue: one publish, however its messages were mixed with others."""

    __slots__ = ("contents", "queue", "sent")

    def __init__(self, queue: TextQueue, contents: list[bytes]) -> None:
        self.queue = queue
        self.contents = contents
        self.sent: Future[Appended] | None = None

    def count(self) -> int:
        """Bytes."""
        return sum(map(len, self.contents))

    def send(self) -> Future[Appended]:
        self.sent = self.queue.send(self.contents)
        return self.sent


class Accepted(NamedTuple):
    """Consecutive sends of one client to one queue, confirmed together."""

    version: int
    batch: Batch
    start: int  # their place in the batch
    total: int


class Ack(NamedTuple):
    window: Window
    taken: dict[bytes, Place]
    done: Future[int]


Answer: TypeAlias = Accepted | Fault


class Turn:
    """What one read decided and has yet to answer."""

    __slots__ = ("acks", "answers", "batches", "bytes", "messages", "open", "reply_lost", "since")

    since: float  # when it was read; only the request log sets it

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.batches: dict[bytes, Batch] = {}  # by name of the queue, in the order in which they were named
        self.acks: list[Ack] = []
        self.open = 0  # decisions that are not durable yet
        self.reply_lost = False  # the connection ends instead of an answer
        self.bytes = 0
        self.messages = 0

    def add(self, version: int, queue: TextQueue, contents: list[bytes]) -> None:
        batch = self.batches.get(queue.name)
        if batch is None:
            batch, start = Batch(queue, contents), 0
            self.batches[queue.name] = batch
        else:
            start = len(batch.contents)
            batch.contents = batch.contents + contents
        self.answers.append(Accepted(version, batch, start, len(contents)))

    def count(self, batch: Batch) -> None:
        self.messages += len(batch.contents)
        self.bytes += batch.count()

    def fail(self, error: BaseException, batch: Batch) -> Fault | None:
        """The sends of a batch are refused, with one answer each; the last of these."""
        answers, self.answers, fault = self.answers, [], None
        for answer in answers:
            if isinstance(answer, Fault) or answer.batch is not batch:
                self.answers.append(answer)
            else:
                fault = fault_of(error, answer.version, SEND, answer.batch.queue.name)
                self.answers += [fault] * answer.total
        return fault

    def decisions(self) -> list[Future[Any]]:
        sent = [batch.sent for batch in self.batches.values() if batch.sent is not None]
        return [*sent, *(ack.done for ack in self.acks)]

    def fail_what_is_lost(self) -> bool:
        """Of what was decided, some may never become durable; whether there was any."""
        lost = False
        for batch in self.batches.values():
            error = batch.sent.exception() if batch.sent is not None else None
            if error is not None:
                lost = True
                self.reply_lost |= isinstance(error, LostReplyError)
                self.fail(error, batch)
        self.acks = [ack for ack in self.acks if ack.done.exception() is not None]
        for window, taken, done in self.acks:
            window.held.update(taken)  # outstanding again
            self.reply_lost |= isinstance(done.exception(), LostReplyError)
        return lost or bool(self.acks)


def encode_answers(answers: Sequence[Answer], *, line: bool) -> bytes:
    parts = []
    for answer in (each for each in answers if each.version == 2):
        if isinstance(answer, Fault):
            parts.append(encode_fault(answer, line=line))
        else:
            _, batch, start, total = answer
            assert batch.sent is not None, "an answer is written after the publish"
            appended = batch.sent.result()
            parts.append(batch.queue.phrases(2, line).confirm(appended.first_id + appended.first + start, total))
    return b"".join(parts)
