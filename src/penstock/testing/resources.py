"""Topics, subscriptions and queues of a project: names that clients take as they are, and that can be asked.

What is asked for and is not so is an AssertionError, which says what there is instead. What the server cannot know any
more is an UnavailableError: neither yes nor no.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.admin.client import path_of
from penstock.errors import UnavailableError
from penstock.testing.arguments import check_message
from penstock.testing.deliveries import Delivery, History, histories, history_of
from penstock.testing.messages import LISTED_MAX, Message, Wanted, check_published, id_of, read_log
from penstock.wording import counted

if TYPE_CHECKING:
    from penstock.testing.project import Project

__tracebackhide__ = True  # a failing test shows its own line, not this module

SETTLE_SECONDS = 10.0
DEAD_LETTER_SOURCE = "CloudPubSubDeadLetterSource"
POISON = "-poison"  # what Azure Functions calls the queue for what fails


class Resource(str):
    """The name of something in a project, as clients call it."""

    __slots__ = ("project",)
    project: Project

    def __new__(cls, project: Project, name: str) -> Resource:
        made = super().__new__(cls, name)
        made.project = project
        return made

    @property
    def id(self) -> str:
        """The last part of its name."""
        return self.rpartition("/")[2]


class Topic(Resource):
    __slots__ = ()

    @property
    def messages(self) -> list[Message]:
        """Those that are kept, in the order in which they were published."""
        return list(read_log(self.project.server.admin, self).messages)

    def published(
        self,
        data: bytes | str | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        times: int | None = None,
    ) -> list[Message]:
        """Messages that were published here: at least one that is like this, or so many as `times` says."""
        check_message(data, attributes, ordering_key, times)
        log = read_log(self.project.server.admin, self)
        return check_published(self.id, log, Wanted(data, attributes, ordering_key), times)


class Subscription(Resource):
    __slots__ = ()

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait, in real seconds, until every message is done with; an AssertionError says what is left."""
        self.project.settle(self, seconds=seconds)

    def deliveries(self, message: object) -> list[Delivery]:
        """Of a message, given by its id or as a client received it. What no program saw does not count."""
        return list(self._history(message).deliveries)

    def acks(self, message: object) -> list[datetime]:
        """When it was acked: once at most, unless a seek brought it back."""
        return list(self._history(message).acks)

    def never_redelivered(self, *messages: object) -> None:
        """None of these messages, or none at all, was given to a program more than once."""
        if messages:
            told = [self._history(each) for each in messages]
        else:
            told = list(histories(self.project.server.admin, self._record["topic"], self))
        wrong = [each for each in told if len(each.deliveries) > 1]
        lines = [
            f"  message {each.offset}: {len(each.deliveries)} times\n    " + "\n    ".join(each.sentences)
            for each in wrong[:LISTED_MAX]
        ]
        if wrong:
            said = f"Of {self.id}, {counted(len(wrong), 'message')} came again:"
            raise AssertionError("\n".join([said, *lines]))

    def dead_letters(self) -> list[Message]:
        """What it gave up after its last attempt, as it arrived at the dead letter topic."""
        record = self._record
        topic = (record["options"].get("dead_letter_policy") or {}).get("dead_letter_topic")
        if not topic:
            raise AssertionError(f"{self.id} has no dead letter topic")
        log = read_log(self.project.server.admin, topic)
        source = Wanted(
            attributes={
                f"{DEAD_LETTER_SOURCE}Subscription": self.id,
                f"{DEAD_LETTER_SOURCE}SubscriptionProject": self.project.name,
            }
        )
        found = [each for each in log.messages if not source.differences(each)]
        if len(found) < record["dead_lettered"]:
            kept = f"{len(found)} of {record['dead_lettered']} dead letters of {self.id}"
            raise UnavailableError(f"{topic.rpartition('/')[2]} does not keep all any more: {kept}")
        return found

    @property
    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = self.project.server.admin.get(path_of("subscriptions", self))
        return record

    def _history(self, message: object) -> History:
        return history_of(self.project.server.admin, self._record["topic"], self, id_of(message))


class Queue(Resource):
    """A queue of Azure's clients or of the text protocol: a topic and its one subscription."""

    __slots__ = ()

    @property
    def topic(self) -> Topic:
        return self.project.topic(self)

    @property
    def subscription(self) -> Subscription:
        return self.project.subscription(self)

    @property
    def messages(self) -> list[Message]:
        """Those that are kept, deleted ones as well, as they were sent."""
        return self.topic.messages

    def published(
        self, data: bytes | str | None = None, *, attributes: Mapping[str, str] | None = None, times: int | None = None
    ) -> list[Message]:
        """As `Topic.published`: what was sent to it, deleted or not."""
        return self.topic.published(data, attributes=attributes, times=times)

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait, in real seconds, until it is empty; an AssertionError says what is left, hidden or visible."""
        self.subscription.settle(seconds)

    def deliveries(self, message: object) -> list[Delivery]:
        """The dequeues of a message."""
        return self.subscription.deliveries(message)

    def acks(self, message: object) -> list[datetime]:
        """When it was deleted."""
        return self.subscription.acks(message)

    def never_redelivered(self, *messages: object) -> None:
        """None of these messages, or none at all, was dequeued more than once."""
        self.subscription.never_redelivered(*messages)

    def dead_letters(self) -> list[Message]:
        """What was sent to its poison queue, which is named as Azure Functions names it."""
        return self.project.queue(f"{self}{POISON}").messages
