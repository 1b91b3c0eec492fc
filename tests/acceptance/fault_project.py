"""A project of the test kit with faults, and vendor clients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from queue import Queue
from typing import Any, Self

from azure.storage.queue import QueueClient

from penstock.admin.client import path_of
from penstock.testing import Project, Server
from penstock.testing.faults import Faults
from tests.server_process import SECONDS

_numbers = count(1)


class FaultProject(Project):
    def __init__(self, server: Server) -> None:
        super().__init__(server, server.project().name)
        self.admin = server.admin
        self.faults = Faults(server.admin, self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @cached_property
    def publisher(self) -> Any:
        return self.google_publisher()

    @cached_property
    def subscriber(self) -> Any:
        return self.google_subscriber()

    def watched(self, **options: Any) -> Topic:
        return Topic(self, f"topic-{next(_numbers)}", **options)

    def azure(self, **options: Any) -> QueueClient:
        client = QueueClient.from_connection_string(self.connection_string, f"queue-{next(_numbers)}", **options)
        client.create_queue()
        return client

    def texts(self, topic: str) -> list[str]:
        """Return the texts of all messages in a topic."""
        return [each["data"] for each in self.messages(topic)]

    def messages(self, topic: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin.get(path_of("topics", self.topic(topic), "messages"))["messages"]
        return found

    def waiting(self, subscription: str) -> int:
        return int(self.admin.get(path_of("subscriptions", self.subscription(subscription)))["backlog_messages"])


class Topic:
    """A topic with one subscription, for Google's clients."""

    def __init__(self, project: FaultProject, name: str, **options: Any) -> None:
        self.id = name
        self.project = project
        self.name, self.subscription = project.topic(name), project.subscription(name)
        project.publisher.create_topic(name=self.name)
        request = {"name": self.subscription, "topic": self.name, **options}
        project.subscriber.create_subscription(request=request)

    def publish(self, *texts: str) -> list[str]:
        return [self.project.publisher.publish(self.name, text.encode()).result(SECONDS) for text in texts]

    def pull(self, most: int = 10) -> list[Any]:
        answer = self.project.subscriber.pull(subscription=self.subscription, max_messages=most, timeout=SECONDS)
        return list(answer.received_messages)

    def texts(self, most: int = 10) -> list[str]:
        return [each.message.data.decode() for each in self.pull(most)]

    @contextmanager
    def listening(self, *, ack: Callable[[Any], None] | None = None) -> Iterator[Queue[Any]]:
        """Run Google's streaming subscriber in the background, and yield its messages. They are acked by default."""
        arrived: Queue[Any] = Queue()

        def on_message(message: Any) -> None:
            (ack or _ack)(message)
            arrived.put(message)

        listening = self.project.subscriber.subscribe(self.subscription, on_message)
        try:
            yield arrived
        finally:
            listening.cancel()
            listening.result(SECONDS)

    @property
    def waiting(self) -> int:
        return self.project.waiting(self.id)

    @property
    def published(self) -> list[str]:
        return self.project.texts(self.id)


def _ack(message: Any) -> None:
    message.ack()
