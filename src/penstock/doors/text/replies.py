"""The reply to all requests of one read: answers in order, and the decisions that have to be durable first."""

from __future__ import annotations

from asyncio import Future
from typing import Any, NamedTuple, TypeAlias

from penstock.doors.text.codec import encode_fault
from penstock.doors.text.errors import fault_of
from penstock.doors.text.queues import TextQueue
from penstock.doors.text.requests import Fault
from penstock.doors.text.windows import Held, Window
from penstock.engine.port import Appended
from penstock.errors import LostReplyError
from penstock.wire.text_frames import SEND

COMMIT_FAILED = Fault(0, "unavailable", "A commit failed.")
REPLY_LOST = Fault(0, "unavailable", "An answer was lost.")


class Batch:
    """All messages that one read sends to one queue. They are published together."""

    __slots__ = ("contents", "queue", "sent")

    def __init__(self, queue: TextQueue, contents: list[bytes]) -> None:
        self.queue = queue
        self.contents = contents
        self.sent: Future[Appended] | None = None

    def count_bytes(self) -> int:
        return sum(map(len, self.contents))

    def send(self) -> Future[Appended]:
        self.sent = self.queue.send(self.contents)
        return self.sent


class Accepted(NamedTuple):
    """Consecutive sends of one client to one queue, confirmed together."""

    version: int
    batch: Batch
    start: int  # index of the first send in the batch
    total: int


class Ack(NamedTuple):
    window: Window
    released: dict[bytes, Held]
    done: Future[int]


Answer: TypeAlias = Accepted | Fault


class Reply:
    __slots__ = ("acks", "answers", "batches", "bytes", "is_lost", "messages", "since", "undecided")

    since: float  # when the requests were read. Only the request log sets it

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.batches: dict[bytes, Batch] = {}  # by name of the queue, in the order in which they were named
        self.acks: list[Ack] = []
        self.undecided = 0  # decisions whose commit has not ended
        self.is_lost = False  # the connection is aborted, and nothing is answered
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
        self.bytes += batch.count_bytes()

    def fail(self, error: BaseException, batch: Batch) -> Fault | None:
        """Refuse the sends of a batch, with one answer for each. Return one of version 01 if there is any (T-053)."""
        answers, self.answers, fault = self.answers, [], None
        for answer in answers:
            if isinstance(answer, Fault) or answer.batch is not batch:
                self.answers.append(answer)
            else:
                refused = fault_of(error, answer.version, SEND, answer.batch.queue.name)
                self.answers += [refused] * answer.total
                fault = fault if fault is not None and fault.version != 2 else refused
        return fault

    def decisions(self) -> list[Future[Any]]:
        sent = [batch.sent for batch in self.batches.values() if batch.sent is not None]
        return [*sent, *(ack.done for ack in self.acks)]

    def fail_lost_decisions(self) -> Fault | None:
        """Refuse the requests whose commit failed. Return a fault for the log, if there was such a request."""
        lost = None
        for batch in self.batches.values():
            error = batch.sent.exception() if batch.sent is not None else None
            if error is not None:
                self.is_lost |= isinstance(error, LostReplyError)
                answer = self.fail(error, batch)
                assert answer is not None, "every batch has an answer"
                fault = (
                    answer if getattr(error, "protocol_code", "") else COMMIT_FAILED._replace(version=answer.version)
                )
                lost = lost if lost is not None and lost.version != 2 else fault
        self.acks = [ack for ack in self.acks if ack.done.exception() is not None]
        for window, released, done in self.acks:
            window.held.update(released)  # outstanding again
            self.is_lost |= isinstance(done.exception(), LostReplyError)
        if self.is_lost:
            return REPLY_LOST
        return COMMIT_FAILED if self.acks else lost

    def encode(self, *, line: bool) -> bytes:
        """Encode the answers of version 02. Version 01 has none."""
        parts = []
        for answer in (answer for answer in self.answers if answer.version == 2):
            if isinstance(answer, Fault):
                parts.append(encode_fault(answer, line=line))
            else:
                _, batch, start, total = answer
                assert batch.sent is not None, "an answer is written after the publish"
                appended = batch.sent.result()
                parts.append(batch.queue.phrases(2, line).confirm(appended.first_id + appended.first + start, total))
        return b"".join(parts)
