"""What is owed to a client, from the moment it is decided until it is durable and said."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from penstock.doors.text.codec import encode_fault
from penstock.doors.text.errors import fault_of
from penstock.doors.text.queues import TextQueue
from penstock.doors.text.requests import Fault
from penstock.doors.text.windows import Place, Window
from penstock.engine.port import Appended
from penstock.wire.textframes import SEND


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

    __slots__ = ("acks", "answers", "batches", "bytes", "messages", "open")

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.batches: dict[bytes, Batch] = {}  # by name of the queue, in the order in which they were named
        self.acks: list[Ack] = []
        self.open = 0  # decisions that are not durable yet
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
                self.fail(error, batch)
        self.acks = [ack for ack in self.acks if ack.done.exception() is not None]
        for window, taken, _ in self.acks:
            window.held.update(taken)  # outstanding again
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
