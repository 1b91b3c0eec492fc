"""What is owed to a client, from the moment it is decided until it is durable and said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.broker.publishing import Appended
from penstock.doors.text.codec import encode_fault
from penstock.doors.text.errors import fault_of
from penstock.doors.text.queues import TextQueue
from penstock.doors.text.requests import Fault
from penstock.doors.text.windows import Place, Window
from penstock.wire.textframes import SEND


class Batch:
    """What one read sends to one queue: one publish, however its messages were mixed with others."""

    __slots__ = ("appended", "contents", "queue")

    def __init__(self, queue: TextQueue, contents: list[bytes]) -> None:
        self.queue = queue
        self.contents = contents
        self.appended: Appended | None = None

    def count(self) -> int:
        """Bytes."""
        return sum(map(len, self.contents))

    def append(self) -> None:
        self.appended = self.queue.append(self.contents)


class Accepted(NamedTuple):
    """Consecutive sends of one client to one queue, confirmed together."""

    version: int
    batch: Batch
    start: int  # their place in the batch
    total: int


Answer: TypeAlias = Accepted | Fault


class Turn:
    """What one read decided and has yet to answer."""

    __slots__ = ("acked", "answers", "batches", "bytes", "messages")

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.batches: dict[bytes, Batch] = {}  # by name of the queue, in the order in which they were named
        self.acked: list[tuple[Window, dict[bytes, Place]]] = []  # outstanding again if the commit fails
        self.bytes = 0
        self.messages = 0

    @property
    def decided(self) -> bool:
        return bool(self.messages)

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

    def fail(self, error: BaseException, batch: Batch | None = None) -> Fault | None:
        """Sends, those of one batch or all, are refused, with one answer each; the last of these."""
        answers, self.answers, fault = self.answers, [], None
        for answer in answers:
            if isinstance(answer, Fault) or batch not in (None, answer.batch):
                self.answers.append(answer)
            else:
                fault = fault_of(error, answer.version, SEND, answer.batch.queue.name)
                self.answers += [fault] * answer.total
        return fault

    def restore(self) -> None:
        """Messages whose acknowledgement is lost are outstanding again."""
        for window, taken in self.acked:
            window.held.update(taken)


def encode_answers(answers: Sequence[Answer], *, line: bool) -> bytes:
    return b"".join([_encode(answer, line) for answer in answers if answer.version == 2])


def _encode(answer: Answer, line: bool) -> bytes:
    if isinstance(answer, Fault):
        return encode_fault(answer, line=line)
    _, batch, start, total = answer
    appended = batch.appended
    assert appended is not None, "an answer is written after the publish"
    return batch.queue.phrases(2, line).confirm(appended.first_id + appended.first + start, total)
