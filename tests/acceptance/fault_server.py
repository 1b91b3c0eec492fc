"""A server for tests as a process, the faults of one project of it, and the clients of its doors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1

from penstock.admin.client import Client, path_of
from penstock.testing.faults import Faults
from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.server_process import SECONDS, ServerProcess

PROJECT = "demo"  # of all clients that name none: text, and Azure's development account
_numbers = count(1)


class FaultServer(ServerProcess):
    def __init__(self, folder: Path, *arguments: str) -> None:
        given = ["--memory", "--testing", "--default-project", PROJECT, *arguments]
        super().__init__(folder, *given, doors=["pubsub", "azure", "text", "http"])
        self.admin = Client(self.addresses["http"])
        self.faults = Faults(self.admin, PROJECT)

    def __exit__(self, *error: object) -> None:
        self.admin.close()
        if "publisher" in self.__dict__:
            self.publisher.stop()
            self.publisher.transport.close()
        if "subscriber" in self.__dict__:
            self.subscriber.close()
        super().__exit__(*error)

    @cached_property
    def publisher(self) -> pubsub_v1.PublisherClient:
        return pubsub_v1.PublisherClient()

    @cached_property
    def subscriber(self) -> pubsub_v1.SubscriberClient:
        return pubsub_v1.SubscriberClient()

    def topic(self, **options: Any) -> Topic:
        return Topic(self, f"topic-{next(_numbers)}", **options)

    def azure(self, **options: Any) -> QueueClient:
        string = connection_string(f"http://{self.addresses['azure']}/{ACCOUNT}")
        client = QueueClient.from_connection_string(string, f"queue-{next(_numbers)}", **options)
        client.create_queue()
        return client

    def messages(self, topic: str) -> list[dict[str, Any]]:
        """What a topic has, whoever published it."""
        found: list[dict[str, Any]] = self.admin.get(path_of("topics", topic, "messages"))["messages"]
        return found

    def waiting(self, subscription: str) -> int:
        return int(self.admin.get(path_of("subscriptions", subscription))["backlog_messages"])


class Topic:
    """A topic with one subscription, for Google's clients."""

    def __init__(self, server: FaultServer, name: str, **options: Any) -> None:
        self.id = name
        self.server = server
        self.name = f"projects/{PROJECT}/topics/{name}"
        self.subscription = f"projects/{PROJECT}/subscriptions/{name}-sub"
        server.publisher.create_topic(name=self.name)
        request = {"name": self.subscription, "topic": self.name, **options}
        server.subscriber.create_subscription(request=request)

    def publish(self, *texts: str) -> list[str]:
        return [self.server.publisher.publish(self.name, text.encode()).result(SECONDS) for text in texts]

    def pull(self, most: int = 10) -> list[Any]:
        answer = self.server.subscriber.pull(subscription=self.subscription, max_messages=most, timeout=SECONDS)
        return list(answer.received_messages)

    def texts(self, most: int = 10) -> list[str]:
        return [each.message.data.decode() for each in self.pull(most)]

    @contextmanager
    def listening(self, *, ack: Callable[[Any], None] | None = None) -> Iterator[Queue[Any]]:
        """Google's streaming subscriber, in the background; what it gets, acked unless told otherwise."""
        arrived: Queue[Any] = Queue()

        def on_message(message: Any) -> None:
            (ack or _ack)(message)
            arrived.put(message)

        listening = self.server.subscriber.subscribe(self.subscription, on_message)
        try:
            yield arrived
        finally:
            listening.cancel()
            listening.result(SECONDS)

    @property
    def published(self) -> list[str]:
        return [each["data"] for each in self.server.messages(self.name)]


def _ack(message: Any) -> None:
    message.ack()
