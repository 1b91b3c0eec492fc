"""Topics, subscriptions and queues of a project, which are also the names that clients take.

A failed check raises AssertionError, which says what there is instead. UnavailableError means that the server no longer
has the data to check.
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
POISON = "-poison"  # suffix of Azure Functions for the queue of failed messages


class Resource(str):
    """The name of a resource, for clients."""

    __slots__ = ("project",)
    project: Project

    def __new__(cls, project: Project, name: str) -> Resource:
        resource = super().__new__(cls, name)
        resource.project = project
        return resource

    @property
    def id(self) -> str:
        """The last part of the name."""
        return self.rpartition("/")[2]


class Topic(Resource):
    """A topic of a test project. As a str it is the full name."""

    __slots__ = ()

    @property
    def messages(self) -> list[Message]:
        """The stored messages, in publish order."""
        return list(read_log(self.project.server.admin, self).messages)

    def published(
        self,
        data: bytes | str | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        times: int | None = None,
    ) -> list[Message]:
        """Return the published messages that match. None matches anything, and other attributes are allowed.

        Raise AssertionError unless at least one matches, or exactly `times` if it is set.
        """
        check_message(data, attributes, ordering_key, times)
        log = read_log(self.project.server.admin, self)
        return check_published(self.id, log, Wanted(data, attributes, ordering_key), times)


class Subscription(Resource):
    """A subscription of a test project. As a str it is the full name."""

    __slots__ = ()

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until no message is left. Raise AssertionError, with a list of them, after `seconds` of real time."""
        self.project.settle(self, seconds=seconds)

    def deliveries(self, message: object) -> list[Delivery]:
        """Return the deliveries of a message, given by its id or as a client received it.

        A delivery that no program saw is left out.
        """
        return list(self._history(message).deliveries)

    def acks(self, message: object) -> list[datetime]:
        """Return the times at which a message was acked: at most one, unless a seek brought the message back."""
        return list(self._history(message).acks)

    def never_redelivered(self, *messages: object) -> None:
        """Raise AssertionError if one of these messages, or of all messages, was delivered more than once."""
        if messages:
            checked = [self._history(message) for message in messages]
        else:
            checked = list(histories(self.project.server.admin, self._record["topic"], self))
        wrong = [history for history in checked if len(history.deliveries) > 1]
        lines = [
            f"  message {history.offset}: {len(history.deliveries)} times\n    " + "\n    ".join(history.sentences)
            for history in wrong[:LISTED_MAX]
        ]
        if wrong:
            summary = f"{self.id} redelivered {counted(len(wrong), 'message')}:"
            raise AssertionError("\n".join([summary, *lines]))

    def dead_letters(self) -> list[Message]:
        """Return the messages that were dead-lettered, as they are in the dead letter topic."""
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
        letters = [message for message in log.messages if not source.differences(message)]
        if len(letters) < record["dead_lettered"]:
            kept = f"{len(letters)} of {record['dead_lettered']} dead letters of {self.id}"
            raise UnavailableError(f"{topic.rpartition('/')[2]} has only {kept}")
        return letters

    @property
    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = self.project.server.admin.get(path_of("subscriptions", self))
        return record

    def _history(self, message: object) -> History:
        return history_of(self.project.server.admin, self._record["topic"], self, id_of(message))


class Queue(Resource):
    """A queue of Azure's clients or of the text protocol: a topic with one subscription. As a str it is the name."""

    __slots__ = ()

    @property
    def topic(self) -> Topic:
        """The topic of the queue."""
        return self.project.topic(self)

    @property
    def subscription(self) -> Subscription:
        """The subscription of the queue."""
        return self.project.subscription(self)

    @property
    def messages(self) -> list[Message]:
        """The stored messages as they were sent, including deleted ones."""
        return self.topic.messages

    def published(
        self, data: bytes | str | None = None, *, attributes: Mapping[str, str] | None = None, times: int | None = None
    ) -> list[Message]:
        """Return the sent messages that match, including deleted ones. See `Topic.published`."""
        return self.topic.published(data, attributes=attributes, times=times)

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until the queue is empty, also of hidden messages. Raise AssertionError after `seconds` of real time."""
        self.subscription.settle(seconds)

    def deliveries(self, message: object) -> list[Delivery]:
        """Return the dequeues of a message."""
        return self.subscription.deliveries(message)

    def acks(self, message: object) -> list[datetime]:
        """Return the times at which a message was deleted."""
        return self.subscription.acks(message)

    def never_redelivered(self, *messages: object) -> None:
        """Raise AssertionError if one of these messages, or of all messages, was dequeued more than once."""
        self.subscription.never_redelivered(*messages)

    def dead_letters(self) -> list[Message]:
        """Return the messages of the poison queue, NAME-poison, as in Azure Functions."""
        return self.project.queue(f"{self}{POISON}").messages
