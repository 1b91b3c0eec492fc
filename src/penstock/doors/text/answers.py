"""What is owed to a client, from the moment it is decided until it is durable and said.

The rule kept here: answers leave in the order of the requests (T-023), each in the version of what it answers, and
version 01 is owed none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.broker.names import log_key
from penstock.broker.publishing import Appended
from penstock.doors.text.codec import encode_fault
from penstock.doors.text.errors import fault_of
from penstock.doors.text.queues import TextQueue
from penstock.doors.text.requests import Fault
from penstock.doors.text.windows import Place, Window
from penstock.wire.textframes import SEND


class Accepted(NamedTuple):
    """Sends that were decided together and are confirmed together."""

    version: int
    queue: TextQueue
    appended: Appended


Answer: TypeAlias = Accepted | Fault


class Turn:
    """What one read decided and has yet to answer."""

    __slots__ = ("acked", "answers", "bytes", "messages")

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.acked: list[tuple[Window, dict[bytes, Place]]] = []  # outstanding again if the commit fails
        self.bytes = 0
        self.messages = 0

    @property
    def decided(self) -> bool:
        return bool(self.messages or self.acked)

    def fail(self, error: BaseException) -> None:
        """Nothing that was decided counts. Messages whose ack is lost stay outstanding."""
        answers, self.answers = self.answers, []
        for answer in answers:
            if isinstance(answer, Fault):
                self.answers.append(answer)
            elif answer.version == 2:
                fault = fault_of(error, 2, SEND, answer.queue.name)
                self.answers += [fault] * answer.appended.total
        for window, taken in self.acked:
            window.held.update(taken)


def encode_answers(answers: Sequence[Answer], *, line: bool) -> bytes:
    return b"".join([_encode(answer, line) for answer in answers if answer.version == 2])


def _encode(answer: Answer, line: bool) -> bytes:
    if isinstance(answer, Fault):
        return encode_fault(answer, line=line)
    appended = answer.appended
    return answer.queue.phrases(2, line).confirm(log_key(appended.topic, appended.first), appended.total)
